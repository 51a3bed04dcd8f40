"""Agents: admission to turns, the wait for idleness, and the registry that says who is live.

One thing at a time holds admission: a turn, or a reservation. While a message waits in the inbox nobody gets a
reservation, so a user who has said something goes before the next reminder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from schedule_sm.embedded.inbox import Message
from schedule_sm.embedded.runner import TurnRunner
from schedule_sm.embedded.scope import Scope, once
from schedule_sm.embedded.sessions import EmbeddedSession
from schedule_sm.embedded.turns import TurnLoop, Turns
from schedule_sm.host import FollowupMessage
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.tool_spec import ToolSpec


class EmbeddedAgent:
    """A live agent: the root of its session, or another agent's child."""

    def __init__(
        self,
        agent_id: str,
        session: EmbeddedSession,
        ctx: Scope,
        runner: TurnRunner,
        *,
        parent: EmbeddedAgent | None,
    ) -> None:
        """Work in ``session`` with ``runner``; ``ctx`` is its own scope."""
        self.id = agent_id
        self.session = session
        self.ctx = ctx
        self.parent = parent
        self._is_reserved = False
        self._idle_waiters: set[asyncio.Future[None]] = set()
        self._turns = TurnLoop(self, runner)

    @property
    def status(self) -> str:
        """``"running"`` while turns run, else ``"idle"``."""
        return "running" if self._turns.is_running else "idle"

    @property
    def is_reserved(self) -> bool:
        """Whether somebody holds a reservation."""
        return self._is_reserved

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs, a reservation is held, or a message waits for its turn."""
        return self._turns.is_running or self._is_reserved or len(self.session.inbox) > 0

    # -- the host contract ----------------------------------------------------------------------------------

    def reserve_turn_admission(self) -> Callable[[], None] | None:
        """Keep every turn from starting until the returned releaser is called; ``None`` when busy or closing."""
        failpoint("reserve.before")
        if self.is_busy or self._turns.is_stopping:
            return None
        self._is_reserved = True
        failpoint("reserve.after")
        return once(self._release)

    def followup(self, message: FollowupMessage, /) -> None:
        """Queue a message as an event of the log; raising means that nothing was appended."""
        failpoint("followup.before")
        self.session.queue_reminder(message.text, message.source, message.metadata)
        failpoint("followup.after")
        self._turns.pump()  # under a reservation this begins nothing

    async def when_idle(self) -> None:
        """Return when no turn runs or waits and nobody holds a reservation; level-triggered and cancellable."""
        while self.is_busy and not self._turns.is_stopping:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle_waiters.add(waiter)
            try:
                await waiter
            finally:
                self._idle_waiters.discard(waiter)

    # -- turns ----------------------------------------------------------------------------------------------

    async def send(self, text: str) -> str:
        """Queue what a user says and return the reply of its turn."""
        return await self._turns.send(text)

    def turns(self, after_seq: int | None = None) -> Turns:
        """Iterate over the finished turns behind ``after_seq``, by default those since the session was opened."""
        start = self._turns.opened_seq if after_seq is None else after_seq
        return Turns(self._turns, self.session.events, start)

    def turn_tools(self, message: Message) -> Sequence[ToolSpec]:
        """Return the tools that can be seen in this agent's scope, bound to it and to the turn of ``message``."""
        return [ToolSpec(tool, self, message.id) for tool in self.ctx.tools]

    def announce(self, status: str) -> None:
        """Emit ``agent/status``, and wake those who wait for idleness."""
        self.ctx.emit("agent/status", status)
        self._wake_idle_waiters()

    def pump(self) -> None:
        """Begin a turn if one is due: the log has become durable, or the agent is new."""
        self._turns.pump()

    async def close(self) -> None:
        """Cut the running turn off, then end the scope: tools, owner, and whatever else was registered."""
        await self._turns.stop()
        self._wake_idle_waiters()
        await self.ctx.close()

    def _release(self) -> None:
        failpoint("release.before")
        self.session.withdraw_undispatched()
        self._is_reserved = False
        self._turns.pump()
        self._wake_idle_waiters()
        failpoint("release.after")

    def _wake_idle_waiters(self) -> None:
        if not self.is_busy or self._turns.is_stopping:
            for waiter in self._idle_waiters:
                if not waiter.done():
                    waiter.set_result(None)


class EmbeddedAgents:
    """The service ``ctx.agents``: the live agents by id."""

    def __init__(self) -> None:
        """Start without agents."""
        self._live: dict[str, EmbeddedAgent] = {}

    def get(self, id: str, /) -> EmbeddedAgent | None:  # noqa: A002 - the registry's own word
        """Return the current agent of that id."""
        return self._live.get(id)

    def is_root(self, agent: object, /) -> bool:
        """Whether ``agent`` is a root and not another agent's child."""
        return isinstance(agent, EmbeddedAgent) and agent.parent is None

    def add(self, agent: EmbeddedAgent) -> None:
        """Make ``agent`` the current one of its id."""
        self._live[agent.id] = agent

    def remove(self, agent: EmbeddedAgent) -> None:
        """``agent`` is no longer live; another one under its id stays."""
        if self._live.get(agent.id) is agent:
            del self._live[agent.id]
