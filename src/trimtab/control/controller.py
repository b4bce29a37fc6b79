"""Controller: the protocol of all controllers. A description that doesn't change, and a small state beside it."""

from __future__ import annotations

from typing import Protocol, TypeVar

State = TypeVar("State")
Measurement_contra = TypeVar("Measurement_contra", contravariant=True)
Action = TypeVar("Action")


class Controller(Protocol[State, Measurement_contra, Action]):
    """A measurement in, an action out, once per interval.

    Promises: the same state and measurement give the same action; an action is always within the limits; a step has no
    side effects; both the controller and its state can be pickled.
    """

    def start(self, action: Action) -> State:
        """The state of a controller that takes over while `action` is in force."""
        ...

    def step(
        self, state: State, measurement: Measurement_contra, *, applied: Action | None = None
    ) -> tuple[State, Action]:
        """The action for the next interval. `applied`: the action in force, if it wasn't the last one returned."""
        ...
