"""A pattern compiled: for every label occurrence, what may come next, in order of preference.

The tree becomes a position automaton (Glushkov's): a *position* is one occurrence of a label, and its *steps* say
which positions may match the next row, best first, or that the match may end (`DONE`). Everything that consumes no
row (splits, loops, empty iterations, anchors, exclusion) is worked out here, so that a thread at run time is one
position and its registers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from trimtab.engine.match.ir.pattern import Alternate, Anchor, At, Concat, Exclude, Label, Pattern, Permute, Quantify
from trimtab.errors import QueryError

DONE = -1
"""The target of a step that ends the match."""

MAX_POSITIONS = 10_000
MAX_STEPS = 200_000


@dataclass(frozen=True, slots=True)
class Step:
    """What may follow: a position, or `DONE`, if the anchors in `when` hold between the two rows."""

    target: int
    when: frozenset[Anchor] = frozenset()


@dataclass(frozen=True, slots=True)
class Position:
    """One occurrence of a label in the pattern, with the steps that follow it, best first.

    The first unconditional step to `DONE` is the last step: later ones could never be preferred to it.
    """

    label: int
    excluded: bool
    steps: tuple[Step, ...]

    @property
    def may_end(self) -> bool:
        """Whether a match may end right after this row, whatever comes next."""
        return bool(self.steps) and self.steps[-1] == Step(DONE)

    @property
    def waits(self) -> bool:
        """Whether another row may follow."""
        return len(self.steps) > self.may_end


@dataclass(frozen=True)
class Program:
    """The compiled pattern: the steps before the first row, and every position."""

    labels: tuple[str, ...]
    start: tuple[Step, ...]
    positions: tuple[Position, ...]

    @cached_property
    def uses(self) -> frozenset[Anchor]:
        """The anchors that occur."""
        every = (self.start, *(position.steps for position in self.positions))
        return frozenset(anchor for steps in every for step in steps for anchor in step.when)

    @cached_property
    def shortest(self) -> int:
        """The fewest rows that a match can have."""
        rows, reached, places = 0, set[int](), {s.target for s in self.start}
        while DONE not in places and not places <= reached:
            reached |= places
            places = {s.target for p in places for s in self.positions[p].steps}
            rows += 1
        return rows

    def dump(self) -> str:
        """The program as text, a line per position.

        >>> from trimtab.engine.match.ir.pattern import Concat, Label, Quantify
        >>> pattern = Concat((Label(0), Quantify(Label(1), 1, None, True), Label(2)))
        >>> print(compile_pattern(pattern, ("S", "D", "U")).dump())
              start   -> 0:S
          0   S       -> 1:D
          1   D       -> 1:D, 2:U
          2   U       -> done
        """
        lines = [f"      start   -> {self._steps_text(self.start)}"]
        for i, p in enumerate(self.positions):
            name = self.labels[p.label] + (" (hidden)" if p.excluded else "")
            lines.append(f"  {i:<3} {name:<7} -> {self._steps_text(p.steps)}")
        return "\n".join(lines)

    def _steps_text(self, steps: tuple[Step, ...]) -> str:
        texts = []
        for step in steps:
            done = step.target == DONE
            target = "done" if done else f"{step.target}:{self.labels[self.positions[step.target].label]}"
            texts.append(" ".join([*sorted(anchor.value for anchor in step.when), target]))
        return ", ".join(texts) or "never"


@dataclass(eq=False)
class _Node:
    """A node of the graph. Only `match` nodes consume a row; `kind` says what `next` means."""

    kind: str  # match | split | anchor | enter | enter consuming | leave | done
    next: list[_Node] = field(default_factory=list)
    label: int = -1
    excluded: bool = False
    anchor: Anchor | None = None
    loop: int = -1
    position: int = -1


class _Builder:
    """Builds the graph from right to left: each tree is built with the node that follows it."""

    def __init__(self) -> None:
        self.matches = 0
        self.loops = 0

    def build(self, tree: Pattern, then: _Node, excluded: bool) -> _Node:  # noqa: C901 - one case per kind of tree
        match tree:
            case Label(index):
                self.matches += 1
                if self.matches > MAX_POSITIONS:
                    raise _too_large(f"the pattern expands to more than {MAX_POSITIONS} label occurrences")
                return _Node("match", [then], label=index, excluded=excluded)
            case At(anchor):
                return _Node("anchor", [then], anchor=anchor)
            case Concat(items):
                for item in reversed(items):
                    then = self.build(item, then, excluded)
                return then
            case Alternate(items):
                return _Node("split", [self.build(item, then, excluded) for item in items])
            case Exclude(item):
                return self.build(item, then, excluded=True)
            case Permute(items):
                return self._permute(items, frozenset(range(len(items))), then, excluded, {})
            case Quantify(item, low, high, greedy):
                if high is None:
                    tail = _Node("split")
                    enter = self._iteration(tail, item, greedy, tail, then, excluded)
                    if low:
                        # The last required iteration is the loop's own body: `A+` has one position, not two.
                        tail, low = _Node("enter", enter.next, loop=enter.loop), low - 1
                else:
                    tail = then
                    for _ in range(high - low):
                        split = _Node("split")
                        self._iteration(split, item, greedy, tail, then, excluded)
                        tail = split
                for _ in range(low):
                    tail = self.build(item, tail, excluded)
                return tail

    def _permute(
        self,
        items: tuple[Pattern, ...],
        left: frozenset[int],
        then: _Node,
        excluded: bool,
        made: dict[frozenset[int], _Node],
    ) -> _Node:
        # What follows depends on the set of items used and not on their order, so orders share their ends: a
        # PERMUTE of n labels has n * 2^(n-1) positions instead of n * n!. Lexicographic preference is kept because
        # the split at each prefix tries the items as written. An item that matches in several ways is different: all
        # its ways with one order after it come before any with the next order, so there each order is a branch.
        if not left:
            return then
        if left not in made:
            made[left] = _Node("split")
            tails: dict[tuple[int, ...], _Node] = {(): then}
            for i in sorted(left):
                if has_one_way(items[i]):
                    rest = self._permute(items, left - {i}, then, excluded, made)
                    made[left].next.append(self.build(items[i], rest, excluded))
                else:
                    orders = itertools.permutations(sorted(left - {i}))
                    made[left].next += [self._in_order(items, (i, *order), excluded, tails) for order in orders]
        return made[left]

    def _in_order(
        self, items: tuple[Pattern, ...], order: tuple[int, ...], excluded: bool, tails: dict[tuple[int, ...], _Node]
    ) -> _Node:
        """The items in one order; orders that end alike share that end."""
        if order not in tails:
            rest = self._in_order(items, order[1:], excluded, tails)
            tails[order] = self.build(items[order[0]], rest, excluded)
        return tails[order]

    def _iteration(
        self, split: _Node, item: Pattern, greedy: bool, onward: _Node, then: _Node, excluded: bool
    ) -> _Node:
        """Make `split` the choice between an iteration, followed by `onward`, and leaving to `then`; gives its entry.

        An iteration that consumes no row is the last: it is followed by `then`. But in a loop without an upper bound
        (`onward` is the split itself) an optional iteration has to consume a row.
        """
        loop, self.loops = self.loops, self.loops + 1
        leave = _Node("leave", [onward, then], loop=loop)
        kind = "enter consuming" if onward is split else "enter"
        enter = _Node(kind, [self.build(item, leave, excluded)], loop=loop)
        split.next = [enter, then] if greedy else [then, enter]
        return enter


def has_one_way(pattern: Pattern) -> bool:
    """Whether a pattern matches in at most one way, wherever it starts."""
    match pattern:
        case Label() | At():
            return True
        case Concat(items):
            return all(map(has_one_way, items))
        case Exclude(item):
            return has_one_way(item)
        case Quantify(item, low, high, _):
            return low == high and has_one_way(item)
        case Alternate() | Permute():
            return False


def compile_pattern(pattern: Pattern, labels: tuple[str, ...]) -> Program:
    """Compile a pattern tree."""
    entry = _Builder().build(pattern, _Node("done"), excluded=False)
    positions: list[_Node] = []

    def number(node: _Node) -> int:
        if node.position < 0:
            node.position = len(positions)
            positions.append(node)
        return node.position

    start = _closure(entry, number, before_first_row=True)
    compiled: list[Position] = []
    total = len(start)
    while len(compiled) < len(positions):
        node = positions[len(compiled)]
        steps = _closure(node.next[0], number, before_first_row=False)
        total += len(steps)
        if total > MAX_STEPS:
            raise _too_large(f"the pattern needs more than {MAX_STEPS} steps")
        compiled.append(Position(node.label, node.excluded, steps))
    return _without_dead_ends(Program(labels, start, tuple(compiled)))


def _too_large(text: str) -> QueryError:
    return QueryError("query.too-large", text, hint="use smaller counts in {n,m}")


def _without_dead_ends(program: Program) -> Program:
    """The program without positions from which no match can end, for instance a label before `^`."""
    before: dict[int, list[int]] = {}
    for i, position in enumerate(program.positions):
        for step in position.steps:
            before.setdefault(step.target, []).append(i)
    alive, found = {DONE}, [DONE]
    while found:
        fresh = [i for i in before.get(found.pop(), ()) if i not in alive]
        alive.update(fresh)
        found += fresh
    kept = [i for i in range(len(program.positions)) if i in alive]
    number = {old: new for new, old in enumerate(kept)} | {DONE: DONE}

    def clean(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(Step(number[s.target], s.when) for s in steps if s.target in alive)

    positions = (program.positions[i] for i in kept)
    return Program(
        program.labels, clean(program.start), tuple(Position(p.label, p.excluded, clean(p.steps)) for p in positions)
    )


def _closure(  # noqa: C901 - one case per kind of node
    entry: _Node, number: Callable[[_Node], int], *, before_first_row: bool
) -> tuple[Step, ...]:
    """All steps from a place between two rows, best first.

    Walks depth first in order of preference. `fresh` holds the loops whose current iteration has consumed no row
    yet: after an empty iteration a loop is left, or, for loops that it holds inverted (`~loop`), there is no way on. A
    node that was visited with the same loops and anchors leads only to steps that are already listed with better
    preference.
    """
    steps: list[Step] = []
    seen: set[tuple[int, frozenset[int], frozenset[Anchor]]] = set()
    stack: list[tuple[_Node, frozenset[int], frozenset[Anchor]]] = [(entry, frozenset(), frozenset())]
    while stack:
        node, fresh, when = stack.pop()
        visit = (id(node), fresh, when)
        if visit in seen:
            continue
        seen.add(visit)
        match node.kind:
            case "done" | "match":
                target = DONE if node.kind == "done" else number(node)
                # No row follows the end or a time-out, so no label can match after those.
                if target != DONE and when & {Anchor.END, Anchor.TIMEOUT}:
                    continue
                if any(s.target == target and s.when <= when for s in steps):
                    continue
                steps.append(Step(target, when))
                if target == DONE and not when:
                    break
            case "anchor":
                assert node.anchor is not None
                # After a row nothing is the start; before the first row there is no end and no time-out.
                impossible = {Anchor.END, Anchor.TIMEOUT} if before_first_row else {Anchor.START}
                if node.anchor not in impossible:
                    stack.append((node.next[0], fresh, when | {node.anchor}))
            case "enter":
                stack.append((node.next[0], fresh | {node.loop}, when))
            case "enter consuming":
                stack.append((node.next[0], fresh | {~node.loop}, when))
            case "leave" if ~node.loop in fresh:
                continue
            case "leave":
                onward, then = node.next
                stack.append((then, fresh - {node.loop}, when) if node.loop in fresh else (onward, fresh, when))
            case _:
                stack.extend((n, fresh, when) for n in reversed(node.next))
    return tuple(steps)
