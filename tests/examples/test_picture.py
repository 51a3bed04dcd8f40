"""The moving picture of the demo: how a recording becomes frames and an SVG, and what the committed one holds."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "picture"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def record_demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("pyte")
    pytest.importorskip("termios", reason="a pseudo-terminal needs a Unix")
    monkeypatch.syspath_prepend(str(FOLDER))
    import record_demo

    return record_demo


def shown(frame) -> list[str]:
    return [" ".join(run.text for run in line) for line in frame.lines if line]


def test_each_change_that_can_be_seen_is_a_frame(record_demo: ModuleType) -> None:
    recording = [
        (0.0, b"$ demo\r\n"),
        (1.0, b"armed"),
        (1.01, b"\rdue  "),  # too soon after the last to be seen apart
        (2.0, b"\x1b[?25l"),  # nothing to be seen
        (3.0, b"\r\x1b[2K\x1b[1;32mdispatched\x1b[0m  \x1b[2mfaint"),
    ]
    frames = record_demo.play(iter(recording))
    assert [(frame.at_s, shown(frame)) for frame in frames] == [
        (0.0, ["$ demo"]),
        (1.0, ["$ demo", "due"]),
        (3.0, ["$ demo", "dispatched faint"]),
    ]
    bold, faint = frames[-1].lines[1]
    assert (bold.column, bold.colour, bold.bold) == (0, "green", True)
    assert (faint.column, faint.colour, faint.bold) == (12, "brightblack", False)


def test_picture_is_a_film_whose_equal_lines_are_drawn_once(record_demo: ModuleType) -> None:
    frames = record_demo.play(iter([(0.0, b"<a> & b\r\n"), (2.0, b"more")]))
    drawn = record_demo.render_svg(frames, title="T", description="D & E")
    assert drawn == record_demo.render_svg(frames, title="T", description="D & E")
    root = ET.fromstring(drawn)
    assert [text.text for text in root.iter(f"{SVG}text")] == ["<a> & b", "more"]
    assert len(list(root.iter(f"{SVG}use"))) == 3
    assert "20.000%{transform:translateY(" in drawn  # 2 s of 2 s and the pause at the end


def test_recording_holds_what_the_command_wrote_and_refuses_a_failure(record_demo: ModuleType) -> None:
    pieces = list(record_demo.record([sys.executable, "-c", "print('hello')"]))
    assert b"".join(written for _, written in pieces) == b"hello\r\n"
    with pytest.raises(ChildProcessError, match="ended with 3"):
        list(record_demo.record([sys.executable, "-c", "raise SystemExit(3)"]))


def test_committed_picture_is_small_still_on_request_and_shows_a_run_that_kept_every_promise() -> None:
    picture = (FOLDER / "demo.svg").read_text(encoding="utf-8")
    assert len(picture.encode()) < 300_000
    root = ET.fromstring(picture)
    assert {element.tag.removeprefix(SVG) for element in root.iter()}.isdisjoint(
        {"script", "image", "foreignObject"}
    )
    assert "prefers-reduced-motion" in picture
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert texts.count("kept") == 7
    assert "BROKEN" not in texts
    assert any(re.search(r"killed with SIGKILL", text) for text in texts)
