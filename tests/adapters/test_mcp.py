"""MCP: the server on the framework's own client, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import types
from mcp.client import Client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from schedule_sm import ScheduleHost
from schedule_sm.adapters.mcp import DUE_URI, INSTRUCTIONS, schedule_server
from schedule_sm.embedded.errors import ToolNameTakenError
from schedule_sm.embedded.without_turns import SessionWithoutTurns
from schedule_sm.host import ToolResult
from schedule_sm.stores.memory import MemoryStore
from schedule_sm.stores.protocol import Outcome
from schedule_sm.testing.adapter_contract import Script, run_check
from schedule_sm.testing.adapter_tool_checks import BAD_ARGUMENTS, the_model_is_shown_the_catalogue
from schedule_sm.testing.travel import Travel
from schedule_sm.tool_catalog import TOOL_NAMES, tool_catalog
from schedule_sm.tool_spec import ToolSpec, decode_arguments
from tests.adapters.mcp_loop import CHECKS, LoopRunner, listed, text_of, value_of
from tests.embedded.scripted import ScriptedRunner, ScriptedStore

MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
CREATE = {"prompt": "stretch", "after_seconds": 60}


class OwnTool:
    """A tool that somebody else gave the server."""

    description = "own"
    parameters: dict[str, Any] = {"type": "object"}
    output_schema: dict[str, Any] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    async def execute(self, raw_arguments: object, caller: object, **ids: str | None) -> ToolResult:
        return ToolResult(value="own", content='"own"')


class Mcp:
    """The adapter under the contract."""

    def __init__(self, mode: str) -> None:
        self.name = f"mcp, {mode}"
        self._mode = mode

    def runner(self, script: Script, own_tools: Sequence[str] = ()) -> LoopRunner:
        return LoopRunner(script, self._connect, own_tools)

    @asynccontextmanager
    async def _connect(self, tools: Sequence[ToolSpec], own_tools: Sequence[str]) -> AsyncIterator[Client]:
        own = [ToolSpec(OwnTool(name), None) for name in own_tools]
        async with Client(schedule_server([*own, *tools]), mode=self._mode) as client:
            yield client


@MODES
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.asyncio
async def test_contract(check: Any, mode: str, travel: Travel) -> None:
    if (check, mode) == (the_model_is_shown_the_catalogue, "legacy"):
        return  # the framework sorts the keys of a schema for that era; the tools' own test compares them
    await run_check(check, Mcp(mode), travel)


class Opened:
    """A session without turns behind a server, with a client; ``heard`` counts the updates that reached it."""

    def __init__(self, session: SessionWithoutTurns, client: Client) -> None:
        self.session = session
        self.client = client
        self.heard = 0

    async def call(self, name: str, **arguments: Any) -> Any:
        return value_of(await self.client.call_tool(name, arguments))

    async def due(self) -> dict[str, list[str]]:
        [contents] = (await self.client.read_resource(DUE_URI)).contents
        assert isinstance(contents, types.TextResourceContents)
        return {name: [view["id"] for view in views] for name, views in json.loads(contents.text).items()}


@asynccontextmanager
async def opened(mode: str, store: Any = None, *, subscribed: bool = False) -> AsyncIterator[Opened]:
    async with SessionWithoutTurns.open(store=store or MemoryStore()) as session:
        it: Opened

        async def on_message(message: object) -> None:
            it.heard += isinstance(message, types.ResourceUpdatedNotification)

        server = schedule_server(session.tools, session)
        async with Client(server, mode=mode, message_handler=on_message) as client:
            it = Opened(session, client)
            if not subscribed:
                yield it
            elif mode == "legacy":
                with legacy_allowed():
                    await client.subscribe_resource(DUE_URI)
                yield it
            else:
                async with client.listen(resource_subscriptions=[DUE_URI]):
                    yield it


def legacy_allowed() -> warnings.catch_warnings[None]:
    """The client warns of what the later era has in its place."""
    return warnings.catch_warnings(action="ignore", category=MCPDeprecationWarning)


# -- tools ----------------------------------------------------------------------------------------------------


@MODES
@pytest.mark.asyncio
async def test_tools_are_shown_as_the_catalogue_has_them(mode: str, travel: Travel) -> None:
    async with opened(mode) as it:
        tools = await listed(it.client)
        assert [tool.name for tool in tools] == list(TOOL_NAMES)
        for tool in tools:
            constants = tool_catalog()[tool.name]
            assert tool.description == constants["description"]
            assert tool.input_schema == constants["parameters"]
            if mode == "auto":  # for the earlier era the framework sorts the outermost keys
                assert json.dumps(tool.input_schema) == json.dumps(constants["parameters"])
            # an earlier era allows only an object at the root
            assert tool.output_schema == (constants["output_schema"] if mode == "auto" else None)
        assert it.client.instructions == INSTRUCTIONS
        assert it.client.server_capabilities.resources == types.ResourcesCapability(
            subscribe=True, list_changed=mode == "auto"
        )


@MODES
@pytest.mark.asyncio
async def test_result_has_the_text_and_the_value_where_the_era_allows_it(mode: str, travel: Travel) -> None:
    async with opened(mode) as it:
        created = await it.client.call_tool("schedule_create", CREATE)
        assert (created.is_error, created.structured_content) == (False, value_of(created))
        assert text_of(created).startswith('{"id":"schedule-1","kind":"after","prompt":"stretch",')
        everything = await it.client.call_tool("schedule_list")
        assert (everything.is_error, value_of(everything)) == (False, [value_of(created)])
        assert everything.structured_content == ([value_of(created)] if mode == "auto" else None)
        gone = await it.client.call_tool("schedule_delete", {"id": "schedule-9"})
        assert (gone.is_error, gone.structured_content) == (False, value_of(gone))
        refused = await it.client.call_tool("schedule_delete", {})
        assert (refused.is_error, refused.structured_content) == (True, value_of(refused))
        assert value_of(refused)["code"] == "invalid_rule"


@MODES
@pytest.mark.asyncio
async def test_bad_arguments_are_answered_with_a_value(mode: str, travel: Travel) -> None:
    async with opened(mode) as it:
        for name, raw, code in BAD_ARGUMENTS:
            arguments = decode_arguments(raw)
            if isinstance(arguments, dict):  # nothing else is a call in MCP
                result = await it.client.call_tool(name, arguments)
                assert (result.is_error, value_of(result)["code"]) == (True, code), (name, raw)
        assert await it.call("schedule_list") == []


@MODES
@pytest.mark.asyncio
async def test_lone_surrogates_are_kept_and_sent_as_escapes(mode: str, travel: Travel) -> None:
    async with opened(mode) as it:
        [create, *_] = it.session.tools
        await create.invoke({"prompt": "cut \ud83d", "after_seconds": 60})
        result = await it.client.call_tool("schedule_list")
        assert value_of(result)[0]["prompt"] == "cut \ud83d"
        assert text_of(result).encode()
        if mode == "auto":
            assert result.structured_content[0]["prompt"] == r"cut \ud83d"
        assert await it.due() == {"overdue": [], "soon": ["schedule-1"]}


@MODES
@pytest.mark.asyncio
async def test_unknown_tools_and_resources_are_protocol_errors(mode: str, travel: Travel) -> None:
    async with opened(mode) as it:
        with pytest.raises(MCPError, match="there is no tool 'schedule_update'"):
            await it.client.call_tool("schedule_update", {})
        with pytest.raises(MCPError, match="the one resource here is schedule://due"):
            await it.client.read_resource("schedule://all")
        if mode == "legacy":
            with legacy_allowed(), pytest.raises(MCPError, match="the one resource here"):
                await it.client.subscribe_resource("schedule://all")
        assert [str(found.uri) for found in (await it.client.list_resources()).resources] == [DUE_URI]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ToolNameTakenError, match="schedule_list"):
        schedule_server([ToolSpec(OwnTool("schedule_list"), None)] * 2)


@MODES
@pytest.mark.asyncio
async def test_tools_alone_come_without_a_resource(mode: str, travel: Travel) -> None:
    async with ScheduleHost.open(store=MemoryStore(), runner=ScriptedRunner()) as host:
        live = await host.session("s")
        tools = [ToolSpec(tool, live.agent) for tool in live.agent.ctx.tools]
        async with Client(schedule_server(tools), mode=mode) as client:
            assert client.server_capabilities.resources is None
            assert not (await client.call_tool("schedule_create", CREATE)).is_error
            await travel(60)  # the session has turns of its own: it is delivered there
            assert value_of(await client.call_tool("schedule_list")) == []


@MODES
@pytest.mark.asyncio
async def test_call_cancelled_at_any_step_leaves_the_session_in_order(mode: str, travel: Travel) -> None:
    async with opened(mode) as it:
        steps = 0
        while True:
            call = asyncio.ensure_future(it.client.call_tool("schedule_create", CREATE))
            for _ in range(steps):
                await asyncio.sleep(0)
            if call.done():
                break
            call.cancel()
            await asyncio.wait({call})
            await travel.settle()
            before = len(await it.call("schedule_list"))
            await travel.settle()
            assert len(await it.call("schedule_list")) == before  # nothing follows behind the client's back
            steps += 1
        assert steps > 5
        assert not (await call).is_error


@MODES
@pytest.mark.asyncio
async def test_two_servers_in_one_process_are_kept_apart(mode: str, travel: Travel) -> None:
    async with opened(mode, subscribed=True) as one, opened(mode, subscribed=True) as other:
        await asyncio.gather(*(one.call("schedule_create", **CREATE) for _ in range(3)))
        await travel.settle()
        assert len(await one.call("schedule_list")) == 3
        assert await other.call("schedule_list") == []
        assert (one.heard > 0, other.heard) == (True, 0)


# -- the resource ---------------------------------------------------------------------------------------------


@MODES
@pytest.mark.asyncio
async def test_due_reminder_is_announced_at_its_time_and_nothing_is_recorded(
    mode: str, travel: Travel
) -> None:
    store = MemoryStore()
    async with opened(mode, store, subscribed=True) as it:
        await it.call("schedule_create", prompt="later", after_seconds=2 * 3600)
        await it.call("schedule_create", prompt="now", after_seconds=3600 + 60)
        await travel.settle()
        assert (it.heard, await it.due()) == (0, {"overdue": [], "soon": []})
        await travel(59.999)
        assert it.heard == 0
        await travel(0.001)
        assert (it.heard, await it.due()) == (1, {"overdue": [], "soon": ["schedule-2"]})
        await travel(3599.999)
        assert it.heard == 2  # the other one is soon due
        await travel(0.001)
        assert (it.heard, await it.due()) == (3, {"overdue": ["schedule-2"], "soon": ["schedule-1"]})
        await travel(24 * 3600)
        assert (it.heard, await it.due()) == (4, {"overdue": ["schedule-2", "schedule-1"], "soon": []})
        await it.call("schedule_delete", id="schedule-2")
        await travel.settle()
        assert (it.heard, await it.due()) == (5, {"overdue": ["schedule-1"], "soon": []})
    recorded = [json.loads(event.body)["operation"] for event in await store.read("main")]
    assert recorded == ["create", "create", "delete"]


@MODES
@pytest.mark.asyncio
async def test_host_with_turns_delivers_what_was_announced(mode: str, travel: Travel) -> None:
    store = MemoryStore()
    async with opened(mode, store) as it:
        await it.call("schedule_create", **CREATE)
        await travel(3600)
        assert await it.due() == {"overdue": ["schedule-1"], "soon": []}
    runner = ScriptedRunner()
    async with ScheduleHost.open(store=store, runner=runner) as host:
        await host.session("main")
        await travel.settle()
    [text] = runner.texts
    assert 'schedule_id_json: "schedule-1"' in text
    async with opened(mode, store) as it:
        assert await it.due() == {"overdue": [], "soon": []}


@MODES
@pytest.mark.asyncio
async def test_sleep_of_the_machine_is_noticed(mode: str, travel: Travel) -> None:
    async with opened(mode, subscribed=True) as it:
        await it.call("schedule_create", prompt="x", after_seconds=600)
        await travel.settle()
        heard = it.heard
        await travel.suspend(8 * 3600)
        await travel(60)  # the watcher's next look
        assert it.heard == heard + 1
        assert await it.due() == {"overdue": ["schedule-1"], "soon": []}
        await travel.rollback(8 * 3600)
        await travel(60)
        assert it.heard == heard + 2
        assert await it.due() == {"overdue": [], "soon": ["schedule-1"]}  # by the clock of now


@MODES
@pytest.mark.asyncio
async def test_client_that_subscribed_no_longer_hears_nothing(mode: str, travel: Travel) -> None:
    async with opened(mode) as it:
        await it.call("schedule_create", **CREATE)
        if mode == "legacy":
            with legacy_allowed():
                for change in (it.client.subscribe_resource, it.client.unsubscribe_resource):
                    await change(DUE_URI)
                    await change(DUE_URI)
        else:
            async with it.client.listen(resource_subscriptions=[DUE_URI]):
                pass
        await travel.settle()
        await travel(60)
        assert (it.heard, await it.due()) == (0, {"overdue": ["schedule-1"], "soon": []})


@pytest.mark.asyncio
async def test_listening_client_is_told_of_each_change(travel: Travel) -> None:
    async with opened("auto") as it:
        async with it.client.listen(resource_subscriptions=[DUE_URI]) as stream:
            await it.call("schedule_create", **CREATE)
            event = await anext(aiter(stream))
            assert getattr(event, "uri", None) == DUE_URI
        async with it.client.listen(resource_subscriptions=["schedule://all"]):
            await it.call("schedule_create", **CREATE)
            await travel.settle()
        assert it.heard == 1


@MODES
@pytest.mark.asyncio
async def test_what_cannot_be_confirmed_is_neither_read_nor_announced(mode: str, travel: Travel) -> None:
    store = ScriptedStore()
    async with opened(mode, store, subscribed=True) as it:
        store.always = Outcome.UNKNOWN
        assert (await it.call("schedule_create", **CREATE))["code"] == "persistence_uncertain"
        with pytest.raises(MCPError, match="could not be confirmed") as raised:
            await it.client.read_resource(DUE_URI)
        assert raised.value.error.data["code"] == "persistence_uncertain"
        await travel.settle()
        assert it.heard == 0
        store.always = None
        await travel(120)  # the store tries again by itself
        assert it.heard >= 1
        assert await it.due() == {"overdue": ["schedule-1"], "soon": []}


@MODES
@pytest.mark.asyncio
async def test_reading_after_a_restart_knows_what_came_due_meanwhile(mode: str, travel: Travel) -> None:
    store = MemoryStore()
    async with opened(mode, store) as it:
        await it.call("schedule_create", **CREATE)
        await it.call("schedule_create", prompt="next", after_seconds=7200)
    await travel(3600)
    async with opened(mode, store, subscribed=True) as it:
        await travel.settle()
        assert (it.heard, await it.due()) == (0, {"overdue": ["schedule-1"], "soon": ["schedule-2"]})
        await travel(3600)
        assert it.heard == 1


@pytest.mark.asyncio
async def test_server_of_a_closed_session_answers_with_values(travel: Travel) -> None:
    async with SessionWithoutTurns.open(store=MemoryStore()) as session:
        server: Server[Any] = schedule_server(session.tools, session)
    async with Client(server) as client:
        assert value_of(await client.call_tool("schedule_list"))["code"] == "internal_error"
        with pytest.raises(MCPError):
            await client.read_resource(DUE_URI)


@pytest.mark.asyncio
async def test_session_taken_over_by_another_host_is_lost(travel: Travel) -> None:
    store = ScriptedStore()
    async with opened("auto", store) as it:
        lost = asyncio.ensure_future(it.session.wait_lost())
        await it.call("schedule_create", **CREATE)
        store.always = Outcome.FENCED
        assert (await it.call("schedule_create", **CREATE))["code"] == "persistence_uncertain"
        await lost
