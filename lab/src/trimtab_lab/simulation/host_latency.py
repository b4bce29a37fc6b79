"""How busy hosts are in a period, and the latency of queries that follows from it. One Numba kernel, in parts."""

from __future__ import annotations

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.simulation.query_day import Float64Array, Int64Array

BUSIEST = 0.98
"""Queueing formulas go to infinity at 1; above this, waiting is counted as backlog."""


@kernel
def process(
    owner: Int64Array,
    host_s_per_event: Float64Array,
    service_s: Float64Array,
    rates_per_s: Float64Array,
    noise: Float64Array,
    hop_s: float,
    step_s: float,
    pauses_s: Float64Array,
    backlog_s: Float64Array,
    first_latency_s: Float64Array,
) -> tuple[float, float, float, float]:
    """One period: mean and highest utilisation of the hosts in use, mean and highest latency ratio.

    owner, host_s_per_event, service_s  (queries, operators)
    rates_per_s                         (samples,)
    noise                               (samples, hosts) deviations of utilisation from its mean
    pauses_s, first_latency_s           (queries,) the latter is written where it is nan
    backlog_s                           (hosts,) seconds of work that wait; written

    A host slows all work by 1 / (1 - utilisation), as a queue before one core does; work above its capacity waits. An
    event that arrives while its query is paused waits until the query continues.
    """
    queries, samples, hosts = owner.shape[0], noise.shape[0], noise.shape[1]
    if queries == 0:
        return 0.0, 0.0, 1.0, 1.0
    base = np.zeros(hosts)
    used = _add_up(owner, host_s_per_event, base)
    latency_s = np.zeros((samples, queries))
    slowing, busy_sum = np.zeros(hosts), np.zeros(hosts)
    utilisation = highest = 0.0
    for sample in range(samples):
        for host in range(hosts):
            busy = rates_per_s[sample] * base[host] * noise[sample, host]
            utilisation += min(busy, 1.0) / (samples * used)
            busy_sum[host] += busy / samples
            highest = max(highest, busy_sum[host])  # it only grows, so the last one counts
            backlog_s[host] = max(backlog_s[host] + (busy - 1.0) * step_s, 0.0)
            slowing[host] = 1.0 / (1.0 - min(busy, BUSIEST))
        for query in range(queries):
            late_s = max(pauses_s[query] - sample * step_s, 0.0)
            latency_s[sample, query] = late_s + _on_the_way_s(owner[query], service_s[query], slowing, backlog_s, hop_s)
    mean_ratio, highest_ratio = _ratios(latency_s, first_latency_s)
    return utilisation, highest, mean_ratio, highest_ratio


@kernel
def _add_up(owner: Int64Array, host_s_per_event: Float64Array, base: Float64Array) -> int:
    """Write what an event costs each host; return how many hosts have operators."""
    in_use = np.zeros(base.size, np.bool_)
    used = 0
    for query in range(owner.shape[0]):
        for operator in range(owner.shape[1]):
            host = owner[query, operator]
            base[host] += host_s_per_event[query, operator]
            used += not in_use[host]
            in_use[host] = True
    return used


@kernel
def _ratios(latency_s: Float64Array, first_latency_s: Float64Array) -> tuple[float, float]:
    """Latency over the first latency: mean over queries, and mean over time of the query with the highest ratio."""
    samples, queries = latency_s.shape
    for query in range(queries):
        if np.isnan(first_latency_s[query]):
            total_s = 0.0
            for sample in range(samples):
                total_s += latency_s[sample, query]
            first_latency_s[query] = total_s / samples
    mean = highest = 0.0
    for sample in range(samples):
        worst = 0.0
        for query in range(queries):
            ratio = latency_s[sample, query] / first_latency_s[query]
            mean += ratio / (samples * queries)
            worst = max(worst, ratio)
        highest += worst / samples
    return mean, highest


@kernel
def _on_the_way_s(
    hosts: Int64Array, service_s: Float64Array, slowing: Float64Array, backlog_s: Float64Array, hop_s: float
) -> float:
    """The latency of an event from a query's source to its sink."""
    total_s = 0.0
    for operator in range(len(hosts)):
        host = hosts[operator]
        total_s += service_s[operator] * slowing[host] + backlog_s[host]
        if operator > 0 and host != hosts[operator - 1]:
            total_s += hop_s
    return total_s
