"""What is wrong with a place: each fault has its class, its code and one line with the next step; nothing is harmed."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedule_sm.stores import held_lock, sqlite_file, sqlite_reader, sqlite_schema
from schedule_sm.stores.errors import (
    FolderMissingError,
    NewerSchemaError,
    NotADatabaseError,
    SessionUnknownError,
    StoreBusyError,
    StoreError,
    StoreIOError,
    StoreLinkedError,
    StoreLockedError,
    StoreMissingError,
    StoreReadOnlyError,
)
from schedule_sm.stores.protocol import Append, Outcome
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.stores.sqlite_file import wal_of
from schedule_sm.testing.store_contract import NOW_MS, append_of, stored_event


async def refused(path: Path, kind: type[Exception]) -> Exception:
    with pytest.raises(kind) as caught:
        await SqliteStore.open(path)
    assert "\n" not in str(caught.value)
    assert not list(path.parent.glob("*.holder"))
    return caught.value


@pytest.mark.asyncio
async def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam, this is no database at all.")
    error = await refused(path, NotADatabaseError)
    assert error.code == "not_a_database"
    assert os.listdir(tmp_path) == ["letter.txt"]
    assert path.read_text().startswith("Dear")
    with pytest.raises(NotADatabaseError):
        SqliteStore.open_read_only(path)
    await refused(tmp_path, NotADatabaseError)
    with pytest.raises(NotADatabaseError):
        SqliteStore.open_read_only(tmp_path)


@pytest.mark.asyncio
async def test_a_damaged_header_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 500)
    await refused(path, NotADatabaseError)


@pytest.mark.asyncio
async def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE photos (x)")
    other.commit()
    before = path.read_bytes()
    error = await refused(path, NotADatabaseError)
    assert "another program" in str(error)
    assert path.read_bytes() == before
    other.close()


@pytest.mark.asyncio
async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await (await SqliteStore.open(path)).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    error = await refused(path, NewerSchemaError)
    assert (error.found, error.known) == (99, sqlite_schema.SCHEMA_VERSION)
    with pytest.raises(NewerSchemaError):
        SqliteStore.open_read_only(path)


@pytest.mark.asyncio
async def test_a_missing_folder_or_file_is_named(tmp_path: Path) -> None:
    error = await refused(tmp_path / "no" / "a.db", FolderMissingError)
    assert str(tmp_path / "no") in str(error)
    with pytest.raises(FolderMissingError):
        SqliteStore.open_read_only(tmp_path / "no" / "a.db")
    with pytest.raises(StoreMissingError):
        SqliteStore.open_read_only(tmp_path / "a.db")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("which", ["a.db", ""])
@pytest.mark.asyncio
async def test_a_read_only_file_or_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    (tmp_path / "a.db").touch()
    allowed = os.access  # the tests may run as root, to whom permissions mean nothing
    monkeypatch.setattr(
        sqlite_file.os, "access", lambda path, mode: Path(path) != tmp_path / which and allowed(path, mode)
    )
    error = await refused(tmp_path / "a.db", StoreReadOnlyError)
    assert str(tmp_path / which) in str(error)


@pytest.mark.asyncio
async def test_a_second_host_is_told_who_holds_the_file(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    with pytest.raises(StoreLockedError) as caught:
        await SqliteStore.open(tmp_path / "a.db")
    assert caught.value.pid == os.getpid()
    assert caught.value.since_ms is not None
    assert f"process {os.getpid()} since 20" in str(caught.value)
    for garbage in ("garbage", '{"pid": 1, "since": 1e300}', '{"pid": 1, "since": 999999999999999999}'):
        (tmp_path / "a.db.holder").write_text(garbage)
        with pytest.raises(StoreLockedError, match="another host"):
            await SqliteStore.open(tmp_path / "a.db")
    await store.close()
    await (await SqliteStore.open(tmp_path / "a.db")).close()


HOLD_AND_DIE = """
import asyncio, os, signal, sys
from schedule_sm.stores.protocol import Outcome
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.store_contract import NOW_MS, append_of
async def main():
    store = await SqliteStore.open(sys.argv[1])
    info = await store.acquire("s", NOW_MS)
    await store.append([append_of(info, 2, wake_at=1)])
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_crash_drops_the_lock_and_keeps_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    ended = subprocess.run([sys.executable, "-c", HOLD_AND_DIE, str(path)], check=False)  # noqa: ASYNC221 - nothing else runs
    assert ended.returncode == -9
    with SqliteStore.open_read_only(path) as reader:
        assert reader.session("s").next_seq == 2
    store = await SqliteStore.open(path)
    info = await store.acquire("s", NOW_MS)
    assert (info.epoch, info.next_seq, info.wake_at) == (2, 2, 1)
    await store.close()


