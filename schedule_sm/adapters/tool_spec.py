"""``ToolSpec`` where adapters look for it; it is declared below them, because the embedded host binds tools too."""

from __future__ import annotations

from schedule_sm.tool_spec import ToolSpec, decode_arguments

__all__ = ["ToolSpec", "decode_arguments"]
