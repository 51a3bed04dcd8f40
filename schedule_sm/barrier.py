"""Checkpoint and barrier: ask the host whether a session's log is durable, and take only ``True`` for yes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from schedule_sm.host import Context, Session


@dataclass(frozen=True, slots=True)
class FlushOutcome:
    """Whether every event in the log at the call is durable, and what went wrong if that is not known."""

    confirmed: bool
    error: BaseException | None = None


_CONFIRMED: Final = FlushOutcome(confirmed=True)
_UNCONFIRMED: Final = FlushOutcome(confirmed=False)


async def flush(ctx: Context, session: Session) -> FlushOutcome:
    """Flush ``session``; anything but ``True`` (another value, an exception, no service) is "not confirmed".

    It never raises but for the caller's own cancellation; the host bounds how long it takes.
    """
    try:
        answer: object = await ctx.sessions.flush(session)
    except asyncio.CancelledError as error:
        if is_cancelled_itself():
            raise
        return FlushOutcome(confirmed=False, error=error)  # the host's own task was cancelled, not ours
    except Exception as error:  # noqa: BLE001 - the caller logs it and steps its chart along a retry edge
        return FlushOutcome(confirmed=False, error=error)
    return _CONFIRMED if answer is True else _UNCONFIRMED


def is_cancelled_itself() -> bool:
    """Whether the running task was asked to cancel; if not, a ``CancelledError`` came out of what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
