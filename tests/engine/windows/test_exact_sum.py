"""Exact sums: rounded once, whatever the order, the cuts, or the values that were taken out again."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.engine.windows.accumulator import Slots
from trimtab.engine.windows.exact_sum import NO_BITS, ExactSums

tame = st.floats(-1e300, 1e300) | st.sampled_from([5e-324, -5e-324, 1.0, 2**-53, 1e16, -1e16, 0.1])


def add_up(values: list[float], before: ExactSums | None = None) -> ExactSums:
    bits = np.array(values, np.float64).view(np.int64)
    start = ExactSums.zeros(1) if before is None else before
    rows = Slots(np.zeros(len(values), np.int64), 1)
    return start.gather(Slots(np.zeros(len(start.flags), np.int64), 1), bits, NO_BITS, rows)


@settings(deadline=None)  # the first example compiles
@given(st.lists(tame, max_size=40))
def test_a_sum_is_rounded_once(values: list[float]) -> None:
    high, low = add_up(values).read(twice=True)
    assert high[0] == math.fsum(values) == add_up(values).read()[0][0]
    assert low[0] == float(sum(map(Fraction, values)) - Fraction(high[0]))


@settings(deadline=None)  # the first example compiles
@given(st.lists(tame, max_size=30), st.randoms(use_true_random=False))
def test_order_and_cuts_do_not_change_the_sum(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    middle = len(values) // 2
    cut = add_up(shuffled[middle:], add_up(shuffled[:middle]))
    assert cut.lists.tolist() == add_up(values).lists.tolist()


def test_values_that_are_not_finite_sum_up_as_doubles_do() -> None:
    inf, nan = math.inf, math.nan
    assert add_up([inf, 1.0]).read()[0][0] == inf
    assert add_up([-inf, 1.0]).read()[0][0] == -inf
    assert math.isnan(add_up([inf, -inf]).read()[0][0])
    assert math.isnan(add_up([nan, inf]).read()[0][0])


def test_a_sum_may_leave_the_range_of_doubles_and_come_back() -> None:
    assert add_up([1.7e308, 1.7e308, -1.7e308]).read()[0][0] == 1.7e308
    assert add_up([1.7e308, 1.7e308]).read()[0][0] == math.inf
