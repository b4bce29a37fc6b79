"""The contract of a source, as a check that users run on their own: what a job relies on when it repeats a batch."""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping

import pyarrow as pa

from trimtab.sources.source import UNDECODED, Partition, Range, Rows, Source
from trimtab.testing.laws import BrokenLawError

READS = 20
LONGEST = 1000


def check_source(source: Source, *, reads: int = READS, longest: int = LONGEST, seed: int = 0) -> None:
    """Check that a source keeps the contract of `Source` on what it holds now.

    1. Every partition has an end. Its `earliest` isn't after its `start`, nor that after its end, and neither
       `earliest` nor the end ever falls.
    2. Rows have the source's schema, as many times of appending as there are rows, and positions that ascend within the
       range.
    3. A range gives the same when it is read again, read by a pickled copy, or read in two parts.
    4. An empty range gives an empty table with the schema.

    Args:
        source: The source, with some rows in it: on an empty one there is little to check.
        reads: How many ranges are read in each partition.
        longest: How many positions a range has at most.
        seed: Where the random choices start from.

    Raises:
        BrokenLawError: With the rule that is broken, and where.
    """
    partitions, latest = source.partitions(), source.latest()
    _check_names(partitions, latest)
    dice, ranges = random.Random(seed), list[Range]()
    for name, partition in partitions.items():
        _check_places(name, partition, latest[name])
        for place in {partition.earliest, latest[name]}:
            _check_empty(source, Range(name, place, place))
        ranges += _ranges(name, partition.earliest, latest[name], reads, longest, dice)
    for part in ranges:
        _check_range(source, part, dice.randint(part.start, part.end))
    _check_copy(source, _copied(source), ranges)
    _check_later(partitions, source.partitions(), latest, source.latest())


def _check_names(partitions: Mapping[str, Partition], latest: Mapping[str, int]) -> None:
    # A partition may appear between the two calls; none may lack its end.
    if lacking := sorted(partitions.keys() - latest.keys()):
        raise BrokenLawError(f"latest() has no end for partition {lacking[0]!r}, which partitions() names")


def _check_places(name: str, partition: Partition, end: int) -> None:
    if not 0 <= partition.earliest <= partition.start <= end:
        places = f"earliest {partition.earliest}, start {partition.start}, latest {end}"
        raise BrokenLawError(f"partition {name!r}: positions don't ascend: {places}")


def _check_later(
    partitions: Mapping[str, Partition],
    partitions_later: Mapping[str, Partition],
    latest: Mapping[str, int],
    latest_later: Mapping[str, int],
) -> None:
    for name, end in latest.items():
        if latest_later.get(name, -1) < end:
            raise BrokenLawError(f"partition {name!r}: latest() fell from {end} to {latest_later.get(name)}")
    for name, partition in partitions.items():
        later = partitions_later.get(name)
        if later is None or later.earliest < partition.earliest:
            raise BrokenLawError(f"partition {name!r}: it was {partition}, and is {later} now")


def _ranges(name: str, earliest: int, end: int, reads: int, longest: int, dice: random.Random) -> list[Range]:
    """The ranges to read: the first and the last, as long as allowed, and random ones."""
    if earliest == end or reads < 1:
        return []
    found = [Range(name, earliest, min(end, earliest + longest)), Range(name, max(earliest, end - longest), end)]
    while len(found) < reads:
        start = dice.randrange(earliest, end)
        found.append(Range(name, start, dice.randint(start + 1, min(end, start + longest))))
    return found[:reads]


def _check_empty(source: Source, part: Range) -> None:
    rows = source.read(part)
    _check_shape(source, part, rows)
    if rows.table.num_rows or (rows.undecoded is not None and rows.undecoded.num_rows):
        raise BrokenLawError(f"{part} is empty, but has {_counted(rows)}")


def _check_copy(source: Source, copied: Source, ranges: list[Range]) -> None:
    if not copied.schema.equals(source.schema):
        raise BrokenLawError(f"a pickled copy has another schema\n{copied.schema}\ninstead of\n{source.schema}")
    for part in ranges:
        _check_same(part, "by a pickled copy", source.read(part), copied.read(part))


def _check_range(source: Source, part: Range, middle: int) -> None:
    rows = source.read(part)
    _check_shape(source, part, rows)
    parts = [source.read(Range(part.partition, *ends)) for ends in ((part.start, middle), (middle, part.end))]
    _check_same(part, "a second time", rows, source.read(part))
    _check_same(part, f"in two parts, cut at {middle}", rows, _joined(parts))


