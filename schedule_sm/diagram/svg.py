"""SVG, drawn by graphviz's ``dot``. Layouts differ between its versions, so an SVG is stamped, never compared.

The stamp holds the digest of the DOT source, which tells whether the drawing is of today's chart, and the digest of
the drawing, which tells whether somebody edited it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from typing import Final

from schedule_sm.core.errors import DiagramError
from schedule_sm.diagram.model import GENERATED, LOOKS

_STAMP: Final = re.compile(r"<!-- source sha256:([0-9a-f]{64}) drawing sha256:([0-9a-f]{64}) -->\n")
_DRAW_LIMIT_S: Final = 60
"""dot needs about 0.1 s for the largest of our charts."""


def digest(text: str) -> str:
    """Return the SHA-256 of ``text`` as UTF-8, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def is_current(svg: str, source: str) -> bool:
    """Whether ``svg`` is an unedited drawing of the DOT ``source``; needs no graphviz."""
    stamp = _STAMP.search(svg)
    if stamp is None:
        return False
    drawing = svg[: stamp.start()] + svg[stamp.end() :]
    return stamp.groups() == (digest(source), digest(drawing))


def draw_svg(source: str) -> str:
    """Return the stamped drawing of the DOT ``source``.

    Raises:
        DiagramError: if graphviz is not installed, or refuses the source.
    """
    program = shutil.which("dot")
    if program is None:
        msg = (
            "an SVG has to be drawn, and graphviz's `dot` is not installed; install the package graphviz "
            "(apt-get install graphviz, dnf install graphviz, brew install graphviz)"
        )
        raise DiagramError(msg)
    done = subprocess.run(
        [program, "-Tsvg"],
        input=source.encode("utf-8"),
        capture_output=True,
        timeout=_DRAW_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        complaint = done.stderr.decode("utf-8", "replace").strip()
        msg = f"graphviz refused the source: {complaint}"
        raise DiagramError(msg)
    return _stamped(done.stdout.decode("utf-8").replace("\r\n", "\n"), source)


def _stamped(drawn: str, source: str) -> str:
    body = drawn[drawn.index("<svg") :]
    opening = body.index(">") + 1
    drawing = f"<!-- {GENERATED} -->\n{body[:opening]}\n<style>{_styles()}</style>{body[opening:]}"
    first, rest = drawing.split("\n", 1)
    return f"{first}\n<!-- source sha256:{digest(source)} drawing sha256:{digest(drawing)} -->\n{rest}"


def _styles() -> str:
    """The line styles that graphviz has no word for, and the ones it has, so that both pictures agree."""
    return "".join(
        f".{kind.value}>a>path,.{kind.value}>path,.{kind.value}>g>a>path"
        f"{{stroke-dasharray:{look.dashes.replace(' ', ',')}}}"
        for kind, look in LOOKS.items()
        if look.dashes
    )
