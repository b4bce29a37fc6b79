from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from trimtab.errors import BalanceError
from trimtab_lab.planners.graph_partition import bisect_graph, partition_graph


def random_edges(vertices: int, count: int, seed: int) -> csr_array:
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, max(vertices, 1), (2, count if vertices else 0))
    return csr_array((rng.uniform(0, 5, ends.shape[1]), (ends[0], ends[1])), shape=(vertices, vertices))


def cut(edges: csr_array, labels: npt.NDArray[np.int32]) -> float:
    pairs = edges.tocoo()
    one, other = pairs.coords
    return float(pairs.data[labels[one] != labels[other]].sum())


@settings(max_examples=60, deadline=None)
@given(
    vertices=st.integers(0, 40),
    edges=st.integers(0, 80),
    parts=st.integers(1, 50),
    heavy=st.sampled_from([0.0, 1.0, 1e9]),
    seed=st.integers(0, 1000),
)
def test_every_part_has_a_vertex_as_long_as_there_are_enough(
    vertices: int, edges: int, parts: int, heavy: float, seed: int
) -> None:
    weights = np.random.default_rng(seed).uniform(0, 1, vertices)
    weights[: vertices // 5] = heavy
    labels = partition_graph(weights, random_edges(vertices, edges, seed), parts, seed=seed)
    assert labels.shape == (vertices,)
    assert set(labels.tolist()) == set(range(min(parts, vertices)))


@pytest.mark.parametrize("weights", [np.zeros(12), np.ones(12), np.full(12, 1e-12), np.full(12, 1e12)])
def test_parts_are_even_whatever_the_measure_of_weights(weights: npt.NDArray[np.float64]) -> None:
    labels = partition_graph(weights, random_edges(12, 20, 1), 4)
    assert np.bincount(labels).tolist() == [3, 3, 3, 3]


def test_weights_are_even_where_counts_are_not() -> None:
    weights = np.array([8.0] + [1.0] * 8)
    labels = partition_graph(weights, csr_array((9, 9)), 2)
    assert np.bincount(labels, weights=weights).tolist() == [8.0, 8.0]


def test_groups_that_talk_among_themselves_are_found() -> None:
    groups = np.random.default_rng(3).permutation(np.repeat(np.arange(4), 10))
    heavy = (groups[:, None] == groups[None, :]) * 1.0
    labels = partition_graph(np.ones(40), csr_array(heavy + 0.01), 4)
    assert all(len(set(labels[groups == group].tolist())) == 1 for group in range(4))


def test_far_less_is_cut_than_by_chance() -> None:
    grid = np.arange(400).reshape(20, 20)
    one = np.concatenate((grid[:, :-1].ravel(), grid[:-1].ravel()))
    other = np.concatenate((grid[:, 1:].ravel(), grid[1:].ravel()))
    edges = csr_array((np.ones(len(one)), (one, other)), shape=(400, 400))
    labels = partition_graph(np.ones(400), edges, 4)
    chance = np.random.default_rng(0).integers(0, 4, 400).astype(np.int32)
    assert cut(edges, labels) < 0.2 * cut(edges, chance)
    assert max(np.bincount(labels)) <= 104


def test_the_direction_of_edges_makes_no_difference() -> None:
    edges, weights = random_edges(30, 90, 5), np.ones(30)
    assert np.array_equal(partition_graph(weights, edges, 3), partition_graph(weights, csr_array(edges.T), 3))


def test_the_same_seed_gives_the_same_parts() -> None:
    edges, weights = random_edges(200, 800, 7), np.random.default_rng(7).uniform(1, 2, 200)
    first, second = (partition_graph(weights, edges, 7, seed=11) for _ in range(2))
    assert np.array_equal(first, second)


def test_one_side_may_get_more_than_the_other() -> None:
    first = bisect_graph(np.ones(10), csr_array((10, 10)), share=0.3)
    assert int(first.sum()) == 3


def test_a_vertex_heavier_than_all_others_together_stands_alone() -> None:
    weights = np.array([1.0, 1e9, 1.0])
    first = bisect_graph(weights, csr_array((3, 3)))
    assert first.tolist() in ([False, True, False], [True, False, True])


def test_nothing_is_printed_even_with_hardly_any_vertices(capfd: pytest.CaptureFixture[str]) -> None:
    partition_graph(np.array([1e9] + [1.0] * 12), csr_array((13, 13)), 12)
    partition_graph(np.zeros(5), csr_array((5, 5)), 4)
    assert capfd.readouterr().out == ""


def test_no_parts_at_all_is_an_error() -> None:
    with pytest.raises(BalanceError, match=r"plan\.options"):
        partition_graph([1.0], csr_array((1, 1)), 0)


def test_edges_must_have_the_shape_of_the_weights() -> None:
    with pytest.raises(BalanceError, match=r"plan\.shape"):
        partition_graph([1.0], csr_array((2, 2)), 1)
