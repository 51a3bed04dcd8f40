"""A plugin of its own: no log that cannot be folded, and no append that would make it so.

Loaded, it checks the existing logs, and then every candidate ``schedule/change`` before it is appended, under the same
fold policy and incrementally.
"""

from __future__ import annotations

from typing import Any, Final

from schedule_sm.core.errors import CompositionError, ScheduleLogError
from schedule_sm.core.event_log import read_change
from schedule_sm.core.projection import Projection
from schedule_sm.core.records import SCHEDULE_CHANGE
from schedule_sm.host import Context, Session
from schedule_sm.transaction import shared_session

name: Final = "schedule-sm-invariant"
inject: Final = ("sessions",)


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
    for session in sessions.list():
        _folded(session)
    ctx.defer(sessions.guard_append(check_append))


def check_append(session: Session, type: str, data: Any) -> None:  # noqa: A002 - the event's own fields
    """Refuse an event that would make ``session``'s log unfoldable; O(1) beyond what was folded.

    Raises:
        ScheduleLogError: with the session and the position that the event would have had.
    """
    if type != SCHEDULE_CHANGE:
        return
    projection = _folded(session)
    try:
        projection.check(read_change(data))
    except ScheduleLogError as error:
        raise error.located(seq=len(session.events), session_id=session.id) from error


def _folded(session: Session) -> Projection:
    projection = shared_session(session).projection
    try:
        projection.sync(session.events)
    except ScheduleLogError as error:
        raise error.located(session_id=session.id) from error
    return projection
