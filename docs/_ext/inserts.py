"""What the pages do not say by hand: ``<!-- insert: name -->`` is replaced by text generated from the code.

The quoted line below it is replaced too: it tells who reads the source of a page where to find the same.
Each function below returns Markdown. Nothing it writes is committed, so it cannot go stale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import checks
import measure
from typer.testing import CliRunner

from schedule_sm.cli.app import app as command_line
from schedule_sm.cli.commands import SUMMARIES
from schedule_sm.core.cursor import tables
from schedule_sm.core.errors import SENTENCES
from schedule_sm.core.records import SCHEDULE_CHANGE_ADAPTER
from schedule_sm.diagram.markdown import render_transitions
from schedule_sm.diagram.model import LOOKS
from schedule_sm.tool_catalog import tool_catalog

_PLAIN: Final = {"COLUMNS": "88", "TERMINAL_WIDTH": "88", "NO_COLOR": "1", "TERM": "dumb", "LANG": "C.UTF-8"}
INSERT: Final = re.compile(r"^<!-- insert: ([\w-]+) -->\n> .*\[.+\]\((\S+)\).*$", re.MULTILINE)


def fill(text: str) -> str:
    """Return ``text`` with each insert line replaced."""
    return INSERT.sub(lambda found: INSERTS[found[1]](), text)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def legend() -> str:
    """What the kinds of edges look like, drawn as in the pictures, and what they mean."""
    rows = []
    for kind, look in LOOKS.items():
        stroke = f'stroke="{look.colour}" stroke-width="{look.width}" stroke-dasharray="{look.dashes}"'
        line = f'<svg width="56" height="10" aria-hidden="true"><path d="M2 5H54" {stroke}/></svg>'
        mark = f'<span style="color:{look.colour}">{look.mark}</span>'
        rows.append((f"{line} {mark}", kind.value, look.line, look.meaning))
    return table(("looks like", "kind", "line", "meaning"), rows)


def delivery_transitions() -> str:
    """Every edge of the delivery chart."""
    return render_transitions(tables()["DeliveryChart"])


def owner_transitions() -> str:
    """Every edge of the owner chart."""
    return render_transitions(tables()["OwnerChart"])


def change_schema() -> str:
    """The JSON Schema of ``schedule/change``, as the models give it."""
    return _json(SCHEDULE_CHANGE_ADAPTER.json_schema(by_alias=True))


def error_codes() -> str:
    """The closed codes and what a model is told for each."""
    return table(
        ("code", "what the model is told"), [(f"`{code}`", text) for code, text in SENTENCES.items()]
    )


def catalogue() -> str:
    """The three tools as a model is shown them."""
    parts = []
    for name, tool in tool_catalog().items():
        parts += [f"## {name}\n", f"> {tool['description']}\n", "Arguments:\n", _json(tool["parameters"])]
        parts += ["Value:\n", _json(tool["output_schema"])]
    return "\n".join(parts)


def commands() -> str:
    """Every command of the command line, as its own ``--help`` shows it."""
    parts = []
    for path in command_paths():
        shown = CliRunner().invoke(command_line, [*path, "--help"], prog_name="schedule-sm", env=_PLAIN)
        if shown.exit_code != 0:
            raise RuntimeError(f"schedule-sm {' '.join(path)} --help failed: {shown.output}")
        parts += [f"## {' '.join(('schedule-sm', *path))}\n", f"```text\n{shown.output.strip()}\n```\n"]
    return "\n".join(parts)


def command_paths() -> list[tuple[str, ...]]:
    """Return the root and every command, as they are listed."""
    return [(), *((name,) for name in SUMMARIES)]


def _json(data: object) -> str:
    return f"```{{code-block}} json\n{json.dumps(data, indent=2, ensure_ascii=False)}\n```\n"


INSERTS: Final[dict[str, Callable[[], str]]] = {
    "legend": legend,
    "delivery-transitions": delivery_transitions,
    "owner-transitions": owner_transitions,
    "change-schema": change_schema,
    "error-codes": error_codes,
    "catalogue": catalogue,
    "commands": commands,
    "definition-costs": measure.definition_costs,
    "reminder-costs": measure.reminder_costs,
    "prefix": measure.prefix,
    "guarantees": checks.guarantees,
    "checks": checks.sources,
}
