"""trimtab: patterns in event streams with SQL.

>>> import pyarrow as pa, trimtab
>>> ticks = pa.table({"ts": [1, 2, 3, 4], "price": [10, 8, 7, 9]})
>>> trimtab.evaluate('''
...     SELECT * FROM ticks MATCH_RECOGNIZE (
...       ORDER BY ts
...       MEASURES FIRST(D.price) AS first_drop, COUNT(D.*) AS drops
...       PATTERN (D+) DEFINE D AS D.price < PREV(D.price)
...     )''', {"ticks": ticks}).to_pylist()
[{'first_drop': 8, 'drops': 2}]
"""

from importlib import import_module
from typing import TYPE_CHECKING

from trimtab.errors import OperatorError, TrimtabError

if TYPE_CHECKING:
    from trimtab.api.evaluate import evaluate
    from trimtab.api.job import Job
    from trimtab.control.intake import Intake
    from trimtab.deciding.policy import Balance, Scale
    from trimtab.engine.keyed.description import KeyedOperator, operator
    from trimtab.sources.files import Files
    from trimtab.sources.kafka import Kafka
    from trimtab.sources.rate import Rate

__all__ = [
    "Balance",
    "Files",
    "Intake",
    "Job",
    "Kafka",
    "KeyedOperator",
    "OperatorError",
    "Rate",
    "Scale",
    "TrimtabError",
    "evaluate",
    "operator",
]
__version__ = "0.2.0"

_HOMES = {
    "Balance": "trimtab.deciding.policy",
    "Files": "trimtab.sources.files",
    "Intake": "trimtab.control.intake",
    "Job": "trimtab.api.job",
    "Kafka": "trimtab.sources.kafka",
    "KeyedOperator": "trimtab.engine.keyed.description",
    "Rate": "trimtab.sources.rate",
    "Scale": "trimtab.deciding.policy",
    "evaluate": "trimtab.api.evaluate",
    "operator": "trimtab.engine.keyed.description",
}


def __getattr__(name: str) -> object:
    """Each name on its first use: a worker doesn't wait for the language, nor `evaluate` for Spark, nor needs it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'trimtab' has no attribute {name!r}")
    try:
        found: object = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if name != "Job" or (error.name or "").split(".")[0] not in ("pyspark", "pandas"):
            raise
        raise ImportError(f"trimtab.Job needs Spark ({error}): pip install 'trimtab[spark]'") from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """What completion shows."""
    return sorted({*globals(), *__all__})
