"""FastMCP: the tools on a real FastMCP server and its own client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError

from schedule_sm.adapters.fastmcp import add_tools, fastmcp_tools
from schedule_sm.embedded.errors import ToolNameTakenError
from schedule_sm.embedded.without_turns import SessionWithoutTurns
from schedule_sm.stores.memory import MemoryStore
from schedule_sm.testing.adapter_contract import Script, run_check
from schedule_sm.testing.adapter_tool_checks import BAD_ARGUMENTS
from schedule_sm.testing.travel import Travel
from schedule_sm.tool_catalog import TOOL_NAMES, tool_catalog
from schedule_sm.tool_spec import ToolSpec, decode_arguments
from tests.adapters.mcp_loop import CHECKS, LoopRunner, text_of, value_of


def own_tool(name: str) -> Any:
    def run() -> str:
        return "own"

    run.__name__ = name
    return run


class Fast:
    """The adapter under the contract."""

    name = "fastmcp"

    def runner(self, script: Script, own_tools: Sequence[str] = ()) -> LoopRunner:
        return LoopRunner(script, self._connect, own_tools)

    @asynccontextmanager
    async def _connect(self, tools: Sequence[ToolSpec], own_tools: Sequence[str]) -> AsyncIterator[Any]:
        server = FastMCP("host")
        for name in own_tools:
            server.tool(own_tool(name))
        await add_tools(server, tools)
        async with Client(server) as client:
            yield client


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.asyncio
async def test_contract(check: Any, travel: Travel) -> None:
    await run_check(check, Fast(), travel)


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[SessionWithoutTurns, Any]]:
    async with SessionWithoutTurns.open(store=MemoryStore()) as session:
        server = FastMCP("host", tools=fastmcp_tools(session.tools), on_duplicate="error")
        async with Client(server) as client:
            yield session, client


@pytest.mark.asyncio
async def test_tools_are_shown_as_the_catalogue_has_them(travel: Travel) -> None:
    async with opened() as (_, client):
        tools = await client.list_tools()
        assert [tool.name for tool in tools] == list(TOOL_NAMES)
        for tool in tools:
            constants = tool_catalog()[tool.name]
            assert tool.description == constants["description"]
            assert json.dumps(tool.input_schema) == json.dumps(constants["parameters"])


@pytest.mark.asyncio
async def test_every_answer_is_a_value(travel: Travel) -> None:
    async with opened() as (_, client):
        created = await client.call_tool("schedule_create", {"prompt": "cut \ud83d", "after_seconds": 60})
        assert value_of(created)["prompt"] == "cut \ud83d"
        assert text_of(created).encode()
        assert created.structured_content == {**value_of(created), "prompt": r"cut \ud83d"}
        everything = await client.call_tool("schedule_list")
        assert (value_of(everything), everything.structured_content) == ([value_of(created)], None)
        with pytest.raises(ToolError, match="invalid_rule"):
            await client.call_tool("schedule_delete", {})
        for name, raw, code in BAD_ARGUMENTS:
            arguments = decode_arguments(raw)
            if isinstance(arguments, dict):  # nothing else is a call in MCP
                result = await client.call_tool(name, arguments, raise_on_error=False)
                assert (result.is_error, value_of(result)["code"]) == (True, code), (name, raw)
                assert result.structured_content == value_of(result)


@pytest.mark.asyncio
async def test_name_that_the_server_has_is_refused_and_nothing_is_added(travel: Travel) -> None:
    async with SessionWithoutTurns.open(store=MemoryStore()) as session:
        server = FastMCP("host", tools=[own_tool("schedule_list")])
        with pytest.raises(ToolNameTakenError, match="schedule_list"):
            await add_tools(server, session.tools)
        assert [tool.name for tool in await server.list_tools()] == ["schedule_list"]
        strict = FastMCP("host", tools=fastmcp_tools(session.tools), on_duplicate="error")
        with pytest.raises(ValueError, match="already exists"):
            strict.tool(own_tool("schedule_list"))
        with pytest.raises(ToolNameTakenError):
            await add_tools(FastMCP("host"), [*session.tools, *session.tools])
