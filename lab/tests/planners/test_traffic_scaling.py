from scipy.sparse import csr_array

from trimtab.planning.adaptation import ScalingRule
from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem
from trimtab_lab.planners.traffic_scaling import TrafficScalingRule

RULE = ScalingRule(target=60, low=40, high=80, cool_down_periods=2)


def test_a_plan_that_gathers_units_may_spare_a_node() -> None:
    traffic = csr_array(([100.0, 100.0], ([0, 1], [2, 3])), shape=(4, 4))
    problem = Problem([42.0, 42.0, 42.0, 42.0], [0, 0, 1, 1], [100.0, 100.0], traffic=traffic)
    gathered = Plan.of(problem, [0, 1, 0, 1], "gathered")
    assert RULE.decide(problem, gathered).add == 1
    assert not TrafficScalingRule(**vars(RULE), serialisation_load=0.2).decide(problem, gathered)
