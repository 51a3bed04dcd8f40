"""The contract between the plugin and a host runtime: one protocol per service, nothing else.

A host that offers these shapes can load ``schedule_sm.plugin``. ``schedule_sm.embedded`` is such a host; a smaller one,
written from this file alone, lives in ``docs/examples/minimal_host.py``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schedule_sm.core.event_log import EventLog

Dispose = Callable[[], None]
"""Takes back what was registered; synchronous, and harmless when called twice."""

Guard = Callable[["Session", str, Any], None]
"""``check(session, type, data)``: called before an append; raising refuses the event."""


class SessionHeader(Protocol):
    """What a session is known by."""

    @property
    def seed_length(self) -> int:
        """How many leading events a fork inherited; 0 (or absent) for a session that is no fork."""


class Session(Protocol):
    """One session and its ordered event log."""

    @property
    def id(self) -> str:
        """Unique among sessions."""

    @property
    def header(self) -> SessionHeader:
        """The session's header."""

    @property
    def events(self) -> EventLog:
        """The log: events ``{"seq", "type", "time", "data"}``, ``seq`` counting from 0.

        Return the same sequence each time: of another one with other event objects, all that was read before is
        compared, O(events) for each fold.
        """

    def append(self, type: str, data: Any, /) -> object:  # noqa: A002 - the event's own field name
        """Append one event at once (synchronous); raising means that it may not have been appended."""


class Sessions(Protocol):
    """The live sessions."""

    def list(self) -> Sequence[Session]:
        """Return the live sessions."""

    async def flush(self, session: Session, /) -> bool:
        """Return ``True`` only when every event in the log at the call is durable.

        Anything else means "not confirmed". It must end (a store bounds it), and it is never called twice at once
        for one session. It must not await ``wait_stopped()`` or one of the three tools.
        """

    def guard_append(self, check: Guard, /) -> Dispose:
        """Call ``check`` before each append; raising refuses the event."""


class AgentScope(Protocol):
    """A scope: the plugin's, or one agent's."""

    @property
    def tools(self) -> ToolRegistry:
        """The tools of this scope."""

    def defer(self, close: Callable[[], Awaitable[None] | None], /) -> object:
        """Run ``close`` (sync or async) when the scope ends, in reverse order of registration."""

    def on(self, event: str, handler: Callable[..., object], /) -> Dispose:
        """Call ``handler`` at each ``event``."""


class Agent(Protocol):
    """A live agent."""

    @property
    def id(self) -> str:
        """The registry's key."""

    @property
    def session(self) -> Session:
        """The session it works in."""

    @property
    def ctx(self) -> AgentScope:
        """Its own scope; emits ``agent/status`` with the new status."""

    @property
    def status(self) -> str:
        """``"idle"`` when no turn runs."""

    def reserve_turn_admission(self) -> Callable[[], None] | None:
        """Return a releaser that keeps every turn from starting until it is called, or ``None`` when busy."""

    def followup(self, message: FollowupMessage, /) -> object:
        """Queue a user-role message for the next turn (synchronous); raising means that nothing was queued."""

    async def when_idle(self) -> None:
        """Return when no turn runs and nobody holds a reservation; level-triggered and cancellable."""


class Agents(Protocol):
    """The registry of live agents; the host's scope emits ``agent/created`` once an agent is in it."""

    def get(self, id: str, /) -> Agent | None:  # noqa: A002 - the registry's own word
        """Return the current agent of that id."""

    def is_root(self, agent: Agent, /) -> bool:
        """Whether ``agent`` is a root and not another agent's child."""


class ToolRegistry(Protocol):
    """The tools of one scope."""

    def register(self, tool: Tool, /) -> Dispose:
        """Offer ``tool`` in this scope; raises if its name is taken."""


class Context(AgentScope, Protocol):
    """What a plugin is applied to: its own scope, with the host's services."""

    @property
    def sessions(self) -> Sessions:
        """Live sessions, durability and the append guard."""

    @property
    def agents(self) -> Agents:
        """The registry of live agents."""

    @property
    def session_persistence(self) -> object:
        """Present when the host's sessions are persisted."""


@dataclass(frozen=True, slots=True)
class FollowupMessage:
    """The user-role message of one due reminder."""

    text: str
    """The five-line framing: valid UTF-8."""
    source: Mapping[str, str]
    """``{"kind": "plugin", "plugin": "schedule-sm"}``."""
    metadata: Mapping[str, Any]
    """For the host's UI: ``schedule_id``, ``occurrence_at`` (canonical instant), ``late_ms``."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call yields: always a value, also for an error."""

    value: Any
    """Plain JSON data: a view, a list of views, a delete result, or an error ``{"code", "message", …}``."""
    content: str
    """``value`` as compact canonical JSON, for the model: valid UTF-8."""


class Tool(Protocol):
    """One tool as a host offers it to a model."""

    @property
    def name(self) -> str:
        """Unique in its scope."""

    @property
    def description(self) -> str:
        """For the model; constant."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments; constant and permissive: the tool itself is the judge."""

    @property
    def output_schema(self) -> Mapping[str, Any]:
        """JSON Schema of the value; constant."""

    async def execute(
        self,
        raw_arguments: object,
        caller: object,
        *,
        call_id: str | None = None,
        turn_id: str | None = None,
    ) -> ToolResult:
        """Carry out one call on behalf of ``caller``; whatever the model sent, the answer is a value."""
