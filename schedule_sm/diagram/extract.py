"""From a compiled chart to pictures: which states and arrows a view shows."""

from __future__ import annotations

from schedule_sm.core.chart_table import ChartTable
from schedule_sm.core.edges import Edge, EdgeKind
from schedule_sm.diagram.model import Arrow, Node, Picture, View


def file_stem(table: ChartTable) -> str:
    """Return the name of a chart's files: ``DeliveryChart`` gives ``delivery``."""
    return table.name.removesuffix("Chart").lower()


def pictures(table: ChartTable, views: tuple[View, ...]) -> list[Picture]:
    """Return those ``views`` of a chart that have an edge."""
    return [picture(table, view) for view in views if any(edge.kind in view.kinds for edge in table.edges)]


def picture(table: ChartTable, view: View) -> Picture:
    """Return one view of a chart."""
    edges = [edge for edge in table.edges if edge.kind in view.kinds]
    has_path = any(edge.kind is EdgeKind.PATH for edge in edges)
    touched = {state for edge in edges for state in (edge.source, edge.target)}
    groups = _groups([state for state in table.states if state in touched], edges, merge=not has_path)
    stem = file_stem(table)
    return Picture(
        chart=table.name,
        name=f"{stem}-{view.name}" if view.name else stem,
        title=view.title,
        nodes=tuple(
            Node(group[0], group, is_initial=table.initial in group, is_final=group[0] in table.finals)
            for group in groups
        ),
        arrows=_arrows(edges, {state: group[0] for group in groups for state in group}),
        has_path=has_path,
    )


def _groups(states: list[str], edges: list[Edge], *, merge: bool) -> list[tuple[str, ...]]:
    """The boxes of a picture: where no path is drawn, states that are left by the same arrows share one."""
    if not merge:
        return [(state,) for state in states]
    entered = {edge.target for edge in edges}
    boxes: dict[object, list[str]] = {}
    for state in states:
        leaving = frozenset((edge.event, edge.target, edge.kind) for edge in edges if edge.source == state)
        boxes.setdefault(state if state in entered else leaving, []).append(state)
    return [tuple(box) for box in boxes.values()]


def _arrows(edges: list[Edge], node_of: dict[str, str]) -> tuple[Arrow, ...]:
    grouped: dict[tuple[str, str, EdgeKind], dict[str, str]] = {}
    for edge in edges:
        ends = (node_of[edge.source], node_of[edge.target], edge.kind)
        grouped.setdefault(ends, {})[edge.event] = edge.why
    return tuple(
        Arrow(source, target, kind, tuple(events), tuple(events.values()))
        for (source, target, kind), events in grouped.items()
    )
