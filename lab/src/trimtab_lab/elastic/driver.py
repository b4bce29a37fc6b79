"""The process that jobs of experiments run in: a process has one Spark context, which ends with it.

    python -m trimtab_lab.elastic.driver cluster MARK

reads orders from its input, one per line of JSON: the order, and the file for the outcome. It ends, with its cluster,
when its input ends, also in the middle of an order.
"""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from trimtab.spark.session import start_session
from trimtab_lab.elastic.orders import LOCAL_SLOTS, WORKERS, Place, order_from_json
from trimtab_lab.elastic.runs import Runner
from trimtab_lab.live.cluster import Cluster
from trimtab_lab.live.processes import end_all

CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}


def main(place: Place, mark: str) -> None:
    """Run orders until the input ends."""
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(orders, mark), daemon=True).start()
    if place is Place.LOCAL:
        _serve(Runner(start_session("trimtab lab", f"local[{LOCAL_SLOTS}]", CONF), LOCAL_SLOTS, None), orders)
    with Cluster(workers=WORKERS, _mark=mark) as cluster:
        spark = start_session("trimtab lab", cluster.url, {**CONF, **cluster.settings})
        _serve(Runner(spark, WORKERS, lambda: len(cluster.executors())), orders)


def _read(orders: queue.SimpleQueue[dict[str, Any]], mark: str) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    end_all(mark)  # also in the middle of an order: its outcome isn't needed any more
    os._exit(0)


def _serve(runner: Runner, orders: queue.SimpleQueue[dict[str, Any]]) -> None:
    while True:
        received = orders.get()
        answer: dict[str, Any]
        try:
            answer = {"outcome": dataclasses.asdict(runner.run(order_from_json(received["order"])))}
        except Exception:  # reported; the next order may succeed
            answer = {"error": traceback.format_exc()}
        path = Path(received["file"])
        hidden = path.with_suffix(".part")
        hidden.write_text(json.dumps(answer), encoding="utf-8")
        hidden.rename(path)


if __name__ == "__main__":
    main(Place(sys.argv[1]), sys.argv[2])
