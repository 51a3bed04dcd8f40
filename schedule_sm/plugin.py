"""The plugin: who gets tools and an owner, and in which order both go away again.

Only root agents created after loading get Schedule. A session has one owner at a time, whoever its agent is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from schedule_sm.core.cursor import ALL_STEPS, Observer, Observers
from schedule_sm.core.errors import CompositionError
from schedule_sm.diagnostics import warn
from schedule_sm.edge_log import OwnerObserver
from schedule_sm.host import Agent, Context, Dispose, Session
from schedule_sm.liveness import is_known_departed
from schedule_sm.owner import ScheduleOwner
from schedule_sm.synchronous import synchronous
from schedule_sm.tools import TOOL_TIMEOUT_S, register_schedule_tools
from schedule_sm.transaction import shared_session

name: Final = "schedule-sm"
inject: Final = ("agents", "sessions", "tools", "session_persistence")

_OWNERS: WeakValueDictionary[int, ScheduleOwner] = WeakValueDictionary()
"""Owners by the identity of their agent; an owner keeps its agent alive, so the key cannot be reused."""


def schedule_owner(agent: Agent) -> ScheduleOwner | None:
    """Return the owner of that exact live agent, or ``None``."""
    owner = _OWNERS.get(id(agent))
    return owner if owner is not None and owner.agent is agent else None


def apply(
    ctx: Context,
    *,
    tool_timeout_s: float = TOOL_TIMEOUT_S,
    observers: tuple[Observer | OwnerObserver, ...] = (),
) -> None:
    """Give every root agent that is created from now on the three tools and an owner.

    Args:
        ctx: the plugin's own scope of the host; unloading is deferred on it.
        tool_timeout_s: how long a tool's caller waits before it is told that nothing is certain.
        observers: told of every step of this plugin's charts; an ``OwnerObserver`` also of whose step it is.

    Raises:
        CompositionError: naming the service that the host lacks.
    """
    for service in inject:
        if getattr(ctx, service, None) is None:
            msg = (
                f"schedule_sm.plugin needs the host service {service!r}; offer it before you load the plugin"
            )
            raise CompositionError(msg)
    plugin = _Plugin(ctx, tool_timeout_s, observers)
    ctx.defer(plugin.unload)
    plugin.undo = ctx.on("agent/created", plugin.on_created)


class _Seat:
    """What one agent was given; ``unseat`` takes it back in the order of DESIGN section 4."""

    def __init__(self, plugin: _Plugin, agent: Agent) -> None:
        self.plugin = plugin
        self.agent = agent
        self.owner: ScheduleOwner | None = None
        self.unregister: Dispose | None = None
        self.succession: asyncio.Task[None] | None = None
        self._unseating: asyncio.Task[None] | None = None

    def recompute(self) -> None:
        """Tell the session's owner, which may be another agent's."""
        owner = self.plugin.current_owner(self.agent.session)
        if owner is not None:
            owner.recompute()

    async def unseat(self) -> None:
        """Stop, unregister, close the lane, then wait; a second caller waits for the same end."""
        await asyncio.wait({self.begin_unseating()})

    def begin_unseating(self) -> asyncio.Task[None]:
        """Stop, unregister and close the lane at once, so that nothing comes between; returns the wait for the end."""
        if self._unseating is None:
            if self.owner is not None:
                self.owner.request_stop()
            if self.succession is not None:
                self.succession.cancel()
            if self.unregister is not None:
                self.unregister()
            self._unseating = asyncio.get_running_loop().create_task(
                self._ended(), name=f"schedule-sm unloading {self.agent.id}"
            )
        return self._unseating

    async def _ended(self) -> None:
        if self.owner is not None:
            await self.owner.wait_stopped()
        else:
            await shared_session(self.agent.session).transactions_ended(self.agent)
        self.plugin.forget(self)


class _Plugin:
    """The seats of one loading."""

    def __init__(
        self, ctx: Context, tool_timeout_s: float, observers: tuple[Observer | OwnerObserver, ...]
    ) -> None:
        self._ctx = ctx
        self._tool_timeout_s = tool_timeout_s
        self._observers = Observers(ALL_STEPS)
        self._owner_observers = [observer for observer in observers if isinstance(observer, OwnerObserver)]
        for observer in observers:
            if not isinstance(observer, OwnerObserver):
                self._observers.add(observer)
        self._seats: dict[int, _Seat] = {}
        self._current: dict[int, ScheduleOwner] = {}
        # of newcomers, by session
        self._lines: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self.undo: Callable[[], None] | None = None

    # -- arrival --------------------------------------------------------------------------------------------

    def on_created(self, agent: Agent) -> None:
        """Seat a new root agent; what fails is logged and leaves the agent without Schedule."""
        try:
            if not synchronous(self._ctx.agents.is_root(agent), "agents.is_root") or id(agent) in self._seats:
                return
            seat = _Seat(self, agent)
            seat.unregister = register_schedule_tools(
                self._ctx, agent, seat, tool_timeout_s=self._tool_timeout_s
            )
        except Exception as error:  # noqa: BLE001 - logged; the host's own creation of the agent goes on
            warn("start", "the tools could not be registered; this agent has no reminders", agent, error)
            return
        self._seats[id(agent)] = seat
        agent.ctx.defer(seat.unseat)
        self._seat_owner(seat)

    def _seat_owner(self, seat: _Seat) -> None:
        earlier = self.current_owner(seat.agent.session)
        if earlier is None and id(seat.agent.session) not in self._lines:
            self._start_owner(seat)
            return
        if earlier is not None and is_known_departed(self._ctx, earlier.agent):
            earlier.request_stop()
        line = self._lines.setdefault(id(seat.agent.session), asyncio.Lock())
        seat.succession = asyncio.get_running_loop().create_task(
            self._succeed(seat, line), name=f"schedule-sm succession {seat.agent.id}"
        )

    async def _succeed(self, seat: _Seat, line: asyncio.Lock) -> None:
        """Give the newcomer an owner once no other owner of its session is left and no earlier newcomer waits."""
        async with line:  # so a departure wakes one of them, not all
            while (earlier := self.current_owner(seat.agent.session)) is not None:
                await earlier.wait_stopped()
            if not is_known_departed(self._ctx, seat.agent):
                self._start_owner(seat)

    def _start_owner(self, seat: _Seat) -> None:
        try:
            owner = seat.owner = ScheduleOwner(self._ctx, seat.agent, observers=self._observers)
            self._current[id(seat.agent.session)] = owner
            _OWNERS[id(seat.agent)] = owner
            for observer in self._owner_observers:
                owner.observe(observer)
            owner.start()
        except Exception as error:  # noqa: BLE001 - logged; the tools stay and go on recording
            warn("start", "the owner could not be started", seat.agent, error)
            if seat.owner is not None:
                seat.owner.request_stop()  # so that it keeps no newcomer of its session waiting

    # -- departure ------------------------------------------------------------------------------------------

    def current_owner(self, session: Session) -> ScheduleOwner | None:
        """Return the session's owner that has not reached a final state."""
        owner = self._current.get(id(session))
        if owner is None or owner.agent.session is not session:
            return None
        return None if owner.state in ("stopped", "faulted") else owner

    def forget(self, seat: _Seat) -> None:
        """Drop what is kept of an agent that is gone."""
        self._seats.pop(id(seat.agent), None)
        if self._current.get(id(seat.agent.session)) is seat.owner:
            self._current.pop(id(seat.agent.session), None)
        if _OWNERS.get(id(seat.agent)) is seat.owner:
            _OWNERS.pop(id(seat.agent), None)

    async def unload(self) -> None:
        """Unseat every agent, all at once, and wait for them."""
        if self.undo is not None:
            self.undo()
        unseating = {seat.begin_unseating() for seat in tuple(self._seats.values())}
        if unseating:
            await asyncio.wait(unseating)
