"""The window from reservation to dispatch append: one attempt to hand one due reminder over.

It is plain synchronous code, so that nothing can come between the message and its dispatch record.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from schedule_sm.core.changes import Entry
from schedule_sm.core.deliveries import Deliveries
from schedule_sm.core.errors import CompositionError, ScheduleLogError
from schedule_sm.core.event_log import end_data
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.core.framing import render_reminder_framing
from schedule_sm.diagnostics import warn, warn_unless_departed
from schedule_sm.host import Agent, Context, FollowupMessage
from schedule_sm.synchronous import synchronous
from schedule_sm.transaction import SharedSession

SOURCE = {"kind": "plugin", "plugin": "schedule-sm"}


class Attempt(Enum):
    """How an attempt ended."""

    DELIVERED = auto()
    """Queued and recorded; a barrier has to follow."""
    REFUSED = auto()
    """The agent is busy."""
    NOT_DUE = auto()
    """Under admission the clock read less than the target."""
    GONE = auto()
    """The reminder ended under admission."""
    ENQUEUE_FAILED = auto()
    """Framing or followup raised; nothing was written."""
    HOST_FAILED = auto()
    """The clock or the reservation raised."""
    OVER = auto()
    """Stopping, lost, or the registry raised."""
    APPEND_FAILED = auto()
    """Queued, but not recorded."""
    CORRUPT = auto()
    """The log cannot be folded any more."""


class Admission:
    """Asks one agent for admission and hands reminders over."""

    __slots__ = (
        "_agent",
        "_ctx",
        "_deliveries",
        "_is_over",
        "_read_clock",
        "_shared",
        "error",
        "is_open",
        "triggered",
    )

    def __init__(
        self,
        ctx: Context,
        agent: Agent,
        shared: SharedSession,
        deliveries: Deliveries,
        *,
        read_clock: Callable[[], int | None],
        is_over: Callable[[], bool],
    ) -> None:
        """Work for the owner whose clock and liveness are asked."""
        self._ctx = ctx
        self._agent = agent
        self._shared = shared
        self._deliveries = deliveries
        self._read_clock = read_clock
        self._is_over = is_over
        self.is_open = False
        """Whether the call stack is inside the window now."""
        self.triggered = False
        """Whether a trigger came from inside the window."""
        self.error: Exception | None = None
        """What the last fault was."""

    def attempt(self, entry: Entry) -> Attempt:
        """Try to hand ``entry`` over: reserve, check, followup, append, release."""
        self.is_open = True
        try:
            return self._attempt(entry)
        finally:
            self.is_open = False

    def _attempt(self, entry: Entry) -> Attempt:
        try:
            release = self._reserve()
        except Exception as error:  # noqa: BLE001 - a host call: parked, the next trigger retries
            warn("owner", "the reservation failed", self._agent, error)
            return Attempt.HOST_FAILED
        if release is None:
            return Attempt.REFUSED
        try:
            return self._under_admission(entry)
        finally:
            self._release(release)

    def _reserve(self) -> Callable[[], None] | None:
        release = synchronous(self._agent.reserve_turn_admission(), "reserve_turn_admission")
        if release is not None and not callable(release):
            msg = f"reserve_turn_admission must return None or a callable, not {type(release).__name__}"
            raise CompositionError(msg)
        return release

    def _release(self, release: Callable[[], object]) -> None:
        try:
            synchronous(release(), "the releaser of a reservation")
        except Exception as error:  # noqa: BLE001 - the hand-over stands; the host has to look after its reservation
            warn("owner", "giving the reservation back failed", self._agent, error)

    def _under_admission(self, entry: Entry) -> Attempt:
        if self._is_over():
            return Attempt.OVER
        if not self._fold():
            return Attempt.CORRUPT
        self._deliveries.take_changes(None)
        if not self._is_active(entry):
            return Attempt.GONE
        now_ms = self._read_clock()
        if now_ms is None:
            return Attempt.HOST_FAILED
        if now_ms < entry.target_ms:
            self._deliveries.not_due(now_ms)
            return Attempt.NOT_DUE
        return self._hand_over(entry, now_ms)

    def _hand_over(self, entry: Entry, now_ms: int) -> Attempt:
        try:
            occurrence_at = entry.scheduled_at
            message = FollowupMessage(
                text=render_reminder_framing(entry.id, occurrence_at, entry.prompt),
                source=dict(SOURCE),
                metadata={
                    "schedule_id": entry.id,
                    "occurrence_at": occurrence_at,
                    "late_ms": now_ms - entry.target_ms,
                },
            )
            synchronous(self._agent.followup(message), "followup")
        except Exception as error:  # noqa: BLE001 - nothing was queued: the reminder stays overdue
            self._deliveries.enqueue_failed(now_ms)
            what = "the message could not be queued"
            warn_unless_departed(self._ctx, "followup", what, self._agent, error)
            return Attempt.ENQUEUE_FAILED
        self._deliveries.enqueued(now_ms)
        return self._record(entry, now_ms)

    def _record(self, entry: Entry, now_ms: int) -> Attempt:
        """Append the dispatch of a queued message, unless that would corrupt the log for good."""
        if self._fold() and self._has_ended(entry):
            self.error = CompositionError("the reminder ended inside followup; its dispatch was not written")
            return self._append_failed(now_ms)
        try:
            appended = self._agent.session.append(SCHEDULE_CHANGE, end_data("dispatch", entry.id))
            synchronous(appended, "session.append")
        except Exception as error:  # noqa: BLE001 - faults the owner, which logs it
            self.error = error
            return self._append_failed(now_ms)
        if not self._fold():
            return Attempt.CORRUPT
        self._deliveries.take_changes(now_ms)
        return Attempt.DELIVERED

    def _append_failed(self, now_ms: int) -> Attempt:
        self._deliveries.append_failed(now_ms)
        return Attempt.APPEND_FAILED

    def _is_active(self, entry: Entry) -> bool:
        return self._shared.projection.active.get(entry.id) is entry

    def _has_ended(self, entry: Entry) -> bool:
        """Whether its dispatch would corrupt the log; a replaced log may hold the same reminder in another entry."""
        current = self._shared.projection.active.get(entry.id)
        return current is not entry and (current is None or current.values != entry.values)

    def _fold(self) -> bool:
        try:
            self._shared.fold()
        except ScheduleLogError as error:
            self.error = error
            return False
        return True