@pytest.mark.asyncio
async def test_files_are_private_and_an_exposed_one_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    info = await store.acquire("s", NOW_MS)
    await store.append([append_of(info)])
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in list(tmp_path.iterdir())}  # noqa: ASYNC240
    assert set(modes.values()) == {0o600}, modes
    await store.close()
    (tmp_path / "a.db").chmod(0o644)
    with caplog.at_level(logging.WARNING):
        await (await SqliteStore.open(tmp_path / "a.db")).close()
    assert "chmod 600" in caplog.text


@pytest.mark.asyncio
async def test_migrations_run_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    await (await SqliteStore.open(path)).close()
    version = sqlite_schema.SCHEMA_VERSION
    versions = [*sqlite_schema.MIGRATIONS, ("CREATE TABLE extra (x) STRICT", "CREATE TABLE extra (x) STRICT")]
    monkeypatch.setattr(sqlite_schema, "MIGRATIONS", tuple(versions))
    monkeypatch.setattr(sqlite_schema, "SCHEMA_VERSION", version + 1)
    with pytest.raises(Exception, match="cannot be used"):
        await SqliteStore.open(path)
    tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'extra'"
    plain = sqlite3.connect(path)
    assert plain.execute(tables).fetchone() == (0,)
    assert plain.execute("PRAGMA user_version").fetchone() == (version,)
    versions[-1] = ("CREATE TABLE extra (x TEXT) STRICT",)
    monkeypatch.setattr(sqlite_schema, "MIGRATIONS", tuple(versions))
    await (await SqliteStore.open(path)).close()
    assert plain.execute(tables).fetchone() == (1,)
    assert plain.execute("PRAGMA user_version").fetchone() == (version + 1,)
    plain.close()


