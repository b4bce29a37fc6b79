"""The intake of tier 1: which columns are computed from every row of a stream, for all queries that read it.

Queries share what they can: an expression that two of them need is computed and shuffled once, and queries with the
same PARTITION BY share a route, that is one copy of each row. No Spark here; `spark/tier_one.py` makes columns of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from trimtab.keyed_state import SLOT as SLOT
from trimtab.language.compiled import Query
from trimtab.rowwise.determined import determined_by
from trimtab.rowwise.local import bare_column
from trimtab.worker.row_hash import has_columnar_hash

ROUTE = "__route"
ORIGINAL = "__original"
PARTITION = "__partition"
POSITION = "__position"
"""Where in its partition a row of trimtab's own source is; only beside whole rows, for quarantine."""
SOURCE_PARTITION = "__source_partition"
"""The column that names the partition of a row of trimtab's own source; queries don't see it."""
SOURCE_POSITION = "__source_position"
"""Beside it: where in the partition the row is; null unless whole rows are kept."""
SOURCE_UNDECODED = "__source_undecoded"
"""On the way through the JVM also why the task that read a row sets it aside, else null; with its position, and its
value if it couldn't be decoded."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A column of tier 1: its name on the way to the engines, and the Spark SQL text that computes it.

    `type`: the type that the query needs; None: whatever the text gives. `source`: the stream's column, if it is
    only passed on.
    """

    name: str
    text: str
    type: pa.DataType | None
    source: str | None


@dataclass(frozen=True, slots=True)
class Route:
    """A way of dividing the stream over engines: by these columns; without any, by the rows' content.

    `split`: the rows of a hot key may go to several engines.
    """

    keys: tuple[str, ...]
    is_keyed: bool
    split: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """How a query reads what arrives at an engine.

    `columns` pairs the names that its operator uses with those of the arriving columns. `wanted`: the column with the
    result of its WHERE. `computed`: the columns whose computation may fail for a row, which then goes to quarantine.
    `arrival`: the column with a hash of the columns `ties`, which breaks ties in time: of all columns that the query
    reads, but for those that follow from others of the stream in a way that `rowwise/determined.py` knows. So queries
    that compare the same columns with different numbers break ties alike, and share the order of their rows.
    """

    query: str
    route: int
    columns: tuple[tuple[str, str], ...]
    wanted: str | None
    computed: tuple[str, ...]
    failed: str | None
    arrival: str
    ties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Intake:
    """All of tier 1 for one stream."""

    columns: tuple[Computed, ...]
    routes: tuple[Route, ...]
    readings: tuple[Reading, ...]
    time: str
    partition: str | None = None  # the stream's column that names a row's partition

    @property
    def is_of_source(self) -> bool:
        """Whether trimtab reads the rows itself."""
        return self.partition == SOURCE_PARTITION

    @property
    def is_computed(self) -> bool:
        """Whether Spark has something to compute."""
        return any(column.source is None for column in self.columns)

    @property
    def is_filtered(self) -> bool:
        """Whether every query has a WHERE, so that rows that no query wants can be dropped before the shuffle."""
        return all(reading.wanted is not None for reading in self.readings)

    @property
    def split_readings(self) -> tuple[Reading, ...]:
        """The queries whose hot keys may be spread."""
        return tuple(reading for reading in self.readings if self.routes[reading.route].split)


def intake_of(
    queries: Mapping[str, Query],
    schema: pa.Schema,
    event_time: str,
    split: Collection[str] = (),
    partition_by: str | None = None,
) -> Intake:
    """What tier 1 computes for these queries over a stream of this schema; `split`: those whose hot keys may spread."""
    columns: dict[tuple[str, pa.DataType | None], Computed] = {}

    def column(text: str, kind: pa.DataType | None) -> Computed:
        source = own_spelling(bare_column(text), schema)
        key = (source or text, None if source else kind)
        if key not in columns:
            columns[key] = Computed(f"c{len(columns)}", text, key[1], source)
        return columns[key]

    time = column(f"`{event_time}`", None)
    routes: list[Route] = []
    readings: list[Reading] = []
    arrivals: dict[tuple[str, ...], str] = {}
    for name, query in queries.items():
        kinds = query.intake.types or (None,) * len(query.intake.columns)
        own = {known: column(text, kind) for (known, text), kind in zip(query.intake.columns, kinds, strict=True)}
        wanted = None if query.intake.where is None else column(query.intake.where, pa.bool_())
        keys = tuple(own[each].name for each in query.operator.partition)
        route = Route(keys, query.operator.is_keyed, name in split)
        if route not in routes:
            routes.append(route)
        ties = _ties(own.values(), schema, column)
        computed = tuple(c.name for c in [*own.values(), *([wanted] if wanted else [])] if c.source is None)
        readings.append(
            Reading(
                query=name,
                route=routes.index(route),
                columns=tuple((known, each.name) for known, each in own.items()),
                wanted=None if wanted is None else wanted.name,
                computed=computed,
                failed=f"f{len(readings)}" if computed else None,
                arrival=arrivals.setdefault(ties, f"a{len(arrivals)}"),
                ties=ties,
            )
        )
    partition = partition_by if partition_by == SOURCE_PARTITION else own_spelling(partition_by, schema)
    return Intake(tuple(columns.values()), tuple(routes), tuple(readings), time.name, partition)


def _ties(
    read: Iterable[Computed], schema: pa.Schema, column: Callable[[str, pa.DataType | None], Computed]
) -> tuple[str, ...]:
    """The columns that tell apart rows which differ for a query; their order doesn't depend on other queries."""
    found: dict[str, Computed] = {}
    for each in read:
        own = None if each.source is not None else determined_by(each.text, schema)
        if own is None or not all(has_columnar_hash(schema.field(name).type) for name in own):
            found[each.source or each.text] = each
        else:
            found |= {name: column(f"`{name.replace('`', '``')}`", None) for name in own}
    return tuple(found[name].name for name in sorted(found))


def own_spelling(name: str | None, schema: pa.Schema) -> str | None:
    """The stream's column of this name: case doesn't matter, as in Spark."""
    if name is None:
        return None
    return next((each for each in schema.names if each.lower() == name.lower()), None)
