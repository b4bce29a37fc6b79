"""A compiled query: work on each row, the operator that crosses rows, work on its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trimtab.engine.operator import Description
from trimtab.engine.signature import signature_of
from trimtab.rowwise.local import Finish, IntakeStep


@dataclass(frozen=True, slots=True)
class Query:
    """A checked query, ready to run: plain data that pickles.

    `source` is the table that it reads. The intake runs first, then the operator over the intake's
    output, then the finish over the operator's output.
    """

    sql: str
    source: str
    intake: IntakeStep
    operator: Description
    finish: Finish

    @property
    def signature(self) -> dict[str, Any]:
        """All that the state of the query depends on, as plain values; the finish, which has no state, is left out."""
        parts = {"intake": self.intake, "operator": self.operator}
        return {"source": self.source} | {name: signature_of(part) for name, part in parts.items()}
