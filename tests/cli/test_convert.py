"""``convert``: the same sessions in the other kind of store, or nothing."""

from __future__ import annotations

import io
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from schedule_sm.cli import convert as convert_module
from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.stores import jsonl_transfer
from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.jsonl_reader import JsonlReader
from schedule_sm.stores.protocol import Append, NewSession, SessionInfo, StoredEvent
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.stores.sqlite_import import NewRows, import_sessions
from schedule_sm.stores.sqlite_reader import SqliteReader
from schedule_sm.testing.store_contract import NOW_MS
from tests.cli.running import run, stored, write_store
from tests.core.logs import create, delete, log

Everything = list[tuple[SessionInfo, tuple[StoredEvent, ...]]]


def everything(path: Path) -> Everything:
    """Return all that a store holds: what must not be lost."""
    with JsonlReader(path) if path.is_dir() else SqliteReader(path) as reader:
        return [(info, tuple(reader.events(info.id))) for info in reader.sessions()]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    hard = log(create("schedule-1", prompt="nul \0 lone \ud83d Grüße\u2028 end"), "x/y")
    hard.append({"seq": 2, "type": 'q"\\', "time": 0, "data": [30.0, 2**70, None, {"a": "\x7f"}]})
    write_store(path, {"main": stored(hard, [5, -6, 7]), "Main": stored(log(create("schedule-1")))})
    fork = stored(log(create("schedule-1"), "session/end-seed"))
    append = Append("../ü", 0, 0, fork, None, header=NewSession(2, "main"))
    import_sessions(path, [NewRows(append, NOW_MS)], 0)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE sessions SET epoch = 41 WHERE id = 'main'")
        connection.execute("UPDATE events SET body = '[30.0,  1e3]' WHERE type = 'q\"\\'")
    connection.close()
    return path


def test_there_and_back_again_nothing_is_lost(database: Path) -> None:
    before = everything(database)
    folder, back = database.with_name("sessions"), database.with_name("back.db")
    ran = run("convert", database, folder)
    assert (ran.code, ran.out, ran.err) == (0, f"converted 3 sessions with 6 events into {folder}\n", "")
    assert everything(folder) == before
    assert run("convert", folder, back).code == ExitCode.OK
    assert everything(back) == before == everything(database)
    assert run("export", back).out == run("export", database).out
    assert run("verify", back).code == ExitCode.OK
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [back, *folder.iterdir()]}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not [path.name for path in database.parent.iterdir() if path.name.startswith(".")]


@pytest.mark.asyncio
async def test_a_host_goes_on_with_what_was_converted(database: Path) -> None:
    folder, back = database.with_name("sessions"), database.with_name("back.db")
    run("convert", database, folder)
    run("convert", folder, back)
    for store in (await JsonlStore.open(folder), await SqliteStore.open(back)):
        info = await store.acquire("main", NOW_MS)
        assert (info.epoch, info.next_seq) == (42, 3)
        assert len(await store.live()) == 2
        await store.close()


def test_empty_targets_are_filled_and_others_left_alone(database: Path) -> None:
    folder, back = database.with_name("sessions"), database.with_name("back.db")
    folder.mkdir()
    assert run("convert", database, folder).code == ExitCode.OK
    back.touch()
    assert run("convert", folder, back).code == ExitCode.OK
    for source, target in ((database, folder), (database, back), (folder, database), (folder, folder)):
        before = everything(target)
        ran = run("convert", source, target)
        assert (ran.code, ran.out) == (ExitCode.IMPORT_REFUSED, "")
        assert ran.err == (
            f"schedule-sm: {target} is there already; nothing was written, name a place that is not\n"
        )
        assert everything(target) == before
    new = database.with_name("new.db")
    Path(f"{new}-wal").write_bytes(b"of an earlier database")
    assert run("convert", folder, new).code == ExitCode.IMPORT_REFUSED
    assert not new.exists()
    link = database.with_name("link")
    link.symlink_to(database.with_name("nowhere"))
    assert run("convert", database, link).code == ExitCode.IMPORT_REFUSED


def test_what_is_wrong_with_a_place_is_one_line_and_a_code(database: Path, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear Sir")
    (tmp_path / "other").mkdir()
    for source, target, code in (
        (tmp_path / "none", tmp_path / "x", ExitCode.STORE_MISSING),
        (tmp_path / "no" / "none", tmp_path / "x", ExitCode.FOLDER_MISSING),
        (tmp_path / "letter", tmp_path / "x", ExitCode.NOT_A_DATABASE),
        (tmp_path / "other", tmp_path / "x", ExitCode.NOT_A_DATABASE),
        (database, tmp_path / "no" / "x", ExitCode.FOLDER_MISSING),
    ):
        ran = run("convert", source, target)
        assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1), ran.err
        assert not (tmp_path / "x").exists()


