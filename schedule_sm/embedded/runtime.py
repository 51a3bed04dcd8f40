"""``ScheduleHost``: a small complete host for one process. Read this file to see how the parts are put together.

Opening: store, services, plugins; then sessions, each with its root agent. Closing is the exact reverse.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from schedule_sm import invariant, plugin
from schedule_sm.clock import wall_ms
from schedule_sm.core.cursor import Observer
from schedule_sm.core.errors import CompositionError
from schedule_sm.core.fields import END_SEED
from schedule_sm.embedded.agents import EmbeddedAgent, EmbeddedAgents
from schedule_sm.embedded.durability import FLUSH_TIMEOUT_S
from schedule_sm.embedded.encoded_log import EncodedLog, encode_data
from schedule_sm.embedded.errors import HostClosedError, SessionExistsError
from schedule_sm.embedded.live_session import LiveSession
from schedule_sm.embedded.loading import check_session_id, give_back, load_session, opened_store
from schedule_sm.embedded.runner import TurnRunner
from schedule_sm.embedded.scope import Events, Scope, Tools
from schedule_sm.embedded.sessions import EmbeddedSession, EmbeddedSessions
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.protocol import NewSession, Store
from schedule_sm.tools import TOOL_TIMEOUT_S

__all__ = ["HostContext", "LiveSession", "ScheduleHost"]

_logger = logging.getLogger(__name__)


class HostContext(Scope):
    """A scope with the host's services: the root's, or one plugin's."""

    def __init__(
        self, name: str, sessions: EmbeddedSessions, agents: EmbeddedAgents, *, tools: Tools, events: Events
    ) -> None:
        """Offer ``sessions`` and ``agents`` in the scope called ``name``."""
        super().__init__(name, tools=tools, events=events)
        self.sessions = sessions
        self.agents = agents
        self.session_persistence: Store = sessions.store

    def plugin_scope(self, name: str) -> HostContext:
        """Return the scope of one plugin: the same services, tools and events, undone on its own."""
        return HostContext(name, self.sessions, self.agents, tools=self.tools, events=self._events)

    def agent_scope(self, name: str) -> Scope:
        """Return the scope of one agent: tools inside the host's, events of its own."""
        return Scope(name, tools=Tools(self.tools), events=Events())


