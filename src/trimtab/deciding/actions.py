"""What a coordinator can ask for, and the placement that results. Plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from trimtab.deciding.placement import Placement, Spread, within


@dataclass(frozen=True, slots=True)
class AddEngines:
    """Add `count` engines, numbered after the others; they are empty until key groups move to them."""

    count: int


@dataclass(frozen=True, slots=True)
class DrainEngine:
    """Begin to empty an engine: from now on nothing moves to it."""

    engine: int


@dataclass(frozen=True, slots=True)
class Move:
    """Move key groups to other engines from the next batch on; `moves` maps key group to engine."""

    moves: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class DropEngines:
    """Drop the last `count` engines, which are empty."""

    count: int


@dataclass(frozen=True, slots=True)
class SpreadKeys:
    """Spread exactly these keys over several engines from the next batch on; every other key is on one engine."""

    spread: tuple[Spread, ...]


@dataclass(frozen=True, slots=True)
class SetIntake:
    """Let each batch take up to `rows` rows, from the next one that is planned on."""

    rows: int


Action = AddEngines | DrainEngine | Move | DropEngines | SpreadKeys | SetIntake

_KINDS: dict[str, type[Action]] = {
    "add": AddEngines, "drain": DrainEngine, "move": Move, "drop": DropEngines, "spread": SpreadKeys,
    "intake": SetIntake,
}  # fmt: skip
"""The actions by their names in the log."""


def applied(actions: Iterable[Action], placement: Placement) -> Placement:
    """The placement after these actions, carried out in order.

    >>> applied([AddEngines(1), Move({0: 2})], Placement.even(2, 4))
    Placement(engines=3, owner=(2, 1, 0, 1), spread=())
    """
    for action in actions:
        match action:
            case AddEngines(count):
                placement = replace(placement, engines=placement.engines + count)
            case Move(moves):
                placement = placement.moved(moves)
            case DropEngines(count):
                left = placement.engines - count
                assert max(placement.owner) < left, "only empty engines are dropped"
                placement = Placement(left, placement.owner, within(placement.spread, left))
            case SpreadKeys(spread):
                placement = placement.with_spread(spread)
            case DrainEngine() | SetIntake():
                pass
    return placement


def in_words(actions: Iterable[Action]) -> str:
    """Actions as text for people.

    >>> in_words([AddEngines(2), Move({0: 2})])
    '2 engines more, 1 key group moves'
    """
    phrases = []
    for action in actions:
        match action:
            case AddEngines(count):
                phrases.append(f"{count} engine{'s' if count > 1 else ''} more")
            case DrainEngine(engine):
                phrases.append(f"engine {engine} is emptied")
            case Move(moves):
                phrases.append(f"{len(moves)} key group{'s move' if len(moves) > 1 else ' moves'}")
            case DropEngines(count):
                phrases.append(f"{count} engine{'s' if count > 1 else ''} less")
            case SpreadKeys(spread):
                phrases.append(f"{len(spread)} hot key{'' if len(spread) == 1 else 's'} on several engines")
            case SetIntake(rows):
                phrases.append(f"a batch takes up to {rows:,} rows")
    return ", ".join(phrases)


def as_json(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """Actions as plain values, for the log."""
    names = {kind: name for name, kind in _KINDS.items()}
    return [{names[type(action)]: astuple(action)[0]} for action in actions]


def from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Action, ...]:
    """Actions from what `as_json` returned, also if it has been JSON in the meantime.

    >>> from_json(as_json([AddEngines(1), Move({3: 2}), DrainEngine(1), DropEngines(1)]))
    (AddEngines(count=1), Move(moves={3: 2}), DrainEngine(engine=1), DropEngines(count=1))
    """
    return tuple(_action(value) for value in values)


def _action(value: Mapping[str, Any]) -> Action:
    ((kind, content),) = value.items()
    if kind == "move":
        content = {int(group): engine for group, engine in content.items()}
    elif kind == "spread":
        content = tuple(Spread(slot, tuple(engines)) for slot, engines in content)
    return _KINDS[kind](content)
