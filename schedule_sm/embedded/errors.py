"""Every error of the embedded host; the stores have their own, and both share one base with a ``code``."""

from __future__ import annotations

from schedule_sm.core.errors import ScheduleError


class HostClosedError(ScheduleError):
    """The host, or this session of it, is closed or no longer live."""

    code = "host_closed"

    def __init__(self, what: str) -> None:
        """Name ``what`` is closed."""
        super().__init__(f"{what} is closed; open it again")


class ToolNameTakenError(ScheduleError):
    """A tool of that name can already be seen in this scope."""

    code = "tool_name_taken"

    def __init__(self, name: str) -> None:
        """Name the tool."""
        super().__init__(f"a tool named {name!r} is already registered; give one of them another name")
        self.name = name


class SessionExistsError(ScheduleError):
    """A fork was to be made under the id of a session that has events."""

    code = "session_exists"

    def __init__(self, session_id: str) -> None:
        """Name the session."""
        super().__init__(f"session {session_id!r} already exists; fork under another id")
        self.session_id = session_id


class TurnFailedError(ScheduleError):
    """The runner raised in the turn of a message that somebody waits for; the agent goes on."""

    code = "turn_failed"

    def __init__(self, reason: str) -> None:
        """Keep the short ``reason`` that the log has too."""
        super().__init__(
            f"the turn failed ({reason}); send the message again, the log of this process has details"
        )
        self.reason = reason
