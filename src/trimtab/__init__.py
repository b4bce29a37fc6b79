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

from typing import TYPE_CHECKING

from trimtab.api.evaluate import evaluate
from trimtab.deciding.policy import Balance, Scale
from trimtab.engine.keyed.description import KeyedOperator, operator
from trimtab.errors import OperatorError, TrimtabError

if TYPE_CHECKING:
    from trimtab.api.job import Job

__all__ = ["Balance", "Job", "KeyedOperator", "OperatorError", "Scale", "TrimtabError", "evaluate", "operator"]
__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """`Job` on its first use: what runs without Spark shouldn't wait for it, nor need it."""
    if name != "Job":
        raise AttributeError(f"module 'trimtab' has no attribute {name!r}")
    try:
        from trimtab.api.job import Job
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("pyspark", "pandas"):
            raise
        raise ImportError(f"trimtab.Job needs Spark ({error}): pip install 'trimtab[spark]'") from error
    return Job
