"""``ToolSpec``: a tool bound to the agent it serves; takes whatever a model sent and always answers with a value.

Adapters and turn runners only translate: no framework validates arguments the way the tools do, so none is asked to.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from schedule_sm.host import Tool, ToolResult
from schedule_sm.tools import error_value, render_value

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool as a model's framework sees it."""

    tool: Tool
    caller: object
    """The agent on whose behalf it is called."""
    turn_id: str | None = None
    """The turn it is offered in, unless a call names another."""

    @property
    def name(self) -> str:
        """Unique among the tools of a turn."""
        return self.tool.name

    @property
    def description(self) -> str:
        """For the model; constant."""
        return self.tool.description

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments."""
        return self.tool.parameters

    @property
    def output_schema(self) -> Mapping[str, Any]:
        """JSON Schema of the value."""
        return self.tool.output_schema

    async def invoke(self, raw: object, call_id: str | None = None, turn_id: str | None = None) -> ToolResult:
        """Call the tool with what a model sent: JSON text, a mapping, or anything else (which is refused by value).

        An empty ``call_id`` is none: such a call is never taken for a repetition.
        """
        try:
            return await self.tool.execute(
                decode_arguments(raw), self.caller, call_id=call_id or None, turn_id=turn_id or self.turn_id
            )
        except Exception:  # the project's own tools never raise; somebody else's must not end the turn
            _logger.exception("tool %s raised", self.name)
            value = error_value("internal_error")
            return ToolResult(value=value, content=render_value(value))


def decode_arguments(raw: object) -> object:
    """Return JSON text as its value (blank text, as some models send for "no arguments", as ``{}``), else ``raw``.

    Text that is no strict JSON comes back as it is: it is no object, and the tool says so.
    """
    if not isinstance(raw, (str, bytes, bytearray)):
        return raw
    if not raw.strip():
        return {}
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return raw


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON"
    raise ValueError(msg)
