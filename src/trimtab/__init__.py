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

from trimtab.engine.keyed import KeyedOperator, operator
from trimtab.errors import OperatorError, TrimtabError
from trimtab.evaluate import evaluate

__all__ = ["KeyedOperator", "OperatorError", "TrimtabError", "evaluate", "operator"]
__version__ = "0.1.0"
