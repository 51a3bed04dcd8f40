"""What of the README needs more than ``tests/docs/test_examples.py`` gives it: the minimal host, and the picture."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_own_host_prints_what_the_readme_shows(tmp_path: Path) -> None:
    found = re.search(
        r"<!-- file: own_host\.py -->\n```python\n(.*?)```\n\n<!-- shown: [^\n]* -->\n```text\n(.*?)```",
        README,
        re.DOTALL,
    )
    assert found is not None
    program = tmp_path / "own_host.py"
    program.write_text(found[1], encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            f"import sys; sys.path.insert(0, {str(ROOT / 'docs/examples')!r}); import own_host",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert re.fullmatch(re.escape(found[2]).replace("…", ".*"), done.stdout), done.stdout


def test_every_file_that_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)", README)
    assert links
    for link in links:
        assert (ROOT / link).is_file(), link


def test_every_limit_of_the_design_is_named() -> None:
    assert re.findall(r"^- \*\*(.*?)\.?\*\*", README, re.MULTILINE) == [
        "Session-local delivery",
        "Activity-driven persistence retry",
        "After-only protocol",
        "The duplicate window",
        "The in-memory loss",
        "Load order",
        "A faulted owner",
        "A followup that always fails",
    ]
