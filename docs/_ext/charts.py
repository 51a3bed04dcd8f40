"""Pictures of the charts in the pages: ``{chart} delivery-path-retry``.

The build generates every diagram anew in memory and fails when a committed one differs. An SVG stands in the page
itself, so that its states are links: each leads to the state's explanation, which the build requires to exist.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any, Final

import inserts
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective

from schedule_sm.core.cursor import tables
from schedule_sm.diagram import generate
from schedule_sm.diagram.extract import file_stem, pictures
from schedule_sm.diagram.model import VIEWS, WHOLE

DIAGRAMS: Final = Path(__file__).parents[2] / "diagrams"
STATES_PAGE: Final = "explanation/states"
_LINK: Final = re.compile(r'xlink:href="(\w+)\.md#(\w+)"')


class StaleError(SphinxError):
    """The pages and the charts have parted."""

    category = "The documentation is stale"


class ChartPicture(nodes.General, nodes.Element):
    """One inlined SVG."""


class ChartDirective(SphinxDirective):
    """``{chart} NAME``: the picture ``diagrams/NAME.svg``, with its caption as the content."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Embed the picture."""
        name = self.arguments[0]
        if name not in _titles():
            raise self.error(f"no picture {name!r}; there are {', '.join(_titles())}")
        self.env.note_dependency(str(DIAGRAMS / f"{name}.svg"))
        return [ChartPicture("", name=name, caption=" ".join(self.content))]


def _titles() -> dict[str, str]:
    return {
        found.name: f"{table.name}: {found.title[0].lower()}{found.title[1:]}"
        for table in tables().values()
        for found in pictures(table, (*VIEWS, WHOLE))
    }


def _visit_html(writer: Any, node: ChartPicture) -> None:
    name = node["name"]
    svg = (DIAGRAMS / f"{name}.svg").read_text(encoding="utf-8")
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\bid="(\w+)"', rf'id="{name}-\1"', svg)  # two pictures on a page have the same ids
    svg = re.sub(r"<style>(.*?)</style>", "", svg)  # page-wide in HTML: it stands in charts.css
    width = float(re.search(r'viewBox="[\d. ]+? ([\d.]+) [\d.]+"', svg)[1])  # type: ignore[index]
    size = f"min-width:{min(width, 340 + width / 2):.0f}px;max-width:{width * 1.1:.0f}px"  # from readable to natural
    title = html.escape(_titles()[name], quote=True)
    svg = re.sub(
        r'<svg width="[^"]*" height="[^"]*"',
        f'<svg role="img" aria-label="{title}" style="{size}"',
        svg,
        count=1,
    )
    page = writer.builder.get_relative_uri(writer.builder.current_docname, STATES_PAGE)
    svg = _LINK.sub(lambda found: f'xlink:href="{page}#{_anchor(found[1], found[2])}"', svg)
    caption = html.escape(node["caption"] or _titles()[name])
    alone = writer.builder.get_relative_uri(writer.builder.current_docname, "index").removesuffix(
        "index.html"
    )
    writer.body.append(
        f'<figure class="chart"><div class="chart-scroll" tabindex="0">{svg}</div>'
        f'<figcaption>{caption} <a href="{alone}{_alone(name)}">Full size</a></figcaption>\n'
    )


def _alone(name: str) -> str:
    return f"_images/{name}.svg"


def _write_pictures(app: Sphinx, exception: Exception | None) -> None:
    """Put each picture beside the pages too, to be looked at in full size; its states lead back to the pages."""
    if exception is not None or app.builder.format != "html":
        return
    target = app.builder.get_relative_uri(_alone("any"), STATES_PAGE)
    for name in _titles():
        svg = (DIAGRAMS / f"{name}.svg").read_text(encoding="utf-8")
        linked = _LINK.sub(lambda found: f'xlink:href="{target}#{_anchor(found[1], found[2])}"', svg)
        file = Path(app.outdir) / _alone(name)
        file.parent.mkdir(exist_ok=True)
        file.write_text(linked, encoding="utf-8")


def _depart_html(writer: Any, node: ChartPicture) -> None:
    writer.body.append("</figure>\n")


def _anchor(stem: str, state: str) -> str:
    return f"{stem}-{state}".replace("_", "-")


def _refuse_stale_diagrams(app: Sphinx) -> None:
    stale = generate.check(DIAGRAMS)
    if stale:
        raise StaleError(
            f"the committed diagrams are stale; run `schedule-sm diagrams` to renew them\n{stale}"
        )


def _fill_inserts(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = inserts.fill(source[0])


def _refuse_unexplained_states(app: Sphinx, doctree: nodes.document) -> None:
    if app.env.docname != STATES_PAGE:
        return
    explained = {one for node in doctree.findall(nodes.section) for one in node["ids"]}
    for table in tables().values():
        for state in table.states:
            if _anchor(file_stem(table), state) not in explained:
                raise StaleError(
                    f"{STATES_PAGE}.md does not explain {state!r} of {table.name}: "
                    f"add a section with the label ({_anchor(file_stem(table), state)})="
                )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_node(ChartPicture, html=(_visit_html, _depart_html))
    app.add_directive("chart", ChartDirective)
    app.connect("builder-inited", _refuse_stale_diagrams)
    app.connect("source-read", _fill_inserts)
    app.connect("build-finished", _write_pictures)
    app.connect("doctree-read", _refuse_unexplained_states)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
