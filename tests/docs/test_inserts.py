"""What the pages take from the code: each insert exists, says something, and is the same on every run."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import schedule_sm
from schedule_sm.core.cursor import tables
from schedule_sm.diagram.extract import file_stem

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


@pytest.fixture
def inserts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    for name in ("inserts", "checks", "measure"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import inserts

    return inserts


def test_every_insert_is_used_and_the_same_on_every_run(inserts: ModuleType) -> None:
    found = [
        (page, *told) for page in PAGES for told in inserts.INSERT.findall(page.read_text(encoding="utf-8"))
    ]
    assert {name for _, name, _ in found} == set(inserts.INSERTS)
    assert [
        (page, link) for page, _, link in found if not (page.parent / link.partition("#")[0]).exists()
    ] == []
    for name, insert in inserts.INSERTS.items():
        assert insert().strip(), name
        assert insert() == insert(), name


def test_every_insert_says_in_the_source_of_the_page_where_to_find_the_same(inserts: ModuleType) -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("insert: ") == len(inserts.INSERT.findall(text)), page
        assert "insert: " not in inserts.INSERT.sub("", text)


def test_every_command_has_help_with_an_example_and_is_documented(inserts: ModuleType) -> None:
    text = inserts.commands()
    for path in inserts.command_paths():
        section = re.split(r"^## ", text, flags=re.MULTILINE)
        found = [part for part in section if part.startswith(f"{' '.join(('schedule-sm', *path))}\n")]
        assert len(found) == 1, path
        assert "Example" in found[0], path


def test_every_public_name_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"auto\w+:: schedule_sm\.(\w+)(?:\(\))?$", text, re.MULTILINE))
    assert set(schedule_sm.__all__) <= documented


def test_every_state_is_explained() -> None:
    text = (DOCS / "explanation" / "states.md").read_text(encoding="utf-8")
    labels = set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
    wanted = {
        f"{file_stem(table)}-{state}".replace("_", "-")
        for table in tables().values()
        for state in (*table.states, "states")
    }
    assert labels == wanted


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([\w/-]+)$", index, re.MULTILINE))
    built = {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES if "decisions" not in page.parts}
    assert built - {"index"} <= listed
