"""The guarantees and the tests that check them, from ``docs/explanation/guarantees.toml``.

The table links each promise to its tests' source, which is read from the tests when the pages are built.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
LIST: Final = ROOT / "docs" / "explanation" / "guarantees.toml"


def promises() -> list[dict[str, Any]]:
    """Return the promises: what is promised, who keeps it, the tests that check it."""
    return tomllib.loads(LIST.read_text(encoding="utf-8"))["promise"]


def test_source(name: str) -> str:
    """Return the source of ``path/test_file.py::test_name`` (or ``::Class::test_name``, or a Hypothesis machine).

    Raises:
        LookupError: if there is no such test.
    """
    path, *names = name.split("::")
    file = ROOT / path
    if not file.is_file():
        raise LookupError(f"{LIST.name} names {name}, and there is no {path}")
    text = file.read_text(encoding="utf-8")
    scope: Any = ast.parse(text)
    for wanted in names:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = [node for node in scope.body if isinstance(node, kinds) and node.name == wanted]
        if not found:
            raise LookupError(f"{LIST.name} names {name}, and {path} has no {wanted}")
        scope = found[-1]
    first = min([scope.lineno, *(one.lineno for one in scope.decorator_list)])
    return "\n".join(text.split("\n")[first - 1 : scope.end_lineno])


def _label(name: str) -> str:
    return "check-" + "".join(letter if letter.isalnum() else "-" for letter in name)


def _words(name: str) -> str:
    """A test's name as the sentence that it is."""
    return name.split("::")[-1].removeprefix("test_").replace("_s_", "'s ").replace("_", " ")


def guarantees() -> str:
    """The table of promises."""
    lines = ["| promise | checked by |", "| --- | --- |"]
    for promise in promises():
        tests = "<br>".join(f"· [{_words(name)}](#{_label(name)})" for name in promise["tests"])
        by = "" if promise["by"] == "plugin" else f" *({promise['by']})*"
        lines.append(f"| {promise['text']}{by} | {tests} |")
    return "\n".join(lines) + "\n"


def sources() -> str:
    """The source of each named test, once."""
    parts = []
    for name in dict.fromkeys(name for promise in promises() for name in promise["tests"]):
        parts += [f"({_label(name)})=", f"## {_words(name).capitalize()}\n", f"`{name}`\n"]
        parts += [f"`````{{code-block}} python\n{test_source(name)}\n`````\n"]
    return "\n".join(parts)
