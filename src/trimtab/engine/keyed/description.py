"""A user's own keyed operator: what the user writes, and the names under which queries find it.

It has three parts. The description is a frozen dataclass with the operator's arguments. It opens a logic for a key,
which gets the key's rows in order. Between batches only the logic's snapshot is kept, from which the description opens
the logic again, maybe on another engine, or after a crash.
"""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from trimtab.engine.signature import signature_of
from trimtab.errors import OperatorError

Snapshot = Mapping[str, Any]
"""A key's state: a plain value for every field of the description's `state`."""


class Logic(Protocol):
    """What an operator does for one key. It may also have the methods of `Timed` and `Closing`."""

    def on_rows(self, rows: pa.Table) -> pa.Table | None:
        """Take the key's next rows, at least one, in order; return the output rows that are decided now.

        How many come at once must not matter: the same rows in two calls have to give the same output as in one.
        """

    def snapshot(self) -> Snapshot | None:
        """All that the key needs to go on; None: nothing, so that the key can be forgotten."""


@runtime_checkable
class Timed(Protocol):
    """A logic that is also called when time has passed, whether rows come or not."""

    def wake_us(self) -> int | None:
        """The next time to call `on_time` at, in microseconds since the epoch; None: never."""

    def on_time(self, wake_us: int) -> pa.Table | None:
        """The time that `wake_us` returned has come: no older rows will come any more.

        Many rows are handed over at once, so `on_rows` may get rows of that time or later before this call: it has to
        treat such a row as the sign that the time has come.
        """


@runtime_checkable
class Closing(Protocol):
    """A logic that is also called when the input ends."""

    def on_close(self) -> pa.Table | None:
        """The input has ended; return the last output rows."""


class KeyedOperator(ABC):
    """The description of an operator: subclass it as a frozen dataclass whose fields are the arguments in SQL.

    `output`: the columns that it puts out after the key. `state`: the fields of a snapshot. `columns`: the columns of
    the input that the logic reads; None: all of them. `version`: raise it when older snapshots no longer fit.
    """

    output: ClassVar[pa.Schema]
    state: ClassVar[pa.Schema]
    columns: ClassVar[tuple[str, ...] | None] = None
    version: ClassVar[int] = 1

    @abstractmethod
    def open(self, snapshot: Snapshot | None) -> Logic:
        """The logic of one key, restored from its snapshot; None: the key is new."""

    def merge(self, left: Snapshot, right: Snapshot) -> Snapshot:
        """Merge two snapshots of one key, whose rows were divided over two engines. Optional."""
        raise NotImplementedError

    def signature(self) -> dict[str, Any]:
        """What a checkpoint identifies the operator by, besides its name in queries.

        Raises OperatorError `operator.description` if an argument is not a plain value.
        """
        try:
            given = {field.name: signature_of(getattr(self, field.name)) for field in arguments(type(self))}
        except TypeError as error:
            problem = f"a checkpoint can't hold one of its arguments: {error}"
            hint = "arguments are numbers, texts, times, truth values, and tuples of these"
            raise OperatorError("operator.description", type(self).__name__, problem, hint) from error
        schemas = {"output": signature_of(self.output), "state": signature_of(self.state)}
        return {"is": "operator", "version": self.version, "arguments": given, **schemas}

    @property
    def merges(self) -> bool:
        """Whether the class defines `merge`, so that the rows of a key may be divided over several engines."""
        return type(self).merge is not KeyedOperator.merge


Description = TypeVar("Description", bound=KeyedOperator)

_registered: dict[str, type[KeyedOperator]] = {}


def operator(name: str) -> Callable[[type[Description]], type[Description]]:
    """Let queries use a description as a table function: `FROM name(TABLE(t) PARTITION BY k ORDER BY ts, ...)`.

    The same class may be registered again, as a notebook does when a cell runs twice.

    Raises OperatorError: `operator.name` if the name is taken or not an identifier, `operator.description` if the class
    is not a frozen dataclass with `open`, `output` and `state`.
    """
    if not (name.isidentifier() and name.isascii()):
        raise OperatorError("operator.name", name, "the name of an operator has letters, digits and _ only")

    def register(description: type[Description]) -> type[Description]:
        problem, hint = _problem(description)
        if problem:
            raise OperatorError("operator.description", name, problem, hint)
        known = _registered.get(name.lower())
        if known is not None and _origin(known) != _origin(description):
            taken = f"the name is taken by {known.__module__}.{known.__qualname__}"
            raise OperatorError("operator.name", name, taken, "choose another one; case makes no difference")
        _registered[name.lower()] = description
        return description

    return register


def registered(name: str) -> type[KeyedOperator] | None:
    """The description under a name, in any case."""
    return _registered.get(name.lower())


def registered_names() -> list[str]:
    """All names, for hints."""
    return list(_registered)


def _origin(description: type) -> tuple[str, str]:
    return description.__module__, description.__qualname__


def _problem(description: Any) -> tuple[str, str]:
    """What is wrong with a description, and what to do; both empty if nothing is."""
    if not (isinstance(description, type) and issubclass(description, KeyedOperator)):
        return f"{description!r} is not a subclass of trimtab.KeyedOperator", ""
    parameters = description.__dict__.get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        hint = "write @dataclass(frozen=True) between @trimtab.operator and the class"
        return f"{description.__name__} is not a frozen dataclass", hint
    if inspect.isabstract(description):
        return f"{description.__name__} has no method open", ""
    for part in ("output", "state"):
        schema = getattr(description, part, None)
        if not isinstance(schema, pa.Schema):
            hint = f'add {part} = pa.schema([("rows", pa.int64())]), without an annotation'
            return f"{description.__name__}.{part} is not a pyarrow schema", hint
        if len({each.lower() for each in schema.names}) < len(schema.names):
            return f"{description.__name__}.{part} has two columns of one name", "names are the same in any case"
    if not description.output.names:
        return f"{description.__name__}.output has no columns", "name at least one"
    if reserved := [each for each in description.output.names if each.startswith("__")]:
        return f"{description.__name__}.output has a column {reserved[0]}", "names with __ are the engine's"
    columns = description.columns
    if columns is not None and not (
        isinstance(columns, tuple) and columns and all(isinstance(c, str) for c in columns)
    ):
        return f"{description.__name__}.columns is not a tuple of names", 'write columns = ("ts",), or leave it out'
    return "", ""


def arguments(description: type[KeyedOperator]) -> list[dataclasses.Field[Any]]:
    """The fields that a query may set."""
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(description)  # type: ignore[arg-type] # checked
    return [field for field in fields if field.init]
