"""Whether rows may be put into a Delta table as files that tasks have written, by what the table asks of its writers.

deltalake itself knows constraints, generated columns and so on, and writes through it honour them or fail. Files that
are added to the table's log pass by all of that, so only tables that ask for nothing of the kind get them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HARMLESS = {
    *("appendOnly", "changeDataFeed", "deletionVectors", "timestampNtz", "vacuumProtocolCheck"),
    # Tables may have these without using them: whether they do is seen in the configuration and the fields.
    *("invariants", "checkConstraints", "generatedColumns", "identityColumns", "columnMapping"),
}
"""Features of tables that ask nothing of those who append files."""
_SAFE = {
    *("string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary"),
    *("date", "timestamp", "timestamp_ntz"),
}
_INEXACT = ("float", "double", "binary")
_REMARK = "comment"

Field = Mapping[str, Any]
"""A column as Delta describes it in JSON: its name, type, whether there may be nulls, and metadata."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a table's log says about how it has to be written."""

    fields: Sequence[Field]
    features: Collection[str]
    configuration: Mapping[str, str]


def obstacle(own: Sequence[Field], by: Collection[str], table: TableFacts | None) -> str:
    """Why rows with these fields have to go through deltalake; "" if files may be added.

    `by`: the columns that the table has partitions by. `table`: None if it is to be made.

    >>> number = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
    >>> obstacle([number], [], TableFacts([number], ["appendOnly"], {}))
    ''
    >>> obstacle([number], [], TableFacts([number], ["rowTracking"], {}))
    'the table has the feature rowTracking'
    >>> obstacle([number], [], TableFacts([number], [], {"delta.constraints.positive": "n > 0"}))
    'the table has the constraint positive'
    """
    for field in own:
        if not _is_safe(field["type"]):
            return f"the type of {field['name']}"
        if field["name"] in by and not _can_name_folders(field["type"]):
            return f"partitions by {field['name']}"
    return "" if table is None else _of_table(own, table)


def _of_table(own: Sequence[Field], table: TableFacts) -> str:
    for feature in sorted(table.features):
        if feature not in HARMLESS:
            return f"the table has the feature {feature}"
    for key, value in table.configuration.items():
        if key.startswith("delta.constraints."):
            return f"the table has the constraint {key.removeprefix('delta.constraints.')}"
        if key == "delta.columnMapping.mode" and value != "none":
            return "the table maps names of columns"
    types = {field["name"]: field["type"] for field in own}
    for field in table.fields:
        if not field["nullable"] or not _is_plain(field):
            return f"the table has rules for {field['name']}"
    if types != {field["name"]: field["type"] for field in table.fields}:
        return "the table has other columns"
    return ""


def _is_plain(field: Field) -> bool:
    """Whether nothing is said of the values: fields in it have been compared, and ours have no metadata."""
    return not set(field["metadata"]) - {_REMARK}


def _is_safe(kind: Any) -> bool:
    """Whether parquet files have the type in one way only, and as Delta's readers expect it."""
    if isinstance(kind, str):
        return kind in _SAFE or kind.startswith("decimal(")
    match kind["type"]:
        case "array":
            return _is_safe(kind["elementType"])
        case "map":
            return _is_safe(kind["keyType"]) and _is_safe(kind["valueType"])
        case "struct":
            return all(_is_safe(field["type"]) for field in kind["fields"])
        case _:
            return False


def _can_name_folders(kind: Any) -> bool:
    return isinstance(kind, str) and kind not in _INEXACT
