"""What a drive has to do next, decided from the fold and one clock reading; it acts on nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from schedule_sm.core.changes import Entry
from schedule_sm.core.projection import Projection


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing is active."""


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """The earliest target lies ahead."""

    target_ms: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """The earliest reminder is due: ask for admission and hand it over."""

    entry: Entry


Decision: TypeAlias = Empty | WaitUntil | Deliver


def decide(projection: Projection, now_ms: int) -> Decision:
    """Return what the earliest active reminder (ties in create order) asks for at ``now_ms``."""
    earliest = projection.earliest()
    if earliest is None:
        return Empty()
    if now_ms >= earliest.target_ms:
        return Deliver(earliest)
    return WaitUntil(earliest.target_ms)
