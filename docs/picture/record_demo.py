"""Record ``schedule-sm demo`` in a terminal and draw it as an animated SVG: ``python docs/picture/record_demo.py``.

The demo runs for real, in a pseudo-terminal; what it wrote and when is all that is drawn. It needs the extra ``test``
(pyte is the terminal). The picture moves by CSS alone, and stands still for who asked for less motion.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final

import pyte

PICTURE: Final = Path(__file__).with_name("demo.svg")
COLUMNS: Final = 92
ROWS: Final = 32
PROMPT: Final = b"\x1b[32m$\x1b[0m schedule-sm demo\r\n"
"""What a reader would have typed; the demo itself does not write it."""
LAST_FRAME_S: Final = 8.0
MERGED_S: Final = 0.04
"""What was written within so short a time is one frame: nobody sees it apart."""

CELL_X, CELL_Y, FONT_SIZE, MARGIN, BAR = 8.4, 16.3, 14, 16, 34
"""Pixels; in most monospaced fonts of 14 pixels a cell is 8.4 by 16.3, and lines of boxes meet."""
BACKGROUND, FOREGROUND = "#15191f", "#d5dae2"
COLOURS: Final = {
    "red": "#ff7b72",
    "green": "#6fce7e",
    "brown": "#e3b341",  # what terminals call yellow
    "blue": "#79b8ff",
    "magenta": "#d2a8ff",
    "cyan": "#62d3e0",
    "brightblack": "#8b94a1",
}
"""Each has a contrast of at least 5:1 on the background."""


@dataclass(frozen=True)
class Run:
    """Neighbouring cells of one look."""

    column: int
    text: str
    colour: str = "default"
    bold: bool = False
    italics: bool = False


Line = tuple[Run, ...]


@dataclass(frozen=True)
class Frame:
    """What the terminal showed from ``at_s`` on."""

    at_s: float
    lines: tuple[Line, ...]


def record(command: Sequence[str]) -> Iterator[tuple[float, bytes]]:
    """Run ``command`` in a pseudo-terminal and yield what it writes, each piece with its second since the start.

    Raises:
        ChildProcessError: if it does not exit with 0.
    """
    child, terminal = pty.fork()
    if child == 0:
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        environment.pop("NO_COLOR", None)
        os.execvpe(command[0], list(command), environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began_s = time.monotonic()  # noqa: TID251 - a recording is timed outside of the package
    while True:
        select.select([terminal], [], [])
        try:
            written = os.read(terminal, 1 << 16)
        except OSError:  # Linux: the other end is closed
            written = b""
        if not written:
            break
        yield time.monotonic() - began_s, written  # noqa: TID251 - as above
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        msg = f"{command[0]} ended with {status}"
        raise ChildProcessError(msg)


def play(recording: Iterator[tuple[float, bytes]]) -> list[Frame]:
    """Return what a terminal shows of ``recording``: one frame for each change that can be seen."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    frames: list[Frame] = []
    for at_s, written in recording:
        stream.feed(written.replace(b"\x1b[2m", b"\x1b[90m"))  # pyte knows no faint text
        lines = tuple(read_line(screen, row) for row in range(ROWS))
        if frames and at_s - frames[-1].at_s < MERGED_S:
            frames[-1] = Frame(frames[-1].at_s, lines)
        elif not frames or frames[-1].lines != lines:
            frames.append(Frame(at_s, lines))
    return frames


def read_line(screen: pyte.Screen, row: int) -> Line:
    """Return one line of ``screen`` as runs; blank ends and gaps are left out."""
    cells = [(column, screen.buffer[row][column]) for column in range(COLUMNS)]
    runs = []
    for (colour, bold, italics), group in groupby(
        cells, key=lambda cell: (cell[1].fg, cell[1].bold, cell[1].italics)
    ):
        shown = list(group)
        text = "".join(cell.data for _, cell in shown)
        if text.strip():
            column = shown[0][0] + len(text) - len(text.lstrip())
            runs.append(Run(column, text.strip(), colour, bold, italics))
    return tuple(runs)


