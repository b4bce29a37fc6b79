"""Placements: even, with as few moves as needed, and refused at once if they make no sense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.deciding.placement import Placement, check_engines, check_key_groups
from trimtab.errors import JobError
from trimtab.state.checkpoint import MAX_KEY_GROUPS


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    groups = draw(st.integers(1, 40))
    engines = draw(st.integers(1, groups))
    return Placement(engines, tuple(draw(st.lists(st.integers(0, engines - 1), min_size=groups, max_size=groups))))


def loads(placement: Placement) -> list[int]:
    return [placement.owner.count(engine) for engine in range(placement.engines)]


@given(st.integers(1, 40), st.data())
def test_an_even_placement_is_level_within_one_group(groups: int, data: st.DataObject) -> None:
    placement = Placement.even(data.draw(st.integers(1, groups)), groups)
    assert len(placement.owner) == groups
    assert max(loads(placement)) - min(loads(placement)) <= 1


@given(placements(), st.data())
def test_a_resized_placement_is_level_and_moves_as_few_groups_as_that_takes(
    placement: Placement, data: st.DataObject
) -> None:
    groups = len(placement.owner)
    engines = data.draw(st.integers(1, groups))
    resized = placement.resized(engines)
    assert resized.engines == engines
    assert max(loads(resized)) - min(loads(resized)) <= 1
    # Each engine can keep what fits its share; the larger shares are best given to the engines that hold the most.
    least, extra = divmod(groups, engines)
    kept = sorted((placement.owner.count(engine) for engine in range(engines)), reverse=True)
    fewest = groups - sum(min(have, least + (rank < extra)) for rank, have in enumerate(kept))
    assert resized.moves_from(placement) == fewest


@given(placements(), st.data())
def test_only_what_was_named_moves(placement: Placement, data: st.DataObject) -> None:
    groups = st.integers(0, len(placement.owner) - 1)
    moves = data.draw(st.dictionaries(groups, st.integers(0, placement.engines - 1)))
    moved = placement.moved(moves)
    expected = [moves.get(group, engine) for group, engine in enumerate(placement.owner)]
    assert list(moved.owner) == expected
    assert moved.moves_from(placement) == sum(placement.owner[group] != engine for group, engine in moves.items())
    assert moved.array().tolist() == expected


@pytest.mark.parametrize("moves", [{-1: 0}, {4: 0}, {0: 2}, {0: -1}])
def test_a_move_of_or_to_something_that_does_not_exist_is_refused(moves: dict[int, int]) -> None:
    with pytest.raises(JobError, match="0 to") as raised:
        Placement.even(2, 4).moved(moves)
    assert raised.value.code == "job.move"


@pytest.mark.parametrize("engines", [0, -1, 1.5, True, "2", 5])
def test_an_impossible_number_of_engines_is_refused(engines: object) -> None:
    with pytest.raises(JobError) as raised:
        check_engines(engines, 4)  # type: ignore[arg-type]
    assert raised.value.code == "job.engines"


@pytest.mark.parametrize("groups", [0, -3, MAX_KEY_GROUPS + 1, 8.0, True, None])
def test_an_impossible_number_of_key_groups_is_refused(groups: object) -> None:
    with pytest.raises(JobError) as raised:
        check_key_groups(groups)  # type: ignore[arg-type]
    assert raised.value.code == "job.key-groups"
