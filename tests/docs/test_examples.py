"""Every code block of the README and of the pages in ``docs`` is run, compared or parsed.

A page is one test; its blocks share one namespace and one empty folder, in order. An HTML comment right above a block
says what else to do with it, with parts split by ``;``:

- none, on ``python``: run it. None, on ``console``: run the lines that begin with ``$``, compare the rest as output.
- ``file: NAME``: save it. ``pytest: NAME``: save it and run pytest on it.
- ``output``: it is what the block before printed. A ``…`` stands for anything within a line.
- ``command: NAME``: ``.ci/run`` runs it in a fresh copy. ``shown: reason``: it is not run, for that reason.
- ``slow: reason``: it may use more than a second of processor time or wait in real time, for that reason.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LIMIT_S = 1.0
"""Of processor time: what a block may use without stating why."""
_COMMENT = re.compile(r"<!-- (.*?) -->\s*\Z", re.DOTALL)


@dataclass
class Block:
    language: str
    text: str
    line: int
    marks: dict[str, str]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page that are code; directives that are none are left out."""
    marks: dict[str, str] = {}
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "html_block":
            found = _COMMENT.search(token.content)
            parts = found[1].split(";") if found else []
            marks = {
                name.strip(): value.strip() for name, _, value in (part.partition(":") for part in parts)
            }
        elif token.type == "fence":
            info = token.info.strip()
            assert token.map is not None
            if info.startswith("{literalinclude}"):
                yield Block("include", info.split()[1], token.map[0] + 1, marks)
            elif not info.startswith("{"):
                yield Block(info, token.content, token.map[0] + 1, marks)
            marks = {}
        elif token.nesting != -1:
            marks = {}


class Page:
    """Runs the blocks of one page."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder
        self.namespace: dict[str, Any] = {"__name__": "docs"}
        self.printed: str | None = None
        """By the block before; ``None`` once it was compared."""

    def run(self, block: Block) -> None:
        marks = block.marks
        if "output" in marks:
            assert self.printed is not None, "no block before this one printed anything"
            compare(self.printed, block.text)
            self.printed = None
        elif "shown" in marks:
            assert marks["shown"], "say why it is not run"
        elif "command" in marks:
            assert f"readme_command.py {marks['command']}" in (ROOT / ".ci" / "run").read_text(
                encoding="utf-8"
            )
        elif "file" in marks or "pytest" in marks:
            name = marks.get("file") or marks["pytest"]
            (self.folder / name).write_text(block.text, encoding="utf-8")
            if "pytest" in marks:
                self._shell(f"python -m pytest -q -p no:randomly -p no:cacheprovider {name}")
        else:
            self._by_language(block)

    def _by_language(self, block: Block) -> None:
        match block.language:
            case "python":
                self._python(block)
            case "console":
                self._console(block)
            case "json":
                json.loads(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "include":
                source = (self.path.parent / block.text).resolve()
                assert source.is_file(), f"{block.text} is not there"
                shutil.copy(source, self.folder)
            case other:
                pytest.fail(f"a block of {other or 'no language'!r} says neither how to run it nor why not")

    def _python(self, block: Block) -> None:
        code = compile("\n" * block.line + block.text, str(self.path), "exec")
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, self.namespace)
        self.printed = printed.getvalue() or None

    def _console(self, block: Block) -> None:
        parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
        assert not parts[0], "a console block begins with a line `$ command`"
        for part in parts[1:]:
            command, _, expected = part.partition("\n")
            compare(self._shell(command), expected)

    def _shell(self, command: str) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {
            # what the outer run was told is not for the runs that a page shows
            **{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
            "PATH": path,
            "PYTHONWARNINGS": "error",
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 or command.endswith("|| true"), f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def compare(printed: str, shown: str) -> None:
    """Fail unless the page shows what was printed; ``…`` stands for anything within a line."""
    pattern = re.escape(shown.rstrip()).replace("…", ".*")
    if not re.fullmatch(pattern, printed.rstrip()):
        assert printed.rstrip() == shown.rstrip()


def processor_time_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@pytest.mark.parametrize("path", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
@pytest.mark.timeout(60)
def test_every_block_of_a_page_does_what_the_page_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = set(sys.modules)
    page = Page(path, tmp_path)
    try:
        for block in blocks(path):
            began_s, cpu_s = time.monotonic(), processor_time_s()
            try:
                page.run(block)
            except BaseException as error:
                error.add_note(f"in the block at {path.relative_to(ROOT)}:{block.line}")
                raise
            used_s = processor_time_s() - cpu_s
            waited_s = time.monotonic() - began_s
            if "slow" not in block.marks:
                where = f"{path.relative_to(ROOT)}:{block.line}"
                assert used_s < LIMIT_S, (
                    f"{where} used {used_s:.2f} s ({waited_s:.2f} s in all); say why with slow:"
                )
            else:
                assert block.marks["slow"], "say why it is slow"
    finally:
        for name in set(sys.modules) - loaded:  # modules that the page saved
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[name]


def test_marks_are_read_from_the_comment_right_above_a_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- file: a.py; slow: it waits -->\n```python\n1\n```\n\ntext\n\n```console\n$ true\n```\n"
        "<!-- output -->\n\nmore text\n\n```text\nx\n```\n"
    )
    assert [(block.language, block.line, block.marks) for block in blocks(page)] == [
        ("python", 2, {"file": "a.py", "slow": "it waits"}),
        ("console", 8, {}),
        ("text", 15, {}),
    ]


def test_block_without_a_way_to_run_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="neither how to run it nor why not"):
        Page(tmp_path / "page.md", tmp_path).run(Block("sh", "rm -rf /", 1, {}))


def test_ellipsis_stands_for_anything_within_a_line() -> None:
    compare("one 17 three\n", "one … three")
    with pytest.raises(AssertionError):
        compare("one\n17 three\n", "one … three")
