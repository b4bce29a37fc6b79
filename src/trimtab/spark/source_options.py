"""The options of Spark's own sources: Spark ignores one that is misspelt, so they are compared before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimtab.language.mistakes import nearest

_FILES = """path basePath cleanSource compression discardCachedInputRatio fileNameOnly ignoreCorruptFiles
    ignoreMissingFiles latestFirst maxBytesPerTrigger maxCachedFiles maxFileAge maxFilesPerTrigger modifiedAfter
    modifiedBefore pathGlobFilter recursiveFileLookup sourceArchiveDir timeZone """
_TEXTS = """charset columnNameOfCorruptRecord dateFormat enableDateTimeParsingFallback encoding lineSep locale mode
    multiLine samplingRatio singleVariantColumn timeFormat timestampFormat timestampNTZFormat """
_CSV = """charToEscapeQuoteEscaping codec columnPruning comment delimiter emptyValue enforceSchema escape escapeQuotes
    extension header ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace inferSchema inputBufferSize maxCharsPerColumn
    maxColumns nanValue negativeInf nullValue positiveInf preferDate quote quoteAll sep unescapedQuoteHandling"""
_JSON = """allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros
    allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull explodeEmbeddedArray
    ignoreNullFields inferTimestamp prefersDecimal pretty primitivesAsString sortKeys useUnsafeRow
    writeNonAsciiCharacterAsCodePoint"""
_KAFKA = """assign endingOffsets endingOffsetsByTimestamp endingTimestamp failOnDataLoss groupIdPrefix includeHeaders
    maxOffsetsPerTrigger maxRecordsPerPartition maxTriggerDelay minOffsetsPerTrigger minPartitions startingOffsets
    startingOffsetsByTimestamp startingOffsetsByTimestampStrategy startingTimestamp subscribe subscribePattern"""
KNOWN: Mapping[str, tuple[str, ...]] = {
    format_: tuple(names.split())
    for format_, names in {
        "csv": _FILES + _TEXTS + _CSV,
        "json": _FILES + _TEXTS + _JSON,
        "orc": _FILES + "mergeSchema",
        "parquet": _FILES + "datetimeRebaseMode int96RebaseMode mergeSchema",
        "text": _FILES + "encoding lineSep wholetext",
        "kafka": _KAFKA,
        "rate": "numPartitions rampUpTime rowsPerSecond",
        "rate-micro-batch": "advanceMillisPerBatch numPartitions rowsPerBatch startTimestamp",
        "socket": "host includeTimestamp numPartitions port",
    }.items()
}
"""All options of a source. A test compares those of file formats with the lists of the Spark that is installed."""


def unknown_options(format_: str, options: Iterable[str]) -> dict[str, str]:
    """The options that a source isn't known to have, each with the one that was probably meant, or "".

    One with a dot in its name isn't the source's own: it is handed on to Kafka's client or to Hadoop.

    >>> unknown_options("rate", ["RowsPerSecond", "rampUpTimes", "colour"])
    {'rampUpTimes': 'rampUpTime', 'colour': ''}
    """
    known = KNOWN.get(format_, ("path",))
    lower = {name.lower() for name in known}
    return {name: nearest(name, known, 0.8) for name in options if name.lower() not in lower and "." not in name}
