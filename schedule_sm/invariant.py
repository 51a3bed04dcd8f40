"""A plugin of its own: no log that cannot be folded, and no append that would make it so.

Loaded, it checks the existing logs, and then every candidate ``schedule/change`` before it is appended, under the same
fold policy and incrementally.
"""

from __future__ import annotations

from typing import Any, Final

from schedule_sm.core.errors import CompositionError, ScheduleLogError
from schedule_sm.core.event_log import read_change
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.core.projection import Projection
from schedule_sm.host import Context, Session
from schedule_sm.transaction import SharedSession, shared_session

name: Final = "schedule-sm-invariant"
inject: Final = ("sessions",)

_SPARE: Final = 8
"""So many more sessions are kept, or a quarter of the live ones if that is more, before the gone ones are let go."""


def apply(ctx: Context) -> None:
    """Check every live session's log now and every candidate change from now on.

    Raises:
        CompositionError: if the host has no ``sessions`` service.
        ScheduleLogError: with session and seq, if an existing log cannot be folded.
    """
    sessions = getattr(ctx, "sessions", None)
    if sessions is None:
        msg = "schedule_sm.invariant needs the host service 'sessions'; offer it before you load the plugin"
        raise CompositionError(msg)
    invariant = _Invariant(ctx)
    for session in sessions.list():
        invariant.fold(session)
    ctx.defer(sessions.guard_append(invariant.check_append))


class _Invariant:
    """Keeps the projections of the sessions that it has seen, so that no append costs a replay."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._kept: dict[int, SharedSession] = {}
        self._sweep_at = _SPARE

    def check_append(self, session: Session, type: str, data: Any) -> None:  # noqa: A002 - the event's own fields
        """Refuse an event that would make ``session``'s log unfoldable; O(1) beyond what was folded.

        Raises:
            ScheduleLogError: with the session and the position that the event would have had.
        """
        if type != SCHEDULE_CHANGE:
            return
        projection = self.fold(session)
        try:
            projection.check(read_change(data))
        except ScheduleLogError as error:
            raise error.located(seq=len(session.events), session_id=session.id) from error

    def fold(self, session: Session) -> Projection:
        """Return ``session``'s projection in step with its log.

        Raises:
            ScheduleLogError: with session and seq, at every call until the log is mended.
        """
        kept = self._kept.get(id(session))
        if kept is None or kept.session is not session:
            if len(self._kept) >= self._sweep_at:
                self._sweep()
            kept = self._kept[id(session)] = shared_session(session)
        return kept.fold()

    def _sweep(self) -> None:
        """Let go of sessions that are no longer live, with their logs; amortised O(1) for each new one."""
        live = {id(session) for session in self._ctx.sessions.list()}
        self._kept = {key: kept for key, kept in self._kept.items() if key in live}
        self._sweep_at = len(self._kept) + max(_SPARE, len(self._kept) // 4)
