"""The benchmark of the routers still runs, on very few messages, and both sides still choose the same workers."""

from __future__ import annotations

import json

from benchmarks import report, routing
from benchmarks.results import as_json, from_json
from trimtab.routing import ROUTERS


def test_every_router_is_measured() -> None:
    result = routing.run(routing.TINY)
    assert from_json(json.loads(json.dumps(as_json(result)))) == result
    assert all([row[0] for row in table.rows] == list(ROUTERS) for table in result.tables)
    assert result.title in report.section(result)
