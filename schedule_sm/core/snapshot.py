"""What ``ScheduleOwner.snapshot()`` returns: where the owner and each reminder stand, and why, in sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from schedule_sm.core.deliveries import Deliveries, Delivery
from schedule_sm.core.edges import Edge
from schedule_sm.core.instants import format_instant


@dataclass(frozen=True, slots=True)
class EdgeTaken:
    """A retry, disposal or fault edge that was taken."""

    event: str
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class ReminderSnapshot:
    """One reminder's place on its delivery path."""

    id: str
    state: str
    since_ms: int
    """Since when it is in that state (epoch ms)."""
    target_ms: int
    """When it is due (epoch ms)."""
    last: EdgeTaken | None
    """The last retry, disposal or fault edge it took."""

    def sentence(self, now_ms: int) -> str:
        """Say in one sentence where the reminder stands at ``now_ms``, and why it has not come."""
        said = f"{self.id}: {_STANDING[self.state]}"
        if self.state == "armed":
            said += f" {format_instant(self.target_ms)}, in {_spell(self.target_ms - now_ms)}"
        else:
            said += f" for {_spell(now_ms - self.since_ms)}; {_spell(now_ms - self.target_ms)} late"
        return said if self.last is None else f"{said}. Last setback: {self.last.event} ({self.last.why})"


@dataclass(frozen=True, slots=True)
class OwnerSnapshot:
    """The owner's place in its chart and every reminder's; read without a flush, so it decides nothing."""

    state: str
    since_ms: int
    last: EdgeTaken | None
    reminders: tuple[ReminderSnapshot, ...] | None
    """In create order; ``None`` before the first confirmed fold, which is not the same as none."""
    unconfirmed: bool = True
    """Always true: no flush stands behind it."""

    def sentence(self, now_ms: int) -> str:
        """Say in one sentence what the owner is doing at ``now_ms``."""
        said = f"owner: {_OWNER_STANDING[self.state]} (for {_spell(now_ms - self.since_ms)})"
        return said if self.last is None else f"{said}. Last setback: {self.last.event} ({self.last.why})"


_STANDING = {
    "armed": "waits for its time,",
    "overdue": "is due and waits for the next attempt,",
    "preflight": "is due; the log is being confirmed,",
    "awaiting_admission": "is due and waits for the agent to be between turns,",
    "queued": "was handed to the agent; its dispatch is being made durable,",
}

_OWNER_STANDING = {
    "starting": "has not begun",
    "driving": "is checking and delivering",
    "waiting": "waits for the earliest target",
    "empty": "has nothing to deliver",
    "blocked": "waits for the agent to become idle",
    "parked": "could not go on and waits for the next trigger",
    "stopping": "is stopping",
    "stopped": "has stopped; the log keeps the reminders",
    "faulted": "has stopped on a fault; resume the session to deliver again",
}


def taken(edge: Edge | None) -> EdgeTaken | None:
    """Return what a snapshot says of ``edge``."""
    return None if edge is None else EdgeTaken(edge.event, edge.kind.value, edge.why)


def reminder_snapshots(deliveries: Deliveries) -> tuple[ReminderSnapshot, ...] | None:
    """Return every reminder's place, or ``None`` before the first confirmed fold; O(reminders)."""
    return tuple(_snapshots(deliveries)) if deliveries.is_folded else None


def _snapshots(deliveries: Iterable[Delivery]) -> Iterable[ReminderSnapshot]:
    for delivery in deliveries:
        yield ReminderSnapshot(
            id=delivery.subject_id,
            state=delivery.state,
            since_ms=delivery.since_ms,
            target_ms=delivery.entry.target_ms,
            last=taken(delivery.last),
        )


def _spell(duration_ms: int) -> str:
    """Spell a duration in its two largest units; less than a second in ms."""
    if abs(duration_ms) < 1_000:
        return f"{duration_ms} ms"
    seconds = duration_ms // 1_000
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts = []
    for name, size in units:
        if seconds >= size:
            parts.append(f"{seconds // size} {name}")
            seconds %= size
    return " ".join(parts[:2]) or f"{duration_ms} ms"
