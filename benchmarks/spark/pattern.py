"""The V-shape that every peer searches for, as a query of trimtab, and the type of a match."""

from __future__ import annotations

V_SHAPE = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES S.price AS top, LAST(D.price) AS bottom, U.price AS back, S.ts AS began, U.ts AS ended
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (S D+ U)
  DEFINE D AS D.price < PREV(D.price), U AS U.price > PREV(U.price)
)"""

Match = tuple[int, float, float, float, int, int]
"""Symbol, prices of the top, the bottom and the way back, times of the first and the last row in microseconds."""

MATCH_COLUMNS = ("symbol", "top", "bottom", "back", "began", "ended")
