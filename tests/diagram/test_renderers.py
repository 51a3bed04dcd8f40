"""What the pictures and pages say: every edge once, by kind, readable on light and dark."""

from __future__ import annotations

import re

import pytest

from schedule_sm.core.chart_table import ChartTable, compile_chart
from schedule_sm.core.cursor import tables
from schedule_sm.core.edges import EdgeKind
from schedule_sm.diagram.dot import render_dot
from schedule_sm.diagram.extract import file_stem, picture, pictures
from schedule_sm.diagram.markdown import render_gallery, render_page, render_transitions
from schedule_sm.diagram.mermaid import render_flowchart
from schedule_sm.diagram.model import LOOKS, VIEWS, WHOLE
from tests.core.chart_samples import Small

BOTH = pytest.mark.parametrize("table", tables().values(), ids=list(tables()))


@BOTH
def test_transition_table_has_one_row_an_edge_in_declaration_order(table: ChartTable) -> None:
    head, rule, *rows = render_transitions(table).strip().split("\n")
    assert head == "| from | event | to | kind | why |"
    assert set(rule) <= set("| -")
    assert rows == [
        f"| `{edge.source}` | `{edge.event}` | `{edge.target}` | {edge.kind.value} | {edge.why} |"
        for edge in table.edges
    ]


@BOTH
def test_every_edge_is_in_a_view_and_in_the_whole(table: ChartTable) -> None:
    def edges(views: tuple[object, ...]) -> set[tuple[str, str, str]]:
        return {
            (source, event, arrow.target)
            for found in pictures(table, views)  # type: ignore[arg-type]
            for arrow in found.arrows
            for node in found.nodes
            if node.name == arrow.source
            for source in node.states
            for event in arrow.events
        }

    every = {(edge.source, edge.event, edge.target) for edge in table.edges}
    assert edges(VIEWS) == edges((WHOLE,)) == every


@BOTH
def test_flowchart_styles_every_link_once_and_by_kind(table: ChartTable) -> None:
    for found in pictures(table, VIEWS):
        text = render_flowchart(found)
        links = re.findall(r"^    \w+ (-->|==>|-\.->)\|", text, re.MULTILINE)
        styled = re.findall(r"^    linkStyle ([\d,]+) stroke:(#\w+)", text, re.MULTILINE)
        numbers = [int(number) for listed, _ in styled for number in listed.split(",")]
        assert sorted(numbers) == list(range(len(links))) == list(range(len(found.arrows)))
        for listed, colour in styled:
            kinds = {found.arrows[int(number)].kind for number in listed.split(",")}
            assert [LOOKS[kind].colour for kind in kinds] == [colour]


def test_flowchart_takes_notes_behind_events() -> None:
    text = render_flowchart(
        picture(compile_chart(Small), WHOLE), lambda arrow, event: f" x{len(event)}", direction="TB"
    )
    assert text.split("\n")[1] == "flowchart TB"
    assert '|"▶ switch x6"|' in text


@BOTH
def test_page_opens_with_views_and_ends_with_the_table(table: ChartTable) -> None:
    page = render_page(table)
    assert page.count("```mermaid") == 3
    assert page.index("```mermaid") < page.index("## Every transition")
    assert page.endswith(render_transitions(table))


def test_gallery_shows_every_picture() -> None:
    text = render_gallery(list(tables().values()))
    for table in tables().values():
        for found in pictures(table, (*VIEWS, WHOLE)):
            assert f"]({found.name}.svg)" in text
        assert f"]({file_stem(table)}.md)" in text


def test_states_that_are_left_by_the_same_arrows_share_a_box_where_no_path_is_drawn() -> None:
    boxes = {
        table.name: [node.states for node in picture(table, VIEWS[2]).nodes] for table in tables().values()
    }
    assert boxes == {
        "DeliveryChart": [
            ("armed", "overdue", "preflight", "awaiting_admission"),
            ("queued",),
            ("dispatched",),
            ("deleted",),
            ("detached",),
        ],
        "OwnerChart": [
            ("starting", "waiting", "empty", "blocked", "parked"),
            ("driving",),
            ("stopping",),
            ("stopped",),
        ],
    }


def test_view_without_edges_is_left_out() -> None:
    names = [found.name for found in pictures(compile_chart(Small), VIEWS)]
    assert names == ["small-path-fault", "small-path-retry"]


@BOTH
def test_dot_keeps_the_path_straight_and_tells_why(table: ChartTable) -> None:
    text = render_dot(picture(table, WHOLE))
    for edge in table.edges:
        assert f"{edge.event}: {edge.why}" in text
    assert '"(start)" ->' in text
    assert "weight=50" not in text


def _luminance(colour: str) -> float:
    def channel(part: str) -> float:
        value = int(part, 16) / 255
        return value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (channel(colour[at : at + 2]) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("kind", EdgeKind)
@pytest.mark.parametrize("page", ["#ffffff", "#0d1117"])
def test_colours_hold_on_light_and_dark_pages(kind: EdgeKind, page: str) -> None:
    """WCAG contrast of at least 4:1; 3:1 is asked of graphics."""
    lighter, darker = sorted((_luminance(LOOKS[kind].colour), _luminance(page)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 4


@BOTH
@pytest.mark.parametrize("page", ["#ffffff", "#0d1117"])
def test_lines_hold_on_light_and_dark_pages(table: ChartTable, page: str) -> None:
    """Borders of boxes too, by which an initial and a final state are told from the others."""
    drawn = render_dot(picture(table, WHOLE)) + render_flowchart(picture(table, WHOLE))
    for colour in set(re.findall(r'(?:\bcolor="|\bstroke:)(#\w+)', drawn)):
        lighter, darker = sorted((_luminance(colour), _luminance(page)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4, colour


def test_no_two_kinds_look_alike_without_colour() -> None:
    assert len({look.mark for look in LOOKS.values()}) == len(EdgeKind)
    assert len({look.line for look in LOOKS.values()}) == len(EdgeKind)
    assert len({(look.dashes, look.width) for look in LOOKS.values()}) == len(EdgeKind)
    assert len({look.arrowhead for look in LOOKS.values()}) == len(EdgeKind)
