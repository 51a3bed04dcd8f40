"""What a model is shown, in bytes, measured on the committed catalogue and on real messages and values.

``python docs/_ext/measure.py`` prints the tables of the page "What the model sees".
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from schedule_sm import create_after_record, render_reminder_framing, schedule_view
from schedule_sm.core.errors import SENTENCES
from schedule_sm.tool_catalog import tool_catalog
from schedule_sm.tools import error_value, render_value

BYTES_PER_TOKEN: Final = 4
"""A rule of thumb for English and JSON; each model's tokenizer counts differently."""

_NOW_MS: Final = 1_893_456_000_000  # 2030-01-01T00:00:00Z
_PROMPT: Final = "drink a glass of water"


def _size(text: str) -> int:
    return len(text.encode("utf-8"))


def _row(what: str, size: int) -> str:
    return f"| {what} | {size:,} | {round(size / BYTES_PER_TOKEN):,} |\n"


def _head(what: str) -> str:
    return f"| {what} | bytes | about tokens |\n| --- | ---: | ---: |\n"


def definitions() -> list[dict[str, Any]]:
    """Return the tools in the form that chat interfaces take: name, description, parameters."""
    return [
        {"name": name, "description": tool["description"], "parameters": tool["parameters"]}
        for name, tool in tool_catalog().items()
    ]


def definitions_text() -> str:
    """Return the definitions as compact JSON, always the same bytes."""
    return json.dumps(definitions(), ensure_ascii=False, separators=(",", ":"))


def definition_costs() -> str:
    """The cost of having the tools: paid in every request of the session."""
    rows = [
        _row(f"`{tool['name']}`", _size(json.dumps(tool, ensure_ascii=False, separators=(",", ":"))))
        for tool in definitions()
    ]
    return _head("tool definition") + "".join(rows) + _row("all three", _size(definitions_text()))


def reminder_costs() -> str:
    """The cost of using them: what each call's value and each reminder adds to the history."""
    record = create_after_record("schedule-1", _PROMPT, 600, _NOW_MS)
    view = schedule_view(record, _NOW_MS).model_dump(mode="json", by_alias=True)
    framing = render_reminder_framing(record.id, record.scheduled_at, record.prompt)
    longest = max(SENTENCES, key=lambda code: len(SENTENCES[code]))
    empty = render_reminder_framing(record.id, record.scheduled_at, "")
    rows = [
        _row(f"a delivered reminder, prompt of {_size(_PROMPT)} bytes", _size(framing)),
        _row("of that, everything but the prompt", _size(empty)),
        _row("the value of `schedule_create`", _size(render_value(view))),
        _row("the value of `schedule_list`, nothing active", _size(render_value([]))),
        _row("the same, ten reminders", _size(render_value([view] * 10))),
        _row("the value of `schedule_delete`", _size(render_value({"id": record.id, "deleted": True}))),
        _row("the longest error value", _size(render_value(error_value(longest, "create", record.id)))),
    ]
    return _head("in the history") + "".join(rows)


def prefix() -> str:
    """The digest of the definitions: as long as it stays, so does a cached prefix."""
    return f"`sha256:{hashlib.sha256(definitions_text().encode()).hexdigest()[:16]}…`\n"


if __name__ == "__main__":
    print(definition_costs(), reminder_costs(), prefix(), sep="\n")  # noqa: T201 - a script's output