@pytest.mark.asyncio
async def test_a_fresh_file_has_no_sessions_for_a_reader(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    with SqliteStore.open_read_only(tmp_path / "a.db") as reader:
        assert reader.sessions() == []
        with pytest.raises(SessionUnknownError):
            reader.session("s")


@pytest.mark.asyncio
async def test_a_file_whose_folder_cannot_be_written_is_read_without_its_wal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    store = await SqliteStore.open(path)
    info = await store.acquire("s", NOW_MS)
    await store.append([append_of(info, 2)])
    await store.close()
    opened = sqlite3.connect
    asked: list[str] = []

    def connect(name: str, **options: Any) -> sqlite3.Connection:
        asked.append(name)
        if name.endswith("mode=ro"):
            raise sqlite3.OperationalError("unable to open database file")
        return opened(name, **options)

    monkeypatch.setattr(sqlite_reader.sqlite3, "connect", connect)
    with SqliteStore.open_read_only(path) as reader:
        assert len(list(reader.events("s"))) == 2
    assert asked[-1].endswith("immutable=1")
    (tmp_path / "a.db-wal").write_bytes(b"not empty")
    with pytest.raises(StoreError):
        SqliteStore.open_read_only(path)


@pytest.mark.asyncio
async def test_damage_in_the_middle_is_an_error_for_readers_and_for_the_store(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = await SqliteStore.open(path)
    info = await store.acquire("s", NOW_MS)
    await store.append([append_of(info, 2_000)])
    await store.close()
    content = bytearray(path.read_bytes())
    content[6 * 4096 : -2 * 4096] = b"\xff" * (len(content) - 8 * 4096)
    path.write_bytes(content)
    with SqliteStore.open_read_only(path) as reader, pytest.raises(StoreError):
        list(reader.events("s"))
    store = await SqliteStore.open(path)
    with pytest.raises(StoreError, match="check the disk"):
        await store.read("s")
    await store.close()


@pytest.mark.parametrize("number", [28, 30, 5])
@pytest.mark.asyncio
async def test_what_the_system_refuses_while_opening_is_named_and_nothing_stays_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(sqlite_file, "_create_private", refuse)
        with pytest.raises(StoreError) as caught:
            await SqliteStore.open(tmp_path / "a.db")
    assert caught.value.code == {28: "disk_full", 30: "read_only", 5: "store_io"}[number]
    with monkeypatch.context() as patched:
        patched.setattr(held_lock.FileLock, "acquire", refuse)
        with pytest.raises(StoreError):
            await SqliteStore.open(tmp_path / "a.db")
    await (await SqliteStore.open(tmp_path / "a.db")).close()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.asyncio
async def test_symbolic_link_to_a_store_has_its_lock(tmp_path: Path) -> None:
    """Two names of one file with a lock each would let a second host take the first one's sessions over."""
    file, link = tmp_path / "a.db", tmp_path / "b.db"
    store = await SqliteStore.open(file)
    link.symlink_to(file)
    with pytest.raises(StoreLockedError):
        await SqliteStore.open(link)
    with SqliteStore.open_read_only(link) as reader:
        assert reader.sessions() == []
    await store.close()
    assert not [name for name in names_in(tmp_path) if name.startswith("b.db.")]


@pytest.mark.asyncio
async def test_reading_a_file_that_nobody_uses_leaves_nothing_beside_it(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    await store.acquire("main", 0)
    await store.close()
    before = names_in(tmp_path)
    with SqliteStore.open_read_only(tmp_path / "a.db") as reader:
        assert reader.sessions() == []
    assert names_in(tmp_path) == before


@pytest.mark.asyncio
async def test_second_hard_link_to_a_store_is_refused(tmp_path: Path) -> None:
    """The lock and the WAL go by the name: two hosts would write one file."""
    file, link = tmp_path / "a.db", tmp_path / "b.db"
    store = await SqliteStore.open(file)
    link.hardlink_to(file)
    error = await refused_under(link)
    assert "hard link" in str(error)
    await store.close()
    await refused_under(file)
    link.unlink()
    await (await SqliteStore.open(file)).close()


async def refused_under(path: Path) -> StoreLinkedError:
    with pytest.raises(StoreLinkedError) as caught:
        await SqliteStore.open(path)
    return caught.value


READ_AND_LEAVE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM events").fetchone()[0])
connection.close()
"""


@pytest.mark.parametrize("look", [SqliteStore.open, SqliteStore.open_read_only])
@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_second_look_at_the_file_in_the_host_s_process_keeps_the_engine_s_locks(
    tmp_path: Path, look: Any
) -> None:
    """Without them the next program that reads the file deletes the WAL, and with it what is confirmed later."""
    path = tmp_path / "a.db"
    store = await SqliteStore.open(path)
    info = await store.acquire("s", NOW_MS)
    assert list(await store.append([append_of(info, 2)])) == [Outcome.COMMITTED]
    if look == SqliteStore.open:
        with pytest.raises(StoreLockedError):
            await SqliteStore.open(path)
    else:
        SqliteStore.open_read_only(path).close()
    other = subprocess.run([sys.executable, "-c", READ_AND_LEAVE, str(path)], capture_output=True, check=True)  # noqa: ASYNC221 - nothing else runs
    assert other.stdout == b"2\n"
    assert os.path.exists(f"{path}-wal")  # noqa: ASYNC240 - as above
    await store.close()


@pytest.mark.parametrize("lost", ["-wal", ""])
@pytest.mark.asyncio
async def test_what_is_written_behind_the_back_of_a_name_is_never_confirmed(
    tmp_path: Path, lost: str
) -> None:
    path = tmp_path / "a.db"
    store = await SqliteStore.open(path)
    info = await store.acquire("s", NOW_MS)
    assert list(await store.append([append_of(info, 2)])) == [Outcome.COMMITTED]
    os.unlink(f"{path}{lost}")
    later = append_of(replace(info, next_seq=2), 1)
    assert list(await store.append([later])) == [Outcome.UNKNOWN]
    again = list(await store.append([later]))
    if lost:
        assert again == [Outcome.COMMITTED], "the WAL was saved into the database"
        with SqliteStore.open_read_only(path) as reader:
            assert reader.session("s").next_seq == 3
    else:
        assert again == [Outcome.UNKNOWN], "there is no file any more"
    await store.close()


@pytest.mark.asyncio
async def test_a_file_put_in_place_of_the_store_s_is_not_taken_for_it(tmp_path: Path) -> None:
    path, other = tmp_path / "a.db", tmp_path / "b.db"
    store = await SqliteStore.open(path)
    info = await store.acquire("s", NOW_MS)
    assert list(await store.append([append_of(info, 2)])) == [Outcome.COMMITTED]
    await (await SqliteStore.open(other)).close()
    other.replace(path)
    later = append_of(replace(info, next_seq=2), 1)
    assert list(await store.append([later])) == [Outcome.UNKNOWN]
    assert list(await store.append([later])) == [Outcome.UNKNOWN]
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as found:
        assert found.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
    found.close()
    await store.close()


@pytest.mark.asyncio
async def test_a_close_that_was_cancelled_waits_no_longer_for_another_programs_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = await SqliteStore.open(path, busy_timeout_ms=60_000)
    info = await store.acquire("s", NOW_MS)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(store.append([append_of(info)]))
    closing = asyncio.ensure_future(store.close())
    await asyncio.wait({closing}, timeout=0.1)  # the commit waits for the lock by now
    closing.cancel()
    assert await writing == [Outcome.UNKNOWN]
    thread = store._groups._thread._thread
    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()
    assert store._connection is None
    other.close()
    await (await SqliteStore.open(path)).close()


@pytest.mark.asyncio
async def test_a_checkpoint_cut_off_anywhere_leaves_a_file_that_can_be_read_and_opened(
    tmp_path: Path,
) -> None:
    live, killed = tmp_path / "live.db", tmp_path / "killed.db"
    store = await SqliteStore.open(live)
    info = await store.acquire("s", NOW_MS)
    for seq in range(10):
        event = stored_event(seq, {"text": "x" * 9_000})
        assert await store.append([Append("s", info.epoch, seq, (event,), None)]) == [Outcome.COMMITTED]
    before, log = live.read_bytes(), live.with_name("live.db-wal").read_bytes()
    await store.close()  # the engine checkpoints, from the first page on
    after = live.read_bytes()
    page = 4_096
    assert len(after) > len(before) + page
    for end in range(page, len(after), page):
        killed.write_bytes(after[:end] + before[end:])
        killed.with_name("killed.db-wal").write_bytes(log)
        with SqliteStore.open_read_only(killed) as reader:
            assert len(list(reader.events("s"))) == 10
        again = await SqliteStore.open(killed)
        assert len(await again.read("s")) == 10
        await again.close()


@pytest.mark.asyncio
async def test_a_file_cut_short_without_its_wal_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await (await SqliteStore.open(path)).close()
    for beside in (tmp_path / "a.db.lock", tmp_path / "a.db.holder"):
        beside.unlink(missing_ok=True)
    cut = path.read_bytes()[:4_096]
    path.write_bytes(cut)
    await refused(path, StoreIOError)
    assert (os.listdir(tmp_path), path.read_bytes()) == (["a.db"], cut)
    with pytest.raises(StoreIOError):
        SqliteStore.open_read_only(path)


@pytest.mark.asyncio
async def test_a_reader_of_an_idle_file_says_that_a_host_has_begun_to_write_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def write(count: int) -> None:
        store = await SqliteStore.open(path)
        info = await store.acquire("s", NOW_MS)
        events = tuple(stored_event(info.next_seq + n, {"text": "x" * 3_000}) for n in range(count))
        assert await store.append([Append("s", info.epoch, info.next_seq, events, None)]) == [
            Outcome.COMMITTED
        ]
        await store.close()

    await write(40)
    with SqliteStore.open_read_only(path) as reader:
        info = reader.session("s")
        await write(400)
        with pytest.raises(StoreBusyError, match="another program is writing"):
            list(reader.events(info.id))
        with pytest.raises(StoreBusyError):
            reader.damage()
    with SqliteStore.open_read_only(path) as reader:
        assert (len(list(reader.events("s"))), reader.damage()) == (440, [])


@pytest.mark.asyncio
async def test_a_reader_of_an_idle_file_never_mixes_what_it_held_before_and_after_a_write(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"

    async def write(session_ids: Iterable[str], count: int) -> None:
        store = await SqliteStore.open(path)
        for session_id in session_ids:
            info = await store.acquire(session_id, NOW_MS)
            events = tuple(stored_event(info.next_seq + n, {}) for n in range(count))
            append = Append(session_id, info.epoch, info.next_seq, events, None)
            assert await store.append([append]) == [Outcome.COMMITTED]
        await store.close()

    await write(["s"], 5)
    with SqliteStore.open_read_only(path) as reader:
        assert [info.next_seq for info in reader.sessions()] == [5]
        await write(["s"], 3)
        with pytest.raises(StoreBusyError):
            next(reader.events("s"))  # whoever stops early is handed nothing of it either
    await write((f"s{n:03}" for n in range(100)), 1)
    with SqliteStore.open_read_only(path) as reader:
        assert reader.session("s").next_seq == 8
        await write((f"other{n:03}" for n in range(400)), 1)
        for read in (
            reader.sessions,
            reader.damage,
            lambda: reader.session("s"),
            lambda: reader.session("no"),
        ):
            with pytest.raises(StoreBusyError):
                read()


@pytest.mark.asyncio
async def test_a_host_that_has_written_nothing_into_an_idle_file_hides_no_damage_of_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"
    store = await SqliteStore.open(path)
    info = await store.acquire("s", NOW_MS)
    events = tuple(stored_event(n, {"text": "x" * 500}) for n in range(200))
    assert await store.append([Append("s", info.epoch, 0, events, None)]) == [Outcome.COMMITTED]
    await store.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:40_960] + b"\xff" * 4_096 + whole[45_056:])
    with SqliteStore.open_read_only(path) as reader:
        with pytest.raises(StoreIOError):
            reader.damage()
        store = await SqliteStore.open(path)
        await store.acquire("t", NOW_MS)
        assert wal_of(path).exists()
        with pytest.raises(StoreIOError):
            reader.damage()
        await store.close()
