"""What ``ScheduleOwner.snapshot()`` returns: where the owner and each reminder stand, and why, in sentences.

Every reason is an edge's own, from the charts; here stands only what a state means to somebody who waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from schedule_sm.core.cursor import DELIVERY, OWNER
from schedule_sm.core.deliveries import Deliveries, Delivery
from schedule_sm.core.edges import Edge
from schedule_sm.core.instants import format_instant

UNCONFIRMED: Final = "This is what the owner last knew; no flush confirms it."


@dataclass(frozen=True, slots=True)
class EdgeTaken:
    """A retry, disposal or fault edge that was taken."""

    event: str
    kind: str
    why: str
    target: str
    """The state that it led to."""

    def __str__(self) -> str:
        """Name the edge and its reason."""
        return f"{self.event}: {self.why}"


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
        at = format_instant(self.target_ms)
        ahead_ms = self.target_ms - now_ms
        is_explained = self.last is not None and self.last.target == self.state
        if ahead_ms > 0:
            said = f"{_readable(self.id)} is due at {at}, in {_spell(ahead_ms)}"
            if self.state != DELIVERY.initial:
                said += f"; the clock has gone back: {_STANDING[self.state]}"
        else:
            said = f"{_readable(self.id)} was due at {at}, {_spell(-ahead_ms)} ago; {_STANDING[self.state]}"
        if self.state != DELIVERY.initial:
            said += f"{_since(self.since_ms, now_ms)}"
        if self.last is None:
            return f"{said}."
        return f"{said} ({self.last})." if is_explained else f"{said}; last setback: {self.last}."


@dataclass(frozen=True, slots=True)
class OwnerSnapshot:
    """The owner's place in its chart and every reminder's; read without a flush, so it decides nothing."""

    state: str
    since_ms: int
    """Since when it is in that state (epoch ms)."""
    last: EdgeTaken | None
    """The last retry, disposal or fault edge it took."""
    reminders: tuple[ReminderSnapshot, ...] | None
    """In create order; ``None`` before the first confirmed fold, which is not the same as none."""
    unconfirmed: bool = True
    """Always true: no flush stands behind it."""

    def sentence(self, now_ms: int) -> str:
        """Say in one sentence what the owner is doing at ``now_ms``, and why nothing comes if nothing does."""
        said = f"The owner {_OWNER_STANDING[self.state]}{_since(self.since_ms, now_ms)}"
        is_held_up = self.last is not None and self.last.target == self.state and self.state != "driving"
        return f"{said} ({self.last})." if is_held_up else f"{said}."

    def why(self, now_ms: int, schedule_id: str | None = None) -> tuple[str, ...]:
        """Say why a reminder, or each active one, has not come; the last sentence says that nothing confirms it.

        Args:
            now_ms: the wall clock.
            schedule_id: the reminder asked about; ``None`` for all, the earliest target first.
        """
        if schedule_id is None:
            said = [reminder.sentence(now_ms) for reminder in self._in_order()]
            if not said:
                said.append(self._nothing_known("No reminder is active."))
        else:
            said = list(self._why_one(now_ms, schedule_id))
        return (*said, self.sentence(now_ms), UNCONFIRMED)

    def _why_one(self, now_ms: int, schedule_id: str) -> Iterator[str]:
        in_order = self._in_order()
        asked = next((reminder for reminder in in_order if reminder.id == schedule_id), None)
        if asked is None:
            yield self._nothing_known(
                f"{_readable(schedule_id)} is not active: it came, was deleted, or never was."
            )
            return
        yield asked.sentence(now_ms)
        ahead = next((reminder for reminder in in_order if reminder.state != "queued"), asked)
        is_behind = asked.state != "queued" and ahead is not asked
        if is_behind and asked.target_ms <= now_ms:
            yield f"{_readable(ahead.id)} goes first, and one is delivered at a time."
            yield ahead.sentence(now_ms)

    def _in_order(self) -> list[ReminderSnapshot]:
        """Earliest target first, ties in create order."""
        return sorted(self.reminders or (), key=lambda reminder: reminder.target_ms)

    def _nothing_known(self, otherwise: str) -> str:
        if self.state in OWNER.finals:
            return f"The owner keeps track of no reminder any more ({_DETACHED})."
        if self.reminders is None:
            return "Nothing is known of the reminders yet: the log has not been confirmed and read."
        return otherwise


_STANDING: Final = {
    "armed": "the owner has not looked at it since",
    "overdue": "it waits for its turn to be tried",
    "preflight": "the log is being confirmed",
    "awaiting_admission": "it waits for the agent to be between turns",
    "queued": "it was handed to the agent, and its dispatch is being made durable",
}
"""Per state that is not final, in the order of the path."""

_OWNER_STANDING: Final = {
    "starting": "has not begun",
    "driving": "is checking the log and delivering",
    "waiting": "waits for the earliest target",
    "empty": "has nothing to deliver",
    "blocked": "waits for the agent to become idle",
    "parked": "could not go on and waits for the next trigger",
    "stopping": "is stopping",
    "stopped": "has stopped, and the log keeps the reminders; it delivers when the session is live again",
    "faulted": "has stopped on a fault, and the log keeps the reminders; resume the session to deliver again",
}

_DETACHED: Final = next(edge.why for edge in DELIVERY.edges if edge.event == "detach")


def taken(edge: Edge | None) -> EdgeTaken | None:
    """Return what a snapshot says of ``edge``."""
    return None if edge is None else EdgeTaken(edge.event, edge.kind.value, edge.why, edge.target)


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


def _readable(schedule_id: str) -> str:
    """Return an id as it is, or quoted and escaped where a line break or a lone surrogate would spoil the sentence."""
    return schedule_id if schedule_id.isprintable() else repr(schedule_id)


def _since(since_ms: int, now_ms: int) -> str:
    """Say for how long the state has lasted; nothing where the clock has gone back since."""
    return "" if now_ms < since_ms else f", in this state for {_spell(now_ms - since_ms)}"


def _spell(duration_ms: int) -> str:
    """Spell a duration that is not negative in its largest unit and the one below it; less than a second in ms."""
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    rest = duration_ms // 1_000
    parts: list[str] = []
    for name, seconds in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if parts:
            return parts[0] if count == 0 else f"{parts[0]} {count} {name}"
        if count:
            parts.append(f"{count} {name}")
    return parts[0]
