"""Writes the generated pages and pictures, and tells which of the written ones are stale.

Text is compared byte for byte; an SVG by the digests it carries. Only drawing an SVG needs graphviz.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from schedule_sm.core.chart_table import ChartTable
from schedule_sm.core.cursor import tables
from schedule_sm.core.errors import DiagramError
from schedule_sm.diagram.dot import render_dot
from schedule_sm.diagram.extract import file_stem, picture, pictures
from schedule_sm.diagram.markdown import render_gallery, render_page
from schedule_sm.diagram.model import GENERATED, VIEWS, WHOLE
from schedule_sm.diagram.svg import draw_svg, is_current

_SUFFIXES = (".md", ".dot", ".svg")


def outputs(charts: Sequence[ChartTable] | None = None) -> dict[str, str]:
    """Return the text of every generated file but the SVGs, by file name."""
    listed = _listed(charts)
    texts = {"README.md": render_gallery(listed)}
    for table in listed:
        stem = file_stem(table)
        texts[f"{stem}.md"] = render_page(table)
        texts[f"{stem}.dot"] = render_dot(picture(table, WHOLE))
    return texts


def drawings(charts: Sequence[ChartTable] | None = None) -> dict[str, str]:
    """Return the DOT source of every SVG, by file name."""
    return {
        f"{found.name}.svg": render_dot(found)
        for table in _listed(charts)
        for found in pictures(table, (WHOLE, *VIEWS))
    }


def write(out_dir: Path, charts: Sequence[ChartTable] | None = None) -> list[str]:
    """Bring ``out_dir`` up to date; returns the names of the files that changed.

    A current SVG is left as it is, whichever version of graphviz drew it.

    Raises:
        DiagramError: if the folder cannot be written, or an SVG has to be drawn without graphviz.
    """
    wanted = {name: text for name, text in outputs(charts).items() if _read(out_dir / name) != text}
    for name, source in drawings(charts).items():
        present = _read(out_dir / name)
        if present is None or not is_current(present, source):
            wanted[name] = draw_svg(source)
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.items():
            (out_dir / name).write_bytes(text.encode("utf-8"))  # bytes: LF everywhere
        leftovers = _leftovers(out_dir, charts)
        for name in leftovers:
            (out_dir / name).unlink()
    except OSError as error:
        msg = f"{str(out_dir)!r} cannot be written ({error.strerror}); choose another folder with --out"
        raise DiagramError(msg) from error
    return sorted([*wanted, *leftovers])


def check(out_dir: Path, charts: Sequence[ChartTable] | None = None) -> str:
    """Return a readable diff of what is stale in ``out_dir``; empty when all is current. Needs no graphviz."""
    found = [_text_diff(name, _read(out_dir / name), text) for name, text in outputs(charts).items()]
    found += [_drawing_diff(name, _read(out_dir / name), source) for name, source in drawings(charts).items()]
    found += [f"{name}: no chart has this file any more\n" for name in _leftovers(out_dir, charts)]
    return "".join(found)


def _listed(charts: Sequence[ChartTable] | None) -> list[ChartTable]:
    return list(tables().values()) if charts is None else list(charts)


def _text_diff(name: str, present: str | None, wanted: str) -> str:
    if present is None:
        return f"{name}: missing\n"
    if present == wanted:
        return ""
    lines = difflib.unified_diff(
        present.split("\n"),
        wanted.split("\n"),
        f"{name} (as written)",
        f"{name} (as declared)",
        lineterm="",
        n=1,
    )
    return "\n".join(lines) + "\n"


def _drawing_diff(name: str, present: str | None, source: str) -> str:
    if present is None:
        return f"{name}: missing\n"
    return "" if is_current(present, source) else f"{name}: drawn from another source, or edited by hand\n"


def _leftovers(out_dir: Path, charts: Sequence[ChartTable] | None) -> list[str]:
    known: Mapping[str, str] = {**outputs(charts), **drawings(charts)}
    if not out_dir.is_dir():
        return []
    others = [
        path for path in sorted(out_dir.iterdir()) if path.suffix in _SUFFIXES and path.name not in known
    ]
    return [path.name for path in others if GENERATED in (_read(path) or "")]


def _read(path: Path) -> str | None:
    """The file's text with its line ends as they stand, or ``None`` if there is no readable text."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        return ""
