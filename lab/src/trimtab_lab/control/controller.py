"""Controller: what every controller can do. A description that doesn't change, and a small state that goes round."""

from __future__ import annotations

from typing import Protocol, TypeVar

State = TypeVar("State")
Measurement_contra = TypeVar("Measurement_contra", contravariant=True)
Action = TypeVar("Action")


class Controller(Protocol[State, Measurement_contra, Action]):
    """A measurement in, an action out, once an interval.

    Promises: the same state and measurement give the same answer; an action is within the limits, exactly; nothing
    is done but to compute; both the controller and its state can be pickled.
    """

    def start(self, action: Action) -> State:
        """The state of a controller that takes over while `action` is in force."""
        ...

    def step(
        self, state: State, measurement: Measurement_contra, *, applied: Action | None = None
    ) -> tuple[State, Action]:
        """The action for the coming interval. `applied` is what was in force, if not what was asked for last."""
        ...