class ScheduleHost:
    """Sessions with agents on one store; see ``open``."""

    def __init__(self, store: Store, runner: TurnRunner, *, flush_timeout_s: float) -> None:
        """Offer the services; ``open`` loads the plugins."""
        self._store = store
        self._runner = runner
        sessions = EmbeddedSessions(store, flush_timeout_s=flush_timeout_s)
        self.ctx = HostContext("host", sessions, EmbeddedAgents(), tools=Tools(), events=Events())
        self._live: dict[str, LiveSession] = {}
        self._children: dict[EmbeddedAgent, set[LiveSession]] = {}
        self._opening = asyncio.Lock()
        self._closing: dict[str, asyncio.Event] = {}
        self._departures: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        runner: TurnRunner,
        store: Store | None = None,
        tool_timeout_s: float = TOOL_TIMEOUT_S,
        flush_timeout_s: float = FLUSH_TIMEOUT_S,
        observers: Sequence[Observer] = (),
    ) -> AsyncIterator[ScheduleHost]:
        """Open a host on the SQLite file at ``path``, or on ``store``, which stays the caller's to close.

        Args:
            path: the SQLite file; created if it is not there.
            runner: what runs the turns.
            store: any store of the contract, in place of a file.
            tool_timeout_s: how long a tool's caller waits before it is told that nothing is certain.
            flush_timeout_s: how long a flush waits before it answers "not confirmed".
            observers: told of every step of the charts.

        Raises:
            StoreError: its class says what is wrong with the file or its place.
            CompositionError: naming what the runner lacks.
            ValueError: unless exactly one of ``path`` and ``store`` is given.
        """
        _check_runner(runner)
        async with opened_store(path, store) as used:
            host = cls(used, runner, flush_timeout_s=flush_timeout_s)
            try:
                checker = host.ctx.plugin_scope(invariant.name)
                host.ctx.defer(checker.close)
                invariant.apply(checker)
                reminders = host.ctx.plugin_scope(plugin.name)
                host.ctx.defer(reminders.close)
                plugin.apply(reminders, tool_timeout_s=tool_timeout_s, observers=tuple(observers))
                yield host
            finally:
                await host._close()

    # -- sessions -------------------------------------------------------------------------------------------

    async def session(self, session_id: str, *, create: bool = True) -> LiveSession:
        """Return the live session of that id, opening it if needed; its overdue reminders then come by themselves.

        Args:
            session_id: any non-empty text.
            create: whether a session that is not in the store begins now.

        Raises:
            SessionUnknownError: if it is not in the store and ``create`` is false; it names ids like it.
            SessionHeldError: if another host holds it.
            ScheduleLogError: if an event of the host's own in it cannot be read.
            StoreError: if the store cannot be used.
        """
        check_session_id(session_id)
        async with self._place_for(session_id):
            live = self._live.get(session_id)
            if live is None:
                if not create:
                    await self._store.read(session_id, types=())
                info = await self._store.acquire(session_id, wall_ms())
                session = await load_session(self.ctx.sessions, info, before_use=self._check_open)
                live = self._announce(session)
        return live

    async def fork(self, parent: LiveSession | str, child_id: str) -> LiveSession:
        """Return a new session that begins with everything ``parent`` holds; it inherits no reminders and no inbox.

        Raises:
            SessionExistsError: if the store holds events under ``child_id``.
            StoreError: if the store cannot be used.
        """
        check_session_id(child_id)
        source = await self.session(parent, create=False) if isinstance(parent, str) else parent
        if not await source.log.writer.flush():
            _logger.warning("session %r is forked before all of it is durable", source.id)
        inherited = await self._store.read(source.id) if source.log.writer.durable else ()
        async with self._place_for(child_id):
            info = await self._store.acquire(child_id, wall_ms()) if child_id not in self._live else None
            if info is None or info.next_seq:
                if info is not None:
                    await give_back(self._store, info)
                raise SessionExistsError(child_id)
            log = EncodedLog([*inherited, *source.events.stored(len(inherited))])
            log.add(END_SEED, wall_ms(), encode_data({"parent": source.id}))
            header = NewSession(seed_length=len(log), parent=source.id)
            session = EmbeddedSession(
                self.ctx.sessions,
                child_id,
                log,
                header=header,
                epoch=info.epoch,
                durable=0,
                created_at=info.created_at,
            )
            try:
                if not await session.writer.flush():
                    _logger.warning("the fork %r is not durable yet", child_id)
                self._check_open()
            except BaseException:
                await session.writer.close()
                raise
            return self._announce(session)

    async def spawn(self, parent: LiveSession, child_id: str) -> LiveSession:
        """Return a child agent of ``parent``'s in a session of its own; children have no reminders.

        Raises:
            HostClosedError: if ``parent`` is no longer live.
            SessionHeldError: if the session is live already, here or elsewhere.
            StoreError: if the store cannot be used.
        """
        check_session_id(child_id)

        def check_parent() -> None:
            self._check_open()
            if self._live.get(parent.id) is not parent:
                what = f"session {parent.id!r}"
                raise HostClosedError(what)

        async with self._place_for(child_id):
            check_parent()
            info = await self._store.acquire(child_id, wall_ms())
            session = await load_session(self.ctx.sessions, info, before_use=check_parent)
            return self._announce(session, parent=parent.agent)

    async def close_session(self, live: LiveSession) -> None:
        """Close one session: its turn, its scope, its place among the live, its log; in this order.

        Whoever closes it a second time, or opens it again, waits for the first close.
        """
        if self._live.get(live.id) is not live:
            await self._closing_ended(live.id)
            return
        del self._live[live.id]
        ended = self._closing[live.id] = asyncio.Event()
        try:
            await self._take_down(live)
        finally:
            if self._closing.get(live.id) is ended:
                del self._closing[live.id]
            ended.set()

    async def _take_down(self, live: LiveSession) -> None:
        for child in tuple(self._children.pop(live.agent, ())):
            await self.close_session(child)
        if live.agent.parent in self._children:
            self._children[live.agent.parent].discard(live)
        failpoint("dispose.before")
        try:
            await live.agent.close()
        finally:
            self.ctx.agents.remove(live.agent)
            if not await live.log.writer.close() and live.log.events:
                _logger.warning("session %r was closed before all of it was durable", live.id)
            self.ctx.sessions.remove(live.log)
        failpoint("dispose.after")

    @asynccontextmanager
    async def _place_for(self, session_id: str) -> AsyncIterator[None]:
        """Let one session at a time be opened, this one once an earlier close of it has ended."""
        await self._closing_ended(session_id)
        async with self._opening:
            self._check_open()
            yield

    async def _closing_ended(self, session_id: str) -> None:
        while (closing := self._closing.get(session_id)) is not None:
            await closing.wait()

    def _announce(self, session: EmbeddedSession, *, parent: EmbeddedAgent | None = None) -> LiveSession:
        """Make a session and its agent live; from here on it has tools, an owner and turns."""
        agent = EmbeddedAgent(
            session.id, session, self.ctx.agent_scope(f"agent {session.id}"), self._runner, parent=parent
        )
        live = LiveSession(agent, self.close_session)
        session.writer.on_committed = lambda late: self._committed(live, late=late)
        session.writer.on_fenced = lambda: self._fenced(live)
        self.ctx.sessions.add(session)
        self.ctx.agents.add(agent)
        self._live[session.id] = live
        if parent is not None:
            self._children.setdefault(parent, set()).add(live)
        self.ctx.emit("agent/created", agent)
        agent.pump()
        return live

    # -- news from the store --------------------------------------------------------------------------------

    def _committed(self, live: LiveSession, *, late: bool) -> None:
        """A reminder whose dispatch has become durable may have its turn; ``late``: after a flush was told "no"."""
        live.agent.pump()
        if late and live.owner is not None:
            live.owner.recompute()

    def _fenced(self, live: LiveSession) -> None:
        """Another owner has the session: the agent is no longer live, and its owner sees that in its next drive."""
        self.ctx.agents.remove(live.agent)
        if live.owner is not None:
            live.owner.recompute()
        departure = asyncio.get_running_loop().create_task(
            self.close_session(live), name=f"schedule-sm departure of {live.id}"
        )
        self._departures.add(departure)
        departure.add_done_callback(self._departures.discard)

    # -- the end --------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_closed:
            what = "the host"
            raise HostClosedError(what)

    async def _close(self) -> None:
        """Close every session, then the plugins; the store is closed by ``open``."""
        self._is_closed = True
        try:
            await self._openings_ended()
            ends = [self.close_session(live) for live in tuple(self._live.values())]
            for failure in await asyncio.gather(*ends, *self._departures, return_exceptions=True):
                if isinstance(failure, Exception):
                    _logger.error("a session could not be closed in order", exc_info=failure)
            if self._departures:  # fenced meanwhile
                await asyncio.wait(self._departures)
            for session_id in tuple(self._closing):  # somebody else closes it
                await self._closing_ended(session_id)
        finally:
            await self.ctx.close()

    async def _openings_ended(self) -> None:
        try:
            async with asyncio.timeout(self.ctx.sessions.flush_timeout_s), self._opening:
                return
        except TimeoutError:
            _logger.error("a session is still being opened; the store hangs, it is left behind")


def _check_runner(runner: object) -> None:
    """A runner that lacks something would fail every turn; say so before there is one."""
    wanted = {"format": isinstance(getattr(runner, "format", None), str)}
    wanted |= {name: callable(getattr(runner, name, None)) for name in ("user_message", "run_turn")}
    for name, is_there in wanted.items():
        if not is_there:
            what = "a text attribute" if name == "format" else "a method"
            msg = f"the runner {type(runner).__name__} needs {what} {name!r}; see schedule_sm.TurnRunner"
            raise CompositionError(msg)
