"""Edge kinds, and the helpers that stamp kind and reason on a transition where it is declared.

``due = path(armed.to(overdue), "the wall clock reached the target")``: the helpers return the transition list they are
given, so they compose with ``|``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from statemachine import State
from statemachine.transition import Transition
from statemachine.transition_list import TransitionList

from schedule_sm.core.errors import ChartCompileError

_STAMP = "schedule_sm_edge"


class EdgeKind(str, Enum):
    """Why an edge exists."""

    PATH = "path"
    """The way to delivery, when nothing goes wrong."""
    RETRY = "retry"
    """Something could not be done or confirmed now; it will be tried again."""
    FAULT = "fault"
    """Nothing more can be done safely."""
    DISPOSAL = "disposal"
    """The agent or the plugin goes away; the log keeps the reminder."""
    MANAGEMENT = "management"
    """Somebody else ended the reminder."""


SETBACKS: Final = (EdgeKind.RETRY, EdgeKind.FAULT, EdgeKind.DISPOSAL)
"""Kinds of edges that a person who waits should hear of."""


@dataclass(frozen=True, slots=True)
class EdgeStamp:
    """What a declaration says of its edges."""

    kind: EdgeKind
    why: str


@dataclass(frozen=True, slots=True)
class Edge:
    """One compiled edge of a flat chart."""

    source: str
    event: str
    target: str
    kind: EdgeKind
    why: str
    is_setback: bool = field(init=False, repr=False, compare=False)
    """Whether a person who waits should hear of it; asked at each step, and an enum's hash is dear."""

    def __post_init__(self) -> None:
        """Look the kind up once."""
        object.__setattr__(self, "is_setback", self.kind in SETBACKS)


def stamp_of(transition: Transition) -> EdgeStamp | None:
    """Return what ``transition`` was stamped with, or ``None``."""
    stamp: EdgeStamp | None = getattr(transition, _STAMP, None)
    return stamp


def _stamp(transitions: TransitionList, kind: EdgeKind, why: str) -> TransitionList:
    if not why.strip():
        raise ChartCompileError("an edge", [f"{kind.value}: a reason is missing"])
    for transition in transitions:
        if stamp_of(transition) is not None:
            raise ChartCompileError("an edge", [f"{transition!r} is stamped twice"])
        _set(transition, EdgeStamp(kind, why))
    return transitions


def _set(transition: Any, stamp: EdgeStamp) -> None:  # Any: an attribute of ours on a foreign object
    setattr(transition, _STAMP, stamp)


def path(transitions: TransitionList, why: str) -> TransitionList:
    """Stamp edges on the way to delivery."""
    return _stamp(transitions, EdgeKind.PATH, why)


def retry(transitions: TransitionList, why: str) -> TransitionList:
    """Stamp edges that lead to another try."""
    return _stamp(transitions, EdgeKind.RETRY, why)


def fault(transitions: TransitionList, why: str) -> TransitionList:
    """Stamp edges into a fault."""
    return _stamp(transitions, EdgeKind.FAULT, why)


def disposal(transitions: TransitionList, why: str) -> TransitionList:
    """Stamp edges of going away."""
    return _stamp(transitions, EdgeKind.DISPOSAL, why)


def management(transitions: TransitionList, why: str) -> TransitionList:
    """Stamp edges by which somebody else ends a reminder."""
    return _stamp(transitions, EdgeKind.MANAGEMENT, why)


def itself(state: State) -> TransitionList:
    """Return a self loop of ``state``; an external one, since diagrams hide internal ones."""
    loop: TransitionList = state.to.itself()  # type: ignore[no-untyped-call]  # the library leaves it untyped
    return loop
