"""The three laws on real Spark: random jobs, moved, resized, failed and restarted; `spark_laws` tries more of them."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.bench import COUNTS, RISES, Bench, events
from tests.support.choices import SeededChoices
from tests.support.eager import decided_by_dice, decisions_awaited, logs
from tests.support.laws import bag
from tests.support.spark_laws import differs
from trimtab import evaluate
from trimtab.deciding import decision_log
from trimtab.deciding.balancer import Balancer
from trimtab.errors import StateError
from trimtab.spark.pipeline import Pipeline
from trimtab.state import manifest
from trimtab.state.files import Folder

SEEDS = range(6)


@pytest.fixture(scope="module")
def done() -> Iterator[collections.Counter[str]]:
    """What coordinators did in all runs together: if nothing moved, the law would prove nothing."""
    found: collections.Counter[str] = collections.Counter()
    yield found
    if found["tried"] == len(SEEDS):
        assert found["moved"] >= 10
        assert found["added"] + found["dropped"] > 0
        assert found["cuts"] > 0, "no power was cut"


@pytest.mark.parametrize("seed", SEEDS)
def test_however_a_job_is_cut_placed_and_restarted_it_gives_what_evaluate_gives(
    seed: int, spark: Any, done: collections.Counter[str]
) -> None:
    done["tried"] += 1
    assert differs(SeededChoices(seed), spark, done) in ("", "error")


class DiedError(Exception):
    """Stands for a process that dies here."""


def dies_at(call: int, function: Callable[..., Any], *, done: bool) -> Callable[..., Any]:
    """The function, which ends the process before its work or (`done`) after it, in call number `call`."""
    calls = iter(range(1, call + 1))

    def dying(*arguments: Any, **options: Any) -> Any:
        is_last = next(calls, call) == call
        if is_last and not done:
            raise DiedError
        found = function(*arguments, **options)
        if is_last:
            raise DiedError
        return found

    return dying


def half_written(folder: Folder, entry: decision_log.Entry) -> None:
    folder.write(f"{entry.observed.batch:012d}.arrow", decision_log.to_bytes(entry)[:300])


def test_a_job_that_dies_around_a_decision_goes_on_as_if_it_had_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each batch from the third on has matches to hand over, and the six deaths leave two batches for the last run.
    tables = [events(*((key, second, (key + second) % 7) for key in range(12))) for second in range(16)]
    for table in tables:
        bench.stream.add(table)
    deaths = [
        (Balancer, "changed", True),  # decided, but not written to disk
        (Pipeline, "run_engines", False),  # nothing of the batch is on disk: the next start plans it anew
        (Pipeline, "hand_over", False),  # the plan is on disk, nothing is handed over
        (Pipeline, "collect_merges", True),  # everything is handed over, nothing committed
        (manifest, "write", True),  # committed, but nothing decided on it
        (Balancer, "consider", True),  # while the coordinator decides and logs
    ]
    with decided_by_dice(5, 3), decisions_awaited():
        for owner, name, done in deaths:
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, dies_at(3, getattr(owner, name), done=done))
                if name == "consider":
                    patch.setattr(decision_log, "write", half_written)
                with pytest.raises(DiedError):
                    bench.run(rises=RISES, counts=COUNTS)
        with pytest.raises(StateError, match="can't be read as an entry"):
            list(logs(bench.checkpoint))
        bench.run(close=True, rises=RISES, counts=COUNTS)
    whole = {"t": pa.concat_tables(tables)}
    for name, sql in {"rises": RISES, "counts": COUNTS}.items():
        found = pa.Table.from_pylist(bench.rows(name))
        assert bag(found) == bag(evaluate(sql, whole, event_time="ts"))
