"""Graphviz DOT, the same bytes on every run: nodes are named after states, edges stand in the declaration's order."""

from __future__ import annotations

from schedule_sm.core.edges import EdgeKind
from schedule_sm.diagram.model import GENERATED, LOOKS, Arrow, Node, Picture

_FONT = 'fontname="Helvetica,Arial,sans-serif"'


def render_dot(picture: Picture) -> str:
    """Return the DOT source of ``picture``."""
    lines = [
        f"// {GENERATED}",
        f"digraph {_quoted(picture.name)} {{",
        f"  graph [rankdir=LR, bgcolor=transparent, nodesep=0.35, ranksep=0.6, tooltip={_quoted(picture.title)}];",
        f'  node [shape=box, style="rounded,filled", fillcolor="#f6f8fa", color="#767c85", '
        f'fontcolor="#1f2328", {_FONT}, fontsize=13, margin="0.18,0.09"];',
        f"  edge [{_FONT}, fontsize=11];",
    ]
    for node in picture.nodes:
        if node.is_initial and picture.has_path:
            lines += [
                '  "(start)" [shape=circle, width=0.16, label="", style=filled, fillcolor="#767c85"];',
                f'  "(start)" -> {_quoted(node.name)} [color="#767c85", weight=8];',
            ]
    page = f"{picture.name.partition('-')[0]}.md"
    lines += [f"  {_node(node, page)}" for node in picture.nodes]
    lines += [f"  {_edge(arrow, has_path=picture.has_path)}" for arrow in picture.arrows]
    if not picture.has_path:
        lines += _column(picture)
    return "\n".join([*lines, "}"]) + "\n"


def _column(picture: Picture) -> list[str]:
    """Without a path to follow, the states that are only left stand in one column, in the declaration's order."""
    entered = {arrow.target for arrow in picture.arrows}
    column = [_quoted(node.name) for node in picture.nodes if node.name not in entered]
    if len(column) == 1:
        return []
    return [f"  {{ rank=same; edge [style=invis, weight=50]; {' -> '.join(column)}; }}"]


def _node(node: Node, page: str) -> str:
    """One box; a click on it leads to what the page beside the picture says of its state."""
    section = node.name if len(node.states) == 1 else "states"
    attributes = [
        f"label={_quoted(chr(10).join(node.states))}",
        f"URL={_quoted(f'{page}#{section}')}",
        f"tooltip={_quoted(', '.join(node.states))}",
    ]
    if node.is_final:
        attributes += ["peripheries=2", 'fillcolor="#d8dee4"', 'color="#767c85"']
    elif node.is_initial:
        attributes += ["penwidth=2.5", 'color="#767c85"']
    return f"{_quoted(node.name)} [{', '.join(attributes)}];"


def _edge(arrow: Arrow, *, has_path: bool) -> str:
    look = LOOKS[arrow.kind]
    label = "\n".join(f"{look.mark} {event}" for event in arrow.events)
    tooltip = "\n".join(f"{event}: {why}" for event, why in zip(arrow.events, arrow.why, strict=True))
    weight = 8 if arrow.kind is EdgeKind.PATH else 1  # a heavy path is drawn straight
    attributes = {
        "class": arrow.kind.value,
        "label": label,
        "tooltip": tooltip,
        "labeltooltip": tooltip,
        "color": look.colour,
        "fontcolor": look.colour,
        "style": look.dot_style,
        "penwidth": look.width,
        "arrowhead": look.arrowhead,
        "weight": str(weight),
    }
    ends = [_quoted(arrow.source), _quoted(arrow.target)]
    if arrow.kind is EdgeKind.MANAGEMENT and not has_path:
        # on the other side of the column than disposal: the two do not cross
        ends.reverse()
        attributes |= {"dir": "back", "arrowtail": look.arrowhead}
    listed = ", ".join(f"{name}={_quoted(value)}" for name, value in attributes.items())
    return f"{' -> '.join(ends)} [{listed}];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
