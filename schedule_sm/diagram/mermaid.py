"""Mermaid flowcharts: of the kinds of diagram that GitHub renders, the one whose links can be styled.

``stateDiagram-v2`` cannot colour links and turns ``linkStyle`` into states.
"""

from __future__ import annotations

from collections.abc import Callable

from schedule_sm.core.edges import EdgeKind
from schedule_sm.diagram.model import LOOKS, Arrow, Node, Picture

_SPACING = '%%{init: {"flowchart": {"nodeSpacing": 60, "rankSpacing": 90}}}%%'
"""Wider than Mermaid's own, so that labels of neighbouring links do not cover each other."""

_ARROWS = {EdgeKind.PATH: "-->", EdgeKind.FAULT: "==>"}


def render_flowchart(
    picture: Picture, note: Callable[[Arrow, str], str] | None = None, *, direction: str = "LR"
) -> str:
    """Return the flowchart of ``picture``.

    Args:
        picture: what to draw.
        note: called with an arrow and each of its events; what it returns stands behind the event (counts, say).
        direction: ``LR`` or ``TB``.
    """
    lines = [_SPACING, f"flowchart {direction}"]
    lines += [f"    {_node(node)}" for node in picture.nodes]
    by_kind: dict[EdgeKind, list[int]] = {}
    for number, arrow in enumerate(picture.arrows):
        mark = LOOKS[arrow.kind].mark
        label = "<br/>".join(f"{mark} {event}{note(arrow, event) if note else ''}" for event in arrow.events)
        lines.append(f'    {arrow.source}_ {_ARROWS.get(arrow.kind, "-.->")}|"{label}"| {arrow.target}_')
        by_kind.setdefault(arrow.kind, []).append(number)
    lines += [
        "    classDef state fill:#f6f8fa,stroke:#767c85,color:#1f2328",
        "    classDef initial fill:#f6f8fa,stroke:#767c85,stroke-width:3px,color:#1f2328",
        "    classDef final fill:#d8dee4,stroke:#767c85,stroke-width:2px,color:#1f2328",
    ]
    lines += [_link_style(kind, numbers) for kind, numbers in by_kind.items()]
    return "\n".join(lines) + "\n"


def _node(node: Node) -> str:
    # an underscore keeps state names clear of Mermaid's own words ("end" breaks a flowchart)
    look = "final" if node.is_final else "initial" if node.is_initial else "state"
    return f'{node.name}_("{"<br/>".join(node.states)}"):::{look}'


def _link_style(kind: EdgeKind, numbers: list[int]) -> str:
    # no colour for the label: it stands on a ground of the theme's, which is a middle grey on dark pages
    look = LOOKS[kind]
    dashes = f",stroke-dasharray:{look.dashes}" if look.dashes else ""
    which = ",".join(map(str, numbers))
    return f"    linkStyle {which} stroke:{look.colour},stroke-width:{look.width}px{dashes}"
