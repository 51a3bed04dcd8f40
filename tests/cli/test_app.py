"""The command line's root and the diagrams command."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schedule_sm.cli import app as cli
from schedule_sm.cli.commands import SUMMARIES, load
from schedule_sm.cli.options import complete_session
from schedule_sm.cli.warnings_to_stderr import show_warnings
from schedule_sm.diagram import generate
from schedule_sm.stores.protocol import StoredEvent
from tests.cli.running import write_store

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> int:
    """Run the command line in this process; returns its exit code."""
    with pytest.raises(SystemExit) as caught:
        cli.main(list(arguments))
    code = caught.value.code
    assert code is None or isinstance(code, int)
    return code or 0


def test_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"schedule-sm {version('schedule-sm')}\n"


def test_help_shows_an_example_for_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("", *SUMMARIES):
        assert run(*([name] if name else []), "--help") == 0
        assert "Example: schedule-sm" in " ".join(capsys.readouterr().out.split()), name or "the root"


def test_list_of_commands_says_what_each_command_says_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert {name: load(name).get_short_help_str(500) for name in SUMMARIES} == SUMMARIES
    assert run("--help") == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, summary in SUMMARIES.items():
        assert f" {name} {summary}" in shown


def test_help_loads_no_command_no_model_and_no_terminal_library() -> None:
    code = (
        "import sys\n"
        "from schedule_sm.cli.app import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n    print({'rich', 'pydantic', 'statemachine', 'schedule_sm.stores.sqlite', 'asyncio'} & sys.modules.keys(), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines() == ["set()"]


def test_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("no-such-command") == 2
    assert "No such command" in capsys.readouterr().err


def test_error_is_one_line_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (ROOT / "diagrams").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "owner.md").unlink()
    (tmp_path / "owner.md").mkdir()
    assert run("diagrams", "--out", str(tmp_path)) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("schedule-sm: ")
    assert captured.err.count("\n") == 1
    assert "--out" in captured.err


def test_debug_shows_the_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "owner.md").mkdir()
    for path in (ROOT / "diagrams").iterdir():
        if path.name != "owner.md":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    assert run("--debug", "diagrams", "--out", str(tmp_path)) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last):\n")
    assert shown.count("\n") > 5


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [([], False), (["--debug", "x"], True), (["x", "--debug"], False), (["--version"], False)],
)
def test_debug_counts_before_the_command_only(arguments: list[str], wanted: bool) -> None:
    assert cli.wants_traceback(arguments) is wanted


def test_diagrams_check_passes_on_the_committed_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diagrams", "--check", "--out", str(ROOT / "diagrams")) == 0
    assert capsys.readouterr().out.endswith("is current\n")


def test_diagrams_check_fails_with_a_diff_and_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("diagrams", "--check", "--out", str(tmp_path)) == 1
    captured = capsys.readouterr()
    assert "delivery.md: missing\n" in captured.out
    assert f"run `schedule-sm diagrams --out {tmp_path}` to renew it" in captured.err


def test_diagrams_write_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (ROOT / "diagrams").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert run("diagrams", "--out", str(tmp_path)) == 0
    assert capsys.readouterr().out == f"{tmp_path} is current\n"
    (tmp_path / "owner.dot").unlink()
    assert run("diagrams", "--out", str(tmp_path)) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'owner.dot'}\n"


def test_wrong_arguments_are_one_line_that_names_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, path in ((["inspect"], "schedule-sm inspect"), (["--nope"], "schedule-sm")):
        assert run(*arguments) == 2
        captured = capsys.readouterr().err
        assert captured.count("\n") == 1
        assert captured.endswith(f"see `{path} --help`\n")


def test_failure_of_our_own_is_one_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(generate, "check", fail)
    assert run("diagrams", "--check", "--out", str(tmp_path)) == 1
    assert capsys.readouterr().err == (
        "schedule-sm: internal error (ZeroDivisionError); put --debug before the command to see where\n"
    )


def test_interrupt_has_the_shell_s_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(generate, "check", interrupt)
    assert run("diagrams", "--check", "--out", str(tmp_path)) == 130


@pytest.mark.slow  # a closed pipe and a flush at the interpreter's end need a process of their own
@pytest.mark.parametrize("size", [1, 20_000])
def test_closed_pipe_ends_quietly(tmp_path: Path, size: int) -> None:
    events = tuple(StoredEvent(seq, "x/y", 0, '"some text"') for seq in range(size))
    path = write_store(tmp_path / "a.db", {"main": events})
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "schedule_sm", "export", str(path)],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow  # completion scripts ask a process of their own
def test_shell_completion_knows_commands_and_the_sessions_of_the_file(tmp_path: Path) -> None:
    path = write_store(
        tmp_path / "a.db",
        {"main": (StoredEvent(0, "x/y", 0, "0"),), "mail": (StoredEvent(0, "x/y", 0, "0"),)},
    )
    words = f"schedule-sm inspect {path} --session ma"
    done = subprocess.run(
        [sys.executable, "-c", "from schedule_sm.cli.app import main; main()"],
        env={**os.environ, "_SCHEDULE_SM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "4"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.stdout.split() == ["mail", "main"]


@pytest.mark.slow
def test_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "schedule_sm", "--version"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"schedule-sm {version('schedule-sm')}\n")


def test_sessions_are_completed_from_the_file_named_so_far(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.db", {"main": (StoredEvent(0, "x/y", 0, "0"),)})
    for params, args in (({"file": path}, []), ({"store": str(path)}, []), ({}, [str(path)])):
        context: Any = SimpleNamespace(params=params, args=args)
        assert complete_session(context, "m") == ["main"]
        assert complete_session(context, "x") == []
    nothing: Any = SimpleNamespace(params={}, args=[])
    wrong: Any = SimpleNamespace(params={"file": tmp_path}, args=[])
    assert complete_session(nothing, "") == complete_session(wrong, "") == []


@pytest.mark.parametrize("with_traceback", [False, True])
def test_warnings_are_one_line_unless_debugging(
    capsys: pytest.CaptureFixture[str], with_traceback: bool
) -> None:
    show_warnings(with_traceback=with_traceback)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        logging.getLogger("schedule_sm.any").exception("session %s failed", "a\x1bb")
    shown = capsys.readouterr().err
    assert shown.startswith("schedule-sm: error: session a\\x1bb failed\n")
    assert ("Traceback" in shown) == with_traceback
