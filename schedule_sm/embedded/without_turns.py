"""``SessionWithoutTurns``: a stored session whose tools work and whose reminders are announced, never delivered.

For a host that cannot start a turn, such as an MCP server. It has no owner, so nothing is ever dispatched here: a due
reminder stays active and overdue until it is deleted, or until a host with turns opens the session. Messages that wait
in the session's inbox are left to such a host too.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from schedule_sm import invariant
from schedule_sm.clock import LOOP_CLOCK, wall_ms
from schedule_sm.core.errors import CompositionError
from schedule_sm.core.instants import parse_instant
from schedule_sm.embedded.due_watch import SOON_MS, DueWatch
from schedule_sm.embedded.durability import FLUSH_TIMEOUT_S
from schedule_sm.embedded.loading import check_session_id, load_session, opened_store
from schedule_sm.embedded.scope import Events, Scope, Tools
from schedule_sm.embedded.sessions import EmbeddedSession, EmbeddedSessions
from schedule_sm.host import FollowupMessage, ToolResult
from schedule_sm.stores.protocol import Store
from schedule_sm.tool_spec import ToolSpec
from schedule_sm.tools import TOOL_TIMEOUT_S, register_schedule_tools, render_value
from schedule_sm.transaction import shared_session

_logger = logging.getLogger(__name__)

_LIST: Final = "schedule_list"


class TurnlessAgent:
    """The agent that the tools are bound to; it never takes a turn."""

    status: Final = "idle"

    def __init__(self, session: EmbeddedSession) -> None:
        """Stand for whoever calls the tools of ``session``."""
        self.id = session.id
        self.session = session
        self.ctx = Scope(f"agent {session.id}", tools=Tools(), events=Events())

    def reserve_turn_admission(self) -> None:
        """Refuse: no turn can be started here."""

    def followup(self, message: FollowupMessage, /) -> None:
        """Refuse: a message queued here would never be read."""
        msg = f"session {self.id!r} is open without turns; nothing can be delivered into it"
        raise CompositionError(msg)

    async def when_idle(self) -> None:
        """Return: no turn ever runs."""


class _Agents:
    """The registry of the one agent."""

    def __init__(self, agent: TurnlessAgent) -> None:
        self._agent = agent

    def get(self, id: str, /) -> TurnlessAgent | None:  # noqa: A002 - the registry's own word
        return self._agent if id == self._agent.id else None

    def is_root(self, agent: object, /) -> bool:
        return agent is self._agent


class _Context(Scope):
    """The host's services around one session."""

    def __init__(self, sessions: EmbeddedSessions, agent: TurnlessAgent) -> None:
        super().__init__("host", tools=Tools(), events=Events())
        self.sessions = sessions
        self.agents = _Agents(agent)
        self.session_persistence: Store = sessions.store


class SessionWithoutTurns:
    """See ``open``."""

    def __init__(
        self, sessions: EmbeddedSessions, session: EmbeddedSession, *, tool_timeout_s: float
    ) -> None:
        """Offer the tools of ``session``; use ``open``, which also closes it."""
        self._followers: dict[object, Callable[[], None]] = {}
        self._lost = asyncio.Event()
        self._clock = LOOP_CLOCK
        self._session = session
        self._agent = TurnlessAgent(session)
        self._ctx = _Context(sessions, self._agent)
        invariant.apply(self._ctx)  # a log that is corrupt already is what the tools say
        sessions.add(session)
        self._watch = DueWatch(self._agent, self._changed)
        self._ctx.defer(self._watch.close)
        self._unregister = register_schedule_tools(
            self._ctx, self._agent, self._watch, tool_timeout_s=tool_timeout_s
        )
        self.tools: Sequence[ToolSpec] = [ToolSpec(tool, self._agent) for tool in self._agent.ctx.tools]
        """The three tools."""
        session.writer.on_committed = self._committed
        session.writer.on_fenced = self._lost.set

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        session_id: str = "main",
        *,
        store: Store | None = None,
        tool_timeout_s: float = TOOL_TIMEOUT_S,
        flush_timeout_s: float = FLUSH_TIMEOUT_S,
    ) -> AsyncIterator[SessionWithoutTurns]:
        """Open one session of the SQLite file at ``path``, or of ``store``, which stays the caller's to close.

        Args:
            path: the SQLite file; created if it is not there, and held until the end.
            session_id: any non-empty text; a session that is not there begins with its first reminder.
            store: any store of the contract, in place of a file.
            tool_timeout_s: how long a tool's caller waits before it is told that nothing is certain.
            flush_timeout_s: how long a flush waits before it answers "not confirmed".

        Raises:
            SessionHeldError: if another host holds the session.
            StoreError: its class says what is wrong with the file or its place.
            ValueError: unless exactly one of ``path`` and ``store`` is given.
        """
        check_session_id(session_id)
        async with opened_store(path, store) as used:
            sessions = EmbeddedSessions(used, flush_timeout_s=flush_timeout_s)
            session = await load_session(sessions, await used.acquire(session_id, wall_ms()))
            opened = cls(sessions, session, tool_timeout_s=tool_timeout_s)
            try:
                await opened.due()  # the first confirmed fold, from which the watch goes on
                yield opened
            finally:
                await opened._close()

    # -- what is due ----------------------------------------------------------------------------------------

    async def due(self) -> ToolResult:
        """Return ``{"overdue": [view, …], "soon": [view, …]}``, each by target, as of now and after a confirmed flush.

        ``soon`` are those due within an hour. What cannot be confirmed or folded is an error value, as a tool's.
        """
        listed = await self._list.invoke({})
        if not isinstance(listed.value, list):
            return listed
        views: list[dict[str, Any]] = sorted(listed.value, key=lambda view: view["scheduledAt"])
        horizon_ms = self._clock.now_ms() + SOON_MS
        overdue = [view for view in views if view["state"] == "overdue"]
        ahead = views[len(overdue) :]
        value = {
            "overdue": overdue,
            "soon": [view for view in ahead if parse_instant(view["scheduledAt"]) <= horizon_ms],
        }
        return ToolResult(value=value, content=render_value(value))

    @property
    def _list(self) -> ToolSpec:
        [tool] = [tool for tool in self.tools if tool.name == _LIST]
        return tool

    def follow(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call ``on_change`` whenever ``due`` has something new to say; returns its disposer."""
        key = object()
        self._followers[key] = on_change
        return lambda: _forget(self._followers, key)

    def _changed(self) -> None:
        for on_change in tuple(self._followers.values()):
            try:
                on_change()
            except Exception:  # one follower's failure must not keep the news from the others
                _logger.exception("a follower of what is due raised")

    async def wait_lost(self) -> None:
        """Return when another host has taken the session over: nothing can be recorded here any more."""
        await self._lost.wait()

    # -- the end --------------------------------------------------------------------------------------------

    def _committed(self, late: bool) -> None:  # noqa: FBT001 - the store's news
        """What a tool could not confirm is durable after all."""
        if late:
            self._watch.recompute()

    async def _close(self) -> None:
        """Take the tools back, let what is in flight finish, and give the session up."""
        try:
            self._unregister()
            await shared_session(self._session).transactions_ended(self._agent)
            if not await self._session.writer.close() and self._session.events:
                _logger.warning("session %r was closed before all of it was durable", self._session.id)
        finally:
            await self._ctx.close()


def _forget(followers: dict[object, Callable[[], None]], key: object) -> None:
    followers.pop(key, None)
