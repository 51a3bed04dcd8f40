"""Store faults: one line on stderr with the next step, its own exit code, no traceback, nothing left behind."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.clock import wall_ms
from schedule_sm.stores import sqlite_import
from schedule_sm.stores.sqlite_file import HeldFile
from schedule_sm.stores.sqlite_schema import APPLICATION_ID
from tests.cli.running import Ran, run, stored, write_store
from tests.core.logs import create, log


def one_line(ran: Ran, code: ExitCode, *said: str) -> None:
    assert ran.code == code, ran
    assert ran.err.count("\n") == 1, ran.err
    assert ran.err.startswith("schedule-sm: ")
    for part in said:
        assert part in ran.err


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "agent.db", {"main": stored(log(create("schedule-1")))})


READERS = ("inspect", "verify", "export")


def _newer(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    path.chmod(0o600)


def _others(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE cats (name)")
    connection.close()
    path.chmod(0o600)


@pytest.mark.parametrize("command", [*READERS, "chat"])
@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (lambda path: path.write_text("hello"), ExitCode.NOT_A_DATABASE, "name another file"),
        (lambda path: path.mkdir(), ExitCode.NOT_A_DATABASE, "it is a folder"),
        (_others, ExitCode.NOT_A_DATABASE, "another program"),
        (_newer, ExitCode.NEWER_SCHEMA, "upgrade schedule-sm"),
    ],
)
def test_wrong_file_is_named_and_left_alone(
    tmp_path: Path, command: str, make: Callable[[Path], object], code: ExitCode, said: str
) -> None:
    path = tmp_path / "x.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    arguments = ("--store", path) if command == "chat" else (path,)
    one_line(run(command, *arguments), code, str(path), said)
    assert not path.is_file() or path.read_bytes() == before


@pytest.mark.parametrize("command", READERS)
def test_missing_file_and_missing_folder_are_told_apart(tmp_path: Path, command: str) -> None:
    one_line(run(command, tmp_path / "no.db"), ExitCode.STORE_MISSING, "does not exist")
    one_line(run(command, tmp_path / "no" / "no.db"), ExitCode.FOLDER_MISSING, str(tmp_path / "no"))
    assert list(tmp_path.iterdir()) == []


def test_chat_in_a_missing_folder_creates_nothing(tmp_path: Path) -> None:
    one_line(run("chat", "--store", tmp_path / "no" / "x.db"), ExitCode.FOLDER_MISSING, "create it first")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", READERS)
def test_unknown_session_is_answered_with_the_nearest_ids(store: Path, command: str) -> None:
    one_line(
        run(command, store, "--session", "mian"), ExitCode.SESSION_UNKNOWN, "'mian'", "did you mean 'main'?"
    )


def test_locked_store_names_the_process_and_since_when(store: Path) -> None:
    held = HeldFile(store, wall_ms())
    try:
        one_line(run("chat", "--store", store), ExitCode.LOCKED, f"process {os.getpid()}", " since 20")
        one_line(
            run("import", store, "-", stdin=b'{"format":"schedule-sm/export","version":1,"sessions":0}\n'),
            ExitCode.LOCKED,
        )
        link = store.with_name("link.db")
        link.symlink_to(store)
        empty = b'{"format":"schedule-sm/export","version":1,"sessions":0}\n'
        one_line(run("import", link, "-", stdin=empty), ExitCode.LOCKED)
        assert run("inspect", store).code == ExitCode.OK
        assert run("verify", store).code == ExitCode.OK
        assert run("export", store).code == ExitCode.OK
    finally:
        held.release()


def test_place_that_cannot_be_written_is_read_only(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # the tests may run as root
    one_line(run("chat", "--store", store), ExitCode.READ_ONLY, str(store), "write permission")
    one_line(run("chat", "--store", store.parent / "new.db"), ExitCode.READ_ONLY, str(store.parent))


def test_store_with_a_second_hard_link_is_refused(store: Path) -> None:
    store.with_name("second.db").hardlink_to(store)
    one_line(run("chat", "--store", store), ExitCode.LINKED, "hard link", "remove that name")
    assert run("inspect", store).code == ExitCode.OK


@pytest.mark.parametrize("command", READERS)
def test_file_that_cannot_be_read_is_told_so(
    store: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    one_line(run(command, store), ExitCode.READ_ONLY, "read permission")


@pytest.mark.parametrize(
    ("sqlite_code", "code"),
    [
        (sqlite3.SQLITE_FULL, ExitCode.DISK_FULL),
        (sqlite3.SQLITE_BUSY, ExitCode.BUSY),
        (sqlite3.SQLITE_IOERR, ExitCode.STORE_IO),
    ],
)
def test_import_that_the_engine_fails_leaves_no_database(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch, sqlite_code: int, code: ExitCode
) -> None:
    source = tmp_path / "x.jsonl"
    assert run("export", store, "--out", source).code == ExitCode.OK

    def fail(*_: object, **__: object) -> None:
        error = sqlite3.OperationalError("scripted")
        error.sqlite_errorcode = sqlite_code
        raise error

    monkeypatch.setattr(sqlite_import.rows, "apply", fail)
    target = tmp_path / "copy.db"
    one_line(run("import", target, source), code, str(target))
    assert not target.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_full_disk_behind_stdout_is_no_internal_error(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_line(run("export", store, "--out", "/dev/full"), ExitCode.FAILED, "exists")


@pytest.mark.parametrize("session", ["", "\udcff"])
def test_session_id_that_is_no_text_is_a_usage_error(store: Path, session: str) -> None:
    one_line(run("inspect", store, "--session", session), ExitCode.USAGE, "--help`")
    one_line(run("chat", "--store", store, "--session", session), ExitCode.USAGE)


def test_path_that_is_no_text_can_be_read(store: Path) -> None:
    odd = store.rename(store.with_name("a\udcff%?#.db"))
    assert "1 overdue" in run("inspect", odd).out + run("inspect", odd).err