def test_an_unsound_source_writes_nothing(database: Path) -> None:
    folder = database.with_name("sessions")
    bad = write_store(database.with_name("bad.db"), {"s": stored(log(delete("schedule-1")))}, wake_at=None)
    ran = run("convert", bad, folder)
    assert ran.code == ExitCode.IMPORT_REFUSED
    assert "is not sound, nothing was written: session 's', event 0: delete of 'schedule-1'" in ran.err
    assert ran.err.count("\n") == 1
    assert not folder.exists()
    run("convert", database, folder)
    file = folder / "main.jsonl"
    file.write_bytes(file.read_bytes().replace(b"schedule-1", b"schedule-2", 1))
    ran = run("convert", folder, database.with_name("x.db"))
    assert (ran.code, ran.out) == (ExitCode.STORE_IO, "")
    assert "main.jsonl is damaged in line 2 at byte " in ran.err
    assert not database.with_name("x.db").exists()


@pytest.mark.parametrize("to_folder", [True, False])
def test_a_failure_on_the_way_leaves_nothing(
    database: Path, to_folder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = database.with_name("sessions")
    run("convert", database, folder)
    target = database.with_name("target")
    source = database if to_folder else folder
    before = sorted(path.name for path in database.parent.iterdir())
    events = (JsonlReader if not to_folder else SqliteReader).events
    count = 0

    def failing(*arguments: object) -> object:
        nonlocal count
        count += 1
        if count > 4:  # three were verified
            raise OSError(28, "No space left on device")
        return events(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(JsonlReader if not to_folder else SqliteReader, "events", failing)
        ran = run("convert", source, target)
    assert (ran.code, ran.out) == (ExitCode.DISK_FULL, "")
    left = sorted(path.name for path in database.parent.iterdir())
    assert left in (before, sorted([*before, "target.lock"]))
    assert run("convert", source, target).code == ExitCode.OK


KILLED = """
import os, signal, sys
from schedule_sm.cli import app, convert
count = 0
def killing(events, advance):
    global count
    for event in events:
        count += 1
        if count == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        yield event
convert._counted = killing
app.main(["convert", sys.argv[1], sys.argv[2]])
"""


@pytest.mark.slow
@pytest.mark.parametrize("to_folder", [True, False])
def test_a_kill_leaves_no_half_store_and_the_next_try_succeeds(database: Path, to_folder: bool) -> None:
    folder, target = database.with_name("sessions"), database.with_name("target")
    run("convert", database, folder)
    source = database if to_folder else folder
    ended = subprocess.run([sys.executable, "-c", KILLED, str(source), str(target)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not target.exists() or not target.stat().st_size
    assert run("convert", source, target).code == ExitCode.OK
    assert everything(target) == everything(database)


def test_many_events_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_transfer, "_AT_ONCE", 7)
    events = tuple(StoredEvent(seq, "note", seq, "null") for seq in range(50))
    database = write_store(tmp_path / "a.db", {"s": events})
    assert run("convert", database, tmp_path / "folder").code == ExitCode.OK
    assert run("convert", tmp_path / "folder", tmp_path / "b.db").code == ExitCode.OK
    assert everything(tmp_path / "b.db") == everything(database) == everything(tmp_path / "folder")


def test_a_miscounted_session_is_refused(tmp_path: Path) -> None:
    info = SessionInfo("s", seed_length=0, parent=None, epoch=1, next_seq=2, wake_at=None, created_at=0)
    for write in (
        lambda: jsonl_transfer.write_folder(tmp_path / "a", [(info, ())]),
        lambda: jsonl_transfer.write_database(tmp_path / "b", [(info, ())], 0),
    ):
        with pytest.raises(Exception, match="has 0 events, expected 2"):
            write()
    assert everything_written(tmp_path) == []
    jsonl_transfer.write_folder(tmp_path / "c", [(replace(info, next_seq=0, wake_at=5), ())])
    with JsonlReader(tmp_path / "c") as reader:
        assert reader.session("s").wake_at == 5


def everything_written(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.endswith(".lock")]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_is_drawn_on_a_terminal_only(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        patched.setenv("TERM", "xterm")
        with convert_module._progress("verifying", 3) as advance:
            for _ in range(3):
                advance()
    assert "verifying" in terminal.getvalue()
    assert "3/3" in terminal.getvalue()
    assert run("convert", database, database.with_name("x")).err == ""


def test_a_folder_that_may_not_be_read_is_named(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = database.with_name("sessions")
    run("convert", database, folder)
    allowed = os.access  # the tests may run as root, to whom permissions mean nothing
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder and allowed(path, mode))
    ran = run("convert", folder, database.with_name("x.db"))
    assert (ran.code, ran.err) == (
        ExitCode.READ_ONLY,
        f"schedule-sm: {folder} cannot be read; give this user read permission to it\n",
    )


def test_debug_shows_where(database: Path) -> None:
    ran = run("--debug", "convert", database, database.parent)
    assert ran.code == ExitCode.IMPORT_REFUSED
    assert ran.err.startswith("Traceback")
    assert "TargetTakenError" in ran.err
