"""The queries of the demonstration: a pattern, and a window."""

from __future__ import annotations

V_SHAPES = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    TOP.ts AS top_at,                    TOP.price AS top,
    MIN_BY(LOW.ts, LOW.price) AS low_at, MIN(LOW.price) AS low,
    BACK.ts AS back_at,                  BACK.price AS back,
    ROUND(100 * (1 - MIN(LOW.price) / TOP.price), 1) AS fall_percent
  PATTERN (TOP DOWN* CRASH UP* BACK) WITHIN INTERVAL '10' MINUTES
  SUBSET LOW = (CRASH, UP)
  DEFINE
    TOP   AS TOP.price >= PREV(TOP.price) AND TOP.price > NEXT(TOP.price),
    DOWN  AS DOWN.price <= TOP.price AND DOWN.price > TOP.price * 0.96,
    CRASH AS CRASH.price <= TOP.price * 0.96,  -- at least 4 % below the top
    UP    AS UP.price < TOP.price * 0.99,
    BACK  AS BACK.price >= TOP.price * 0.99    -- within 1 % of the top again
)
"""

CANDLES = """\
SELECT symbol, window.start AS since,
  MIN_BY(price, ts) AS open, MAX(price) AS high, MIN(price) AS low, MAX_BY(price, ts) AS close,
  SUM(quantity) AS volume
FROM ticks
GROUP BY symbol, window(ts, '5 minutes')
"""

QUERIES = {"v_shapes": V_SHAPES, "candles": CANDLES}
"""By their names in the job."""
