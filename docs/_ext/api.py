"""Two repairs of autodoc's output, so that the strict build is about our text and not about its guesses.

- An attribute's docstring is a sentence. Napoleon would take "The log: events in order" for a type and its description.
- Code refers to a name where it is defined (``schedule_sm.owner.ScheduleOwner``) or, in ``Raises:``, by itself; the
  pages document it where people import it. A reference that is not found leads to the one object
  of that name that is documented.
"""

from __future__ import annotations

from typing import Any, Final

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

_NAPOLEON: Final = 500
"""The priority at which it works."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    kept: dict[str, list[str]] = {}

    def keep(_app: Sphinx, what: str, name: str, _obj: object, _options: object, lines: list[str]) -> None:
        if what in ("attribute", "property", "data"):
            kept[name] = list(lines)

    def restore(
        _app: Sphinx, _what: str, name: str, _obj: object, _options: object, lines: list[str]
    ) -> None:
        if name in kept:
            lines[:] = kept.pop(name)

    app.connect("autodoc-process-docstring", keep, priority=_NAPOLEON - 1)
    app.connect("autodoc-process-docstring", restore, priority=_NAPOLEON + 1)
    app.connect("missing-reference", _by_last_name)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _by_last_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Element | None:
    if node.get("refdomain") != "py":
        return None
    last = node["reftarget"].rpartition(".")[2]
    python = env.domains.python_domain
    found = [
        name
        for name, entry in python.objects.items()
        if name.rpartition(".")[2] == last and not entry.aliased
    ]
    if len(found) != 1:
        return None
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, content)
