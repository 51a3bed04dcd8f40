"""FastMCP: the tools of a session as tools of a FastMCP server, with their exact schemas.

Arguments reach ``ToolSpec.invoke`` as the client sent them; FastMCP validates nothing in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedule_sm.adapters.requirement import require
from schedule_sm.core.ecmascript import encodable
from schedule_sm.embedded.errors import ToolNameTakenError
from schedule_sm.tool_spec import ToolSpec

require("fastmcp", ">=4.2,<5", "fastmcp")

from fastmcp import FastMCP  # noqa: E402 - a missing or unsupported framework is refused by name first
from fastmcp.tools.base import Tool, ToolResult  # noqa: E402 - as above
from pydantic import Field, InstanceOf  # noqa: E402 - as above


class ScheduleTool(Tool):
    """One of the tools; an error value is a result with ``is_error``."""

    spec: InstanceOf[ToolSpec] = Field(exclude=True)
    """What it stands for."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Return the tool's JSON as text and, where it is an object, as structured content."""
        result = await self.spec.invoke(arguments)
        is_object = isinstance(result.value, Mapping)
        return ToolResult(
            content=result.content,
            structured_content=encodable(result.value) if is_object else None,
            is_error=is_object and "message" in result.value,
        )


def fastmcp_tools(tools: Sequence[ToolSpec]) -> list[Tool]:
    """Return ``tools`` for ``FastMCP(tools=...)``; give that server ``on_duplicate="error"``.

    Otherwise a server takes the last of two tools with one name and only warns; ``add_tools`` refuses that by itself.
    """
    return [
        ScheduleTool(
            name=tool.name, description=tool.description, parameters=dict(tool.parameters), spec=tool
        )
        for tool in tools
    ]


async def add_tools(server: FastMCP[Any], tools: Sequence[ToolSpec]) -> None:
    """Add ``tools`` to ``server``, all or none.

    Raises:
        ToolNameTakenError: if ``server`` has a tool of the same name as one of them, or two of them share one.
    """
    names = {tool.name for tool in await server.list_tools(run_middleware=False)}
    for tool in tools:
        if tool.name in names:
            raise ToolNameTakenError(tool.name)
        names.add(tool.name)
    for offered in fastmcp_tools(tools):
        server.add_tool(offered)