def render_svg(frames: Sequence[Frame], *, title: str, description: str) -> str:
    """Return ``frames`` as a film strip behind a window, moved on by CSS. Equal lines are drawn once."""
    names: dict[Line, str] = {}
    strip = []
    width, height = COLUMNS * CELL_X + 2 * MARGIN, ROWS * CELL_Y + MARGIN
    for number, frame in enumerate(frames):
        top = number * height + CELL_Y
        for row, line in enumerate(frame.lines):
            if line:
                name = names.setdefault(line, f"l{len(names)}")
                strip.append(f'<use href="#{name}" y="{top + row * CELL_Y:g}"/>')
    lines = [f'<g id="{name}">{"".join(map(draw_run, line))}</g>' for line, name in names.items()]
    film_s = frames[-1].at_s + LAST_FRAME_S
    steps = [
        f"{frame.at_s / film_s:.3%}{{transform:translateY({-number * height:g}px)}}"
        for number, frame in enumerate(frames)
    ]
    still = f"{-(len(frames) - 1) * height:g}px"
    colours = [f".{name}{{fill:{colour}}}" for name, colour in COLOURS.items()]
    dots = "".join(f'<circle cx="{MARGIN + 6 + 18 * n}" cy="17" r="5" fill="#4a5362"/>' for n in range(3))
    return "\n".join(
        [
            "<!-- generated by docs/picture/record_demo.py from a real run; run it to renew -->",
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height + BAR:g}" role="img"'
            ' xml:space="preserve" aria-labelledby="title description">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            "<style>",
            f"text{{font:{FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
            f"fill:{FOREGROUND};white-space:pre}}",
            *colours,
            ".b{font-weight:700}.i{font-style:italic}",
            f"#film{{animation:film {film_s:.2f}s steps(1,end) infinite}}",
            f"@keyframes film{{{''.join(['0%{transform:none}', *steps])}}}",
            f"@media (prefers-reduced-motion:reduce){{#film{{animation:none;transform:translateY({still})}}}}",
            "</style>",
            f'<rect width="{width:g}" height="{height + BAR:g}" rx="10" fill="{BACKGROUND}"/>',
            dots,
            f"<defs>{''.join(lines)}</defs>",
            f'<svg x="{MARGIN}" y="{BAR}" width="{COLUMNS * CELL_X:g}" height="{height:g}"><g id="film">',
            *strip,
            "</g></svg>",
            "</svg>",
            "",
        ]
    )


def draw_run(run: Run) -> str:
    """Return one run; ``textLength`` keeps the columns whatever font there is."""
    looks = [run.colour if run.colour in COLOURS else "", "b" if run.bold else "", "i" if run.italics else ""]
    look = " ".join(filter(None, looks))
    return (
        f'<text x="{run.column * CELL_X:g}" textLength="{len(run.text) * CELL_X:g}"'
        + (f' class="{look}"' if look else "")
        + f">{escape(run.text, quote=False)}</text>"
    )


def main() -> None:
    """Record the demo and write the picture."""
    command = [str(Path(sys.executable).with_name("schedule-sm")), "demo"]
    frames = play(iter([(0.0, PROMPT), *record(command)]))
    title = "schedule-sm demo in a terminal"
    description = (
        "A host process is asked for reminders. They come due between turns; the process is killed; a new one opens "
        "the same file and delivers what it missed. A table shows each reminder's chart state change by change."
    )
    picture = render_svg(frames, title=title, description=description)
    PICTURE.write_text(picture, encoding="utf-8")
    size_kb = len(picture.encode()) / 1_000
    sys.stdout.write(f"{PICTURE}: {len(frames)} frames, {frames[-1].at_s:.1f} s, {size_kb:.0f} KB\n")


if __name__ == "__main__":
    main()
