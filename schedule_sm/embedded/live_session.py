"""``LiveSession``: what an application holds of a session that is live in a host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from schedule_sm import plugin
from schedule_sm.embedded.agents import EmbeddedAgent
from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.sessions import Header
from schedule_sm.embedded.turns import Turns
from schedule_sm.owner import ScheduleOwner


class LiveSession:
    """A session that is live in this host, with its agent: what an application holds."""

    def __init__(self, agent: EmbeddedAgent, close: Callable[[LiveSession], Awaitable[None]]) -> None:
        """Speak to ``agent``; its host's ``close`` ends the session."""
        self._close = close
        self.agent = agent
        self.log = agent.session
        """The session as the plugin sees it."""

    @property
    def id(self) -> str:
        """The session's id."""
        return self.log.id

    @property
    def header(self) -> Header:
        """What the session is known by."""
        return self.log.header

    @property
    def events(self) -> EncodedLog:
        """The event log; each read gives a fresh event."""
        return self.log.events

    @property
    def owner(self) -> ScheduleOwner | None:
        """Who delivers the session's reminders; ask its ``snapshot()`` why one waits."""
        return plugin.schedule_owner(self.agent)

    async def send(self, text: str) -> str:
        """Queue what a user says and return the reply of its turn; cancelling takes nothing back.

        Raises:
            TurnFailedError: if the runner raised; the agent goes on.
            HostClosedError: if the session is closed before the turn has ended; the message is offered again when it
                is opened the next time.
        """
        return await self.agent.send(text)

    def turns(self, *, after_seq: int | None = None) -> Turns:
        """Iterate over every finished turn, reminders' too, each once, until the session is closed.

        Args:
            after_seq: begin behind this event of the log (-1: all of it); by default where the session was opened.
        """
        return self.agent.turns(after_seq)

    async def close(self) -> None:
        """Leave the session as it is; reminders that come due meanwhile are delivered when it is opened again."""
        await self._close(self)
