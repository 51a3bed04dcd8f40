"""Markdown that GitHub renders: one page a chart, and the gallery."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schedule_sm.core.chart_table import ChartTable
from schedule_sm.diagram.extract import file_stem, pictures
from schedule_sm.diagram.mermaid import render_flowchart
from schedule_sm.diagram.model import GENERATED, LOOKS, VIEWS, WHOLE

_OPENING = f"<!-- {GENERATED} -->\n"


def render_page(table: ChartTable) -> str:
    """Return the page of one chart: three small flowcharts, then the transition table."""
    parts = [_OPENING, f"# {table.name}\n", f"{table.doc}\n", _states(table), render_legend(table)]
    for picture in pictures(table, VIEWS):
        shared = any(len(node.states) > 1 for node in picture.nodes)
        parts += [f"## {picture.title}\n"]
        parts += ["States in one box are each left by the same arrows.\n"] if shared else []
        parts += [
            f"```mermaid\n{render_flowchart(picture)}```\n",
            f"As [SVG]({picture.name}.svg).\n",
        ]
    stem = file_stem(table)
    parts += ["## States\n", *(_state_section(table, state) for state in table.states)]
    parts += [
        "## Every transition\n",
        f"In the order of the declaration. All of them in one picture: [SVG]({stem}.svg), [DOT]({stem}.dot).\n",
        render_transitions(table),
    ]
    return "\n".join(parts)


def render_transitions(table: ChartTable) -> str:
    """Return the transition table, one row an edge, in the order of the declaration."""
    rows = [
        (f"`{edge.source}`", f"`{edge.event}`", f"`{edge.target}`", edge.kind.value, edge.why)
        for edge in table.edges
    ]
    return _table(("from", "event", "to", "kind", "why"), rows)


def render_legend(table: ChartTable) -> str:
    """Return what colours, lines and marks mean, for the kinds that ``table`` has."""
    present = {edge.kind for edge in table.edges}
    rows = [
        (look.mark, kind.value, look.line, f"`{look.colour}`", look.meaning)
        for kind, look in LOOKS.items()
        if kind in present
    ]
    return _table(("mark", "kind", "line", "colour", "meaning"), rows)


def render_gallery(tables: Sequence[ChartTable]) -> str:
    """Return the gallery of all pictures of all charts."""
    parts = [
        _OPENING,
        "# Diagrams\n",
        "Generated from the charts' declaration in `schedule_sm/core/charts.py`; nothing here is drawn by hand.\n",
    ]
    for table in tables:
        stem = file_stem(table)
        parts += [
            f"## {table.name}\n",
            f"{table.doc} The page with its transition table: [{stem}.md]({stem}.md).\n",
            render_legend(table),
        ]
        for picture in pictures(table, (*VIEWS, WHOLE)):
            parts += [f"### {table.name}: {picture.title.lower()}\n"]
            parts += [f"![{table.name}, {picture.title.lower()}]({picture.name}.svg)\n"]
    return "\n".join(parts)


def _state_section(table: ChartTable, state: str) -> str:
    """What the pictures' links lead to: how a state is entered and left, and where it leads."""
    entered = [f"by `{edge.event}` from `{edge.source}`" for edge in table.edges if edge.target == state]
    left = [f"by `{edge.event}` to `{edge.target}`" for edge in table.edges if edge.source == state]
    if state == table.initial:
        entered.insert(0, "at the beginning")
    return f"### {state}\n\nEntered {', '.join(entered)}.\n\n" + (
        f"Left {', '.join(left)}.\n" if left else "Final: nothing leaves it.\n"
    )


def _states(table: ChartTable) -> str:
    finals = ", ".join(f"`{state}`" for state in table.states if state in table.finals)
    others = ", ".join(f"`{state}`" for state in table.states if state not in (*table.finals, table.initial))
    return f"It begins in `{table.initial}` and ends in one of {finals}; between: {others}.\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
