"""The demo tells the truth: it passes on a real run, and its checks fail on a log that breaks a promise."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from schedule_sm.cli.demo_story import checks

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One real run, in real time (about eleven seconds): two host processes, one SIGKILL, a real file."""
    store = tmp_path_factory.mktemp("demo") / "demo.db"
    command = [sys.executable, "-m", "schedule_sm", "demo", "--store", str(store)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)
    return run, store


@pytest.fixture
def copy(played: tuple[subprocess.CompletedProcess[str], Path], tmp_path: Path) -> Path:
    copied = tmp_path / "copy.db"
    with closing(sqlite3.connect(played[1])) as source, closing(sqlite3.connect(copied)) as target:
        source.backup(target)
    return copied


def broken(path: Path, statement: str) -> set[str]:
    """Return the promises that are not kept once ``statement`` has been run on the file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    return {check.promise for check in checks(path) if not check.kept}


def test_demo_keeps_every_promise_and_prints_plain_lines_in_a_pipe(
    played: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    run, _ = played
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    assert "\x1b" not in run.stdout
    assert run.stdout.count("kept   ") == 7
    assert "BROKEN" not in run.stdout
    assert "schedule-1 --create--> armed" in run.stdout
    assert "schedule-3 --refused--> awaiting_admission" in run.stdout


def test_checks_pass_on_an_untouched_copy(copy: Path) -> None:
    assert broken(copy, "SELECT 1") == set()


@pytest.mark.parametrize(
    ("statement", "promise"),
    [
        (
            "UPDATE events SET time = time - 5000 WHERE body LIKE '%dispatch%' AND type = 'schedule/change'",
            "none came early",
        ),
        (
            "UPDATE events SET body = replace(body, 'schedule-1', 'schedule-2') WHERE type = 'inbox/message'",
            "the deleted one never came",
        ),
        (
            "UPDATE events SET type = 'other' WHERE type = 'turn/ended'",
            "every reminder had its turn",
        ),
        (
            "UPDATE events SET type = 'other' WHERE body LIKE '%\"dispatch\"%' AND body LIKE '%schedule-4%'",
            "each was dispatched once, with one message",
        ),
    ],
)
def test_checks_fail_on_a_log_that_breaks_a_promise(copy: Path, statement: str, promise: str) -> None:
    assert promise in broken(copy, statement)


def test_demo_refuses_a_store_that_exists(tmp_path: Path) -> None:
    store = tmp_path / "taken.db"
    store.touch()
    command = [sys.executable, "-m", "schedule_sm", "demo", "--store", str(store)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert run.returncode == 2
    assert "exists already" in run.stderr
    assert run.stderr.count("\n") == 1


def test_demo_in_a_place_that_is_not_there_is_one_line_with_its_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schedule_sm", "demo", "--store", str(tmp_path / "nowhere" / "x.db")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert run.returncode == 8
    assert run.stderr.count("\n") == 1
    assert "does not exist" in run.stderr
