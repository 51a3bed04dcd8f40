"""MCP: a low-level server with the three tools and a resource of what is due, for clients that have turns of their own.

MCP cannot start a turn. A due reminder is announced to clients that subscribe, and nothing is recorded for that: it
stays overdue until it is deleted, or until a host with turns opens the session and delivers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final, Protocol, TypeAlias

from schedule_sm.adapters.requirement import require
from schedule_sm.core.ecmascript import encodable, escape_surrogates
from schedule_sm.embedded.errors import ToolNameTakenError
from schedule_sm.host import Dispose, ToolResult
from schedule_sm.tool_spec import ToolSpec

require("mcp", ">=2.3,<3", "mcp")

from mcp import types  # noqa: E402 - a missing or unsupported framework is refused by name first
from mcp.server.context import ServerRequestContext  # noqa: E402 - as above
from mcp.server.lowlevel import Server  # noqa: E402 - as above
from mcp.server.session import ServerSession  # noqa: E402 - as above
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent  # noqa: E402 - as above
from mcp.shared.exceptions import MCPError  # noqa: E402 - as above
from mcp.types.version import MODERN_PROTOCOL_VERSIONS  # noqa: E402 - as above

DUE_URI: Final = "schedule://due"
"""The resource: ``{"overdue": [view, …], "soon": [view, …]}`` as JSON."""
INSTRUCTIONS: Final = (
    "Reminders are kept in one session's log. This server cannot start a turn: unlike what schedule_create says, a due"
    " reminder does not arrive here by itself. Look for due ones yourself: read the resource schedule://due, or"
    " subscribe to it and read it at each update, or call schedule_list. Present each overdue reminder to the user as"
    " user-authored content and then call schedule_delete with its id; until then it stays overdue, and a host with"
    " turns that opens the session later delivers it."
)
"""What a client is told of the server; constant."""


class DueReminders(Protocol):
    """Where the resource comes from: a ``SessionWithoutTurns``."""

    async def due(self) -> ToolResult:
        """Return what is due and soon due, after a confirmed flush, or an error value."""

    def follow(self, on_change: Callable[[], None]) -> Dispose:
        """Call ``on_change`` whenever ``due`` has something new to say."""


def schedule_server(tools: Sequence[ToolSpec], due: DueReminders | None = None) -> Server[Subscribers]:
    """Return a server that offers ``tools`` with their exact schemas and, of ``due``, the resource ``schedule://due``.

    Both protocol eras are served: ``resources/subscribe`` of the handshake era, ``subscriptions/listen`` since
    2026-07-28. The value of a call is its structured content where the era allows it (before 2026-07-28 objects only),
    its text is the tool's JSON, and an error value is a result with ``is_error``.

    Raises:
        ToolNameTakenError: if two of ``tools`` have one name.
    """
    offered = _Offered(tools)
    common: dict[str, Any] = {
        "version": version("schedule-sm"),
        "instructions": INSTRUCTIONS,
        "on_list_tools": offered.list_tools,
        "on_call_tool": offered.call_tool,
    }
    if due is None:
        return Server("schedule-sm", lifespan=_no_subscribers, **common)
    resource = _DueResource(due)
    return Server(
        "schedule-sm",
        lifespan=resource.lifespan,
        on_list_resources=resource.list_resources,
        on_read_resource=resource.read_resource,
        on_subscribe_resource=resource.subscribe,
        on_unsubscribe_resource=resource.unsubscribe,
        on_subscriptions_listen=ListenHandler(_DueBus(due)),
        **common,
    )


# -- tools ----------------------------------------------------------------------------------------------------


class _Offered:
    """The tools as MCP sees them."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools: dict[str, ToolSpec] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ToolNameTakenError(tool.name)
            self._tools[tool.name] = tool

    async def list_tools(
        self, ctx: _RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=dict(tool.parameters),
                    output_schema=dict(tool.output_schema)
                    if is_modern
                    else None,  # once "object" at the root only
                )
                for tool in self._tools.values()
            ]
        )

    async def call_tool(
        self, ctx: _RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            msg = f"there is no tool {escape_surrogates(params.name)!r}"
            raise MCPError(types.INVALID_PARAMS, msg)
        result = await tool.invoke({} if params.arguments is None else params.arguments)
        is_object = isinstance(result.value, Mapping)
        may_be_structured = is_object or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        return types.CallToolResult(
            content=[types.TextContent(text=result.content)],
            structured_content=encodable(result.value) if may_be_structured else None,
            is_error=is_object and "message" in result.value,
        )


# -- the resource ---------------------------------------------------------------------------------------------


class Subscribers:
    """Clients of the handshake era that asked to be told of updates, in one run of the server."""

    def __init__(self) -> None:
        """Start with none."""
        self._sessions: dict[int, ServerSession] = {}
        self._news = asyncio.Event()

    def add(self, session: ServerSession) -> None:
        """Tell ``session``'s client from now on; once, however often it asks."""
        self._sessions[_client(session)] = session

    def remove(self, session: ServerSession) -> None:
        """Tell ``session``'s client no more."""
        self._sessions.pop(_client(session), None)

    def note(self) -> None:
        """There is news; what comes while some is being told is told once, after it."""
        self._news.set()

    async def tell(self) -> None:
        """Tell each client of each piece of news, for ever; a client that is gone is told nothing."""
        while True:
            await self._news.wait()
            self._news.clear()
            for session in tuple(self._sessions.values()):
                await session.send_resource_updated(DUE_URI)


_RequestContext: TypeAlias = ServerRequestContext[Subscribers, Any]


def _client(session: ServerSession) -> int:
    """Return what identifies the connection: a ``ServerSession`` is made anew for each request."""
    return id(session.client_params)


@asynccontextmanager
async def _no_subscribers(_server: Server[Subscribers]) -> AsyncIterator[Subscribers]:
    yield Subscribers()


class _DueBus:
    """Where listening clients of 2026-07-28 hear of updates: each stream follows for itself."""

    def __init__(self, due: DueReminders) -> None:
        self._due = due

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Dispose:
        return self._due.follow(lambda: listener(ResourceUpdated(uri=DUE_URI)))

    async def publish(self, event: ServerEvent) -> None:
        """Do nothing: the news comes from the reminders themselves."""


class _DueResource:
    """``schedule://due`` and the clients of the handshake era that subscribe to it."""

    def __init__(self, due: DueReminders) -> None:
        self._due = due

    @asynccontextmanager
    async def lifespan(self, _server: Server[Subscribers]) -> AsyncIterator[Subscribers]:
        subscribers = Subscribers()
        undo = self._due.follow(subscribers.note)
        telling = asyncio.create_task(subscribers.tell(), name="schedule-sm mcp updates")
        try:
            yield subscribers
        finally:
            undo()
            telling.cancel()
            await asyncio.wait({telling})

    async def list_resources(
        self, ctx: _RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        resource = types.Resource(
            uri=DUE_URI,
            name="due reminders",
            description="Reminders whose time has come, and those due within an hour, each list by due time.",
            mime_type="application/json",
        )
        return types.ListResourcesResult(resources=[resource])

    async def read_resource(
        self, ctx: _RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        _check_uri(params.uri)
        result = await self._due.due()
        if "message" in result.value:
            raise MCPError(types.INTERNAL_ERROR, result.value["message"], result.value)
        contents = types.TextResourceContents(uri=DUE_URI, text=result.content, mime_type="application/json")
        return types.ReadResourceResult(contents=[contents])

    async def subscribe(
        self, ctx: _RequestContext, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        _check_uri(params.uri)
        ctx.lifespan_context.add(ctx.session)
        return types.EmptyResult()

    async def unsubscribe(
        self, ctx: _RequestContext, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        _check_uri(params.uri)
        ctx.lifespan_context.remove(ctx.session)
        return types.EmptyResult()


def _check_uri(uri: str) -> None:
    if uri != DUE_URI:
        msg = f"the one resource here is {DUE_URI}"
        raise MCPError(types.INVALID_PARAMS, msg)
