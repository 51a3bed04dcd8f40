"""Each claim in SECURITY.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text("utf-8")
CLAIMS = re.findall(r"^\| ([A-Z][^|]*) \| (`tests/.*) \|$", TEXT, re.MULTILINE)


def functions(path: Path) -> set[str]:
    """Return the names of the tests in a file."""
    found = ast.walk(ast.parse(path.read_text("utf-8")))
    return {node.name for node in found if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


@pytest.mark.parametrize(("claim", "held_by"), CLAIMS, ids=[claim[:40] for claim, _ in CLAIMS])
def test_every_claim_names_tests_that_exist(claim: str, held_by: str) -> None:
    names = re.findall(r"`(tests/[^`:]+)::(test_[^`]+)`", held_by)
    assert names
    assert ", ".join(f"`{path}::{name}`" for path, name in names) == held_by
    for path, name in names:
        assert name in functions(ROOT / path), f"{claim}: {path} has no {name}"


def test_every_line_of_the_claims_is_read() -> None:
    held = TEXT.partition("## What holds")[2].partition("## What does not hold")[0]
    rows = [
        line
        for line in held.splitlines()
        if line.startswith("|") and not line.startswith(("|---", "| claim"))
    ]
    assert len(rows) == len(CLAIMS) > 15
