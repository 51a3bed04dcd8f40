"""Diagnostics of owner and tools: one logger, every warning with its kind, session and agent, never a prompt."""

from __future__ import annotations

import logging
from typing import Any, Literal, TypeAlias

from schedule_sm.host import Agent, Context
from schedule_sm.liveness import is_known_departed

WarningKind: TypeAlias = Literal[
    "preflight", "barrier", "followup", "append", "corrupt_log", "idle_wait", "owner", "start"
]

_logger = logging.getLogger("schedule_sm")


def warn(
    kind: WarningKind,
    what: str,
    agent: Agent,
    error: BaseException | None = None,
    *,
    level: int = logging.WARNING,
    **fields: Any,
) -> None:
    """Log ``what`` happened to ``agent``'s reminders, with the traceback of ``error``.

    The record carries ``kind``, ``session_id`` and ``agent_id`` (and ``fields``) as attributes.
    """
    session_id = agent.session.id
    _logger.log(
        level,
        "%s: %s (session %r, agent %r)",
        kind,
        what,
        session_id,
        agent.id,
        exc_info=error,
        extra={"kind": kind, "session_id": session_id, "agent_id": agent.id, **fields},
    )


def warn_unless_departed(
    ctx: Context,
    kind: WarningKind,
    what: str,
    agent: Agent,
    error: BaseException | None = None,
    **fields: Any,
) -> None:
    """Log as ``warn`` does; an agent that has departed is not spoken of any more."""
    if not is_known_departed(ctx, agent):
        warn(kind, what, agent, error, **fields)
