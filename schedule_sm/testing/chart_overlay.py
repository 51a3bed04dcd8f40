"""Mermaid flowcharts with counts on the edges, to see at a glance where the tests go.

A chart whose edges state their kind is drawn as everywhere else here, with colours, lines and marks by kind; any other
chart plainly.
"""

from __future__ import annotations

from collections.abc import Callable

from schedule_sm.core.chart_table import ChartTable
from schedule_sm.diagram.extract import picture
from schedule_sm.diagram.mermaid import render_flowchart
from schedule_sm.diagram.model import WHOLE, Arrow
from schedule_sm.testing.chart_graph import ChartGraph, GraphEdge


def draw_kinds(table: ChartTable, count: Callable[[GraphEdge], int]) -> str:
    """Return the flowchart of a chart whose edges state their kind; behind an event stands how often it was taken."""
    whole = picture(table, WHOLE)
    states = {node.name: node.states for node in whole.nodes}

    def note(arrow: Arrow, event: str) -> str:
        counts = [count(GraphEdge(source, event, arrow.target)) for source in states[arrow.source]]
        return f" ×{'+'.join(map(str, counts))}{'' if all(counts) else ' NOT TAKEN'}"

    return render_flowchart(whole, note).rstrip("\n")


def draw_plainly(graph: ChartGraph, count: Callable[[GraphEdge], int]) -> str:
    """Return the flowchart of any other chart; edges not taken are thick, dotted and red.

    A nested state's label begins with what it is inside of.
    """
    ends = [(edge, target) for edge in graph.edges for target in edge.target.split("+")]
    # history states are targets, and no states that a chart is ever in
    states = dict.fromkeys([*graph.states, *(target for _, target in ends)])
    ids = {state: f"s{number}" for number, state in enumerate(states)}
    lines = ["flowchart LR"]
    for state, node in ids.items():
        label = " / ".join((*graph.within[state], state))
        lines.append(f'    {node}(["{label}"])' if state in graph.finals else f'    {node}["{label}"]')
    for edge, target in ends:
        arrow = "-->" if count(edge) else "-.->"
        lines.append(f'    {ids[edge.source]} {arrow}|"{edge.event} ×{count(edge)}"| {ids[target]}')
    missed = [str(number) for number, (edge, _) in enumerate(ends) if not count(edge)]
    if missed:
        lines.append(f"    linkStyle {','.join(missed)} stroke:#c2410c,stroke-width:3px")
    return "\n".join(lines)