def _check_shape(source: Source, part: Range, rows: Rows) -> None:
    if not rows.table.schema.equals(source.schema):
        raise BrokenLawError(f"{part}: the rows have the schema\n{rows.table.schema}\ninstead of\n{source.schema}")
    if rows.appended_us is not None and (
        len(rows.appended_us) != rows.table.num_rows or rows.appended_us.type != pa.int64()
    ):
        message = f"{len(rows.appended_us)} times of appending, as {rows.appended_us.type}, for {_counted(rows)}"
        raise BrokenLawError(f"{part}: {message}: give an int64 for each row, or None")
    _check_positions(part, rows)
    if (undecoded := rows.undecoded) is None:
        return
    if not undecoded.schema.equals(UNDECODED):
        raise BrokenLawError(
            f"{part}: what can't be decoded has the schema\n{undecoded.schema}\ninstead of\n{UNDECODED}"
        )
    places = list(zip(undecoded["partition"].to_pylist(), undecoded["position"].to_pylist(), strict=True))
    for name, position in places:
        if name != part.partition or not part.start <= position < part.end:
            raise BrokenLawError(f"{part}: it has something of partition {name!r}, position {position}")
    if places != sorted(places):
        raise BrokenLawError(f"{part}: the positions of what can't be decoded don't ascend")


def _check_positions(part: Range, rows: Rows) -> None:
    if rows.positions is None:
        return
    if len(rows.positions) != rows.table.num_rows or rows.positions.type != pa.int64():
        message = f"{len(rows.positions)} positions, as {rows.positions.type}, for {_counted(rows)}"
        raise BrokenLawError(f"{part}: {message}: give an int64 for each row, or None")
    places = rows.positions.to_pylist()
    if places != sorted(places) or not all(part.start <= place < part.end for place in places):
        raise BrokenLawError(f"{part}: the positions of its rows don't ascend, or are outside of the range")


def _check_same(part: Range, how: str, expected: Rows, found: Rows) -> None:
    kinds = (
        ("rows", expected.table, found.table),
        ("times of appending", _times(expected), _times(found)),
        ("positions", _positions(expected), _positions(found)),
        ("rows that can't be decoded", _undecoded(expected), _undecoded(found)),
    )
    for kind, one, other in kinds:
        if one.num_rows != other.num_rows:
            raise BrokenLawError(f"{part}: read {how}, it has {other.num_rows} {kind} instead of {one.num_rows}")
        # NaN isn't equal to NaN, but is written the same.
        if (
            not one.equals(other)
            and (lists := (one.to_pylist(), other.to_pylist()))
            and repr(lists[0]) != repr(lists[1])
        ):
            row = next(row for row, (a, b) in enumerate(zip(*lists, strict=True)) if repr(a) != repr(b))
            texts = f"{lists[1][row]}\ninstead of\n{lists[0][row]}"
            raise BrokenLawError(f"{part}: read {how}, its {kind} are others: number {row} is\n{texts}")


def _times(rows: Rows) -> pa.Table:
    return pa.table({"appended_us": pa.array([], pa.int64()) if rows.appended_us is None else rows.appended_us})


def _positions(rows: Rows) -> pa.Table:
    return pa.table({"position": pa.array([], pa.int64()) if rows.positions is None else rows.positions})


def _undecoded(rows: Rows) -> pa.Table:
    return UNDECODED.empty_table() if rows.undecoded is None else rows.undecoded


def _joined(parts: list[Rows]) -> Rows:
    appended = pa.concat_tables(map(_times, parts))["appended_us"].combine_chunks()
    positions = pa.concat_tables(map(_positions, parts))["position"].combine_chunks()
    table = pa.concat_tables([part.table for part in parts])
    return Rows(table, appended, pa.concat_tables(map(_undecoded, parts)), positions=positions)


def _copied(source: Source) -> Source:
    try:
        copied: Source = pickle.loads(pickle.dumps(source))
    except Exception as error:  # whatever its own methods raise
        message = f"it can't be pickled, but workers get it that way: {type(error).__name__}: {error}"
        raise BrokenLawError(
            f"{message}\nits class has to stand in a module, and it may hold no open connections"
        ) from error
    return copied


def _counted(rows: Rows) -> str:
    lost = 0 if rows.undecoded is None else rows.undecoded.num_rows
    return f"{rows.table.num_rows} rows" + (f" and {lost} that can't be decoded" if lost else "")
