"""What the SQLite store adds to the contract: group commit, faults, retries that are safe, reading beside a host."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from schedule_sm.stores import sqlite as sqlite_store
from schedule_sm.stores import sqlite_rows
from schedule_sm.stores.errors import DiskFullError, SessionUnknownError, StoreBusyError
from schedule_sm.stores.failpoints import set_failpoint_hook
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.protocol import Append, Outcome, SessionInfo
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.store_contract import NOW_MS, append_of, stored_event


@pytest.fixture
def at_failpoint() -> Iterator[Callable[[str, Callable[[], None]], None]]:
    """``at_failpoint(name, act)``: call ``act()`` there."""
    acts: dict[str, Callable[[], None]] = {}
    set_failpoint_hook(lambda name: acts.get(name, lambda: None)())
    yield acts.__setitem__
    set_failpoint_hook(None)


def once(act: Callable[[], None]) -> Callable[[], None]:
    """Return ``act`` for the first call, nothing for the later ones."""
    left = [act]
    return lambda: left.pop()() if left else None


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


async def one(store: SqliteStore, append: Append) -> Outcome:
    return (await store.append([append]))[0]


@pytest.mark.asyncio
async def test_a_thousand_barriers_at_once_need_few_commits(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db", synchronous="NORMAL")
    infos = await asyncio.gather(*(store.acquire(f"s{n}", NOW_MS) for n in range(1_000)))
    before = store.statistics().commits
    outcomes = await asyncio.gather(*(one(store, append_of(info)) for info in infos))
    assert set(outcomes) == {Outcome.COMMITTED}
    assert store.statistics().commits - before <= 20
    await store.close()


@pytest.mark.asyncio
async def test_what_comes_while_a_commit_runs_goes_into_the_next_one(tmp_path: Path, at_failpoint) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    infos = [await store.acquire(f"s{n}", NOW_MS) for n in range(30)]
    entered, leave = threading.Event(), threading.Event()
    at_failpoint("begin.after", once(lambda: (entered.set(), leave.wait(10))))
    first = asyncio.ensure_future(one(store, append_of(infos[0])))
    while not entered.is_set():  # noqa: ASYNC110 - a thread sets it
        await asyncio.sleep(0)
    others = [asyncio.ensure_future(one(store, append_of(info))) for info in infos[1:]]
    before = store.statistics().commits
    await asyncio.sleep(0)
    leave.set()
    assert await first is Outcome.COMMITTED
    assert set(await asyncio.gather(*others)) == {Outcome.COMMITTED}
    assert store.statistics().commits - before == 2
    await store.close()


@pytest.mark.asyncio
async def test_nothing_to_write_is_no_commit(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    info = await store.acquire("s", NOW_MS)
    before = store.statistics().commits
    assert await one(store, Append("s", info.epoch, 0, (), None)) is Outcome.COMMITTED
    assert store.statistics().commits == before
    await store.close()


@pytest.mark.parametrize(
    ("place", "stored"),
    [("begin.before", 0), ("begin.after", 0), ("insert.after", 0), ("commit.before", 0), ("commit.after", 2)],
)
@pytest.mark.asyncio
async def test_a_fault_anywhere_is_unknown_and_safe_to_repeat(
    tmp_path: Path, at_failpoint, place: str, stored: int
) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    info = await store.acquire("s", NOW_MS)
    at_failpoint(place, once(failing(OSError(5, "Input/output error"))))
    append = append_of(info, 2, wake_at=4)
    assert await one(store, append) is Outcome.UNKNOWN
    assert store.last_fault is not None
    assert store.last_fault.code == "store_io"
    assert len(await store.read("s")) == stored
    assert await one(store, append) is Outcome.COMMITTED
    assert store.last_fault is None
    assert tuple(await store.read("s")) == append.events
    assert [info.wake_at for info in await store.live()] == [4]
    await store.close()


@pytest.mark.asyncio
async def test_an_owner_from_elsewhere_fences_the_writer(tmp_path: Path) -> None:
    """A file system that does not keep locks: another host raised the epoch."""
    store = await SqliteStore.open(tmp_path / "a.db")
    mine, other = await store.acquire("mine", NOW_MS), await store.acquire("other", NOW_MS)
    thief = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    thief.execute("UPDATE sessions SET epoch = epoch + 1 WHERE id = 'mine'")
    thief.close()
    assert list(await store.append([append_of(mine), append_of(other)])) == [
        Outcome.FENCED,
        Outcome.COMMITTED,
    ]
    await store.close()


@pytest.mark.asyncio
async def test_data_that_cannot_be_stored_harms_no_other_session(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    bad, good = await store.acquire("bad", NOW_MS), await store.acquire("good", NOW_MS)
    unstorable = append_of(bad, events=(stored_event(0)._replace(time=2**63),))
    outcomes = await asyncio.gather(one(store, unstorable), one(store, append_of(good)))
    assert outcomes == [Outcome.UNKNOWN, Outcome.COMMITTED]
    assert not await store.read("bad")
    await store.close()


@pytest.mark.asyncio
async def test_a_write_lock_held_elsewhere_is_unknown_until_it_ends(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db", busy_timeout_ms=1)
    info = await store.acquire("s", NOW_MS)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert await one(store, append_of(info)) is Outcome.UNKNOWN
    with pytest.raises(StoreBusyError, match="another program is writing"):
        await store.acquire("t", NOW_MS)
    other.execute("ROLLBACK")
    other.close()
    assert await one(store, append_of(info)) is Outcome.COMMITTED
    await store.acquire("t", NOW_MS)
    await store.close()


@pytest.mark.asyncio
async def test_a_full_disk_is_named_and_the_write_goes_through_when_there_is_room(
    tmp_path: Path, at_failpoint
) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    info = await store.acquire("s", NOW_MS)
    is_full = [True]

    def act() -> None:
        if is_full[0]:
            raise OSError(28, "No space left on device")

    at_failpoint("insert.before", act)
    assert await one(store, append_of(info)) is Outcome.UNKNOWN
    assert isinstance(store.last_fault, DiskFullError)
    is_full[0] = False
    assert await one(store, append_of(info)) is Outcome.COMMITTED
    await store.close()


def test_sqlites_own_faults_have_their_classes(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "full.db", isolation_level=None)
    connection.execute("CREATE TABLE t (x)")
    connection.execute("PRAGMA max_page_count = 3")
    with pytest.raises(sqlite3.OperationalError) as full:
        connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    connection.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError) as read_only:
        connection.execute("INSERT INTO t VALUES (1)")
    connection.close()
    assert fault_of(full.value, "x").code == "disk_full"
    assert fault_of(read_only.value, "x").code == "read_only"
    assert fault_of(OSError(13, "Permission denied"), "x").code == "read_only"
    assert fault_of(KeyError("x"), "x").code == "store_io"


@pytest.mark.asyncio
async def test_close_waits_for_the_running_commit_and_gives_everything_back(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    info = await store.acquire("s", NOW_MS)
    writing = asyncio.ensure_future(one(store, append_of(info, 5)))
    await asyncio.sleep(0)
    descriptors = len(os.listdir("/proc/self/fd"))
    await store.close()
    assert await writing is Outcome.COMMITTED
    assert len(os.listdir("/proc/self/fd")) < descriptors
    assert not [thread for thread in threading.enumerate() if "a.db" in thread.name and thread.join(5)]
    assert not (tmp_path / "a.db-wal").exists()


@pytest.mark.asyncio
async def test_close_leaves_a_hanging_write_behind(travel, tmp_path: Path, at_failpoint) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    info = await store.acquire("s", NOW_MS)
    entered, leave = threading.Event(), threading.Event()
    at_failpoint("commit.before", once(lambda: (entered.set(), leave.wait(20))))
    travel.loop.run_in_executor = _uncounted(travel.loop)  # the journey must not wait for what hangs
    writing = asyncio.ensure_future(one(store, append_of(info)))
    while not entered.is_set():  # noqa: ASYNC110 - a thread sets it
        await asyncio.sleep(0)
    closing = asyncio.ensure_future(store.close())
    await travel(9)
    assert not closing.done()
    await travel(2)
    assert closing.done()
    leave.set()
    assert await writing is Outcome.COMMITTED


def _uncounted(loop: asyncio.AbstractEventLoop) -> Callable[..., asyncio.Future[object]]:
    return lambda executor, job, *arguments: asyncio.SelectorEventLoop.run_in_executor(
        loop, executor, job, *arguments
    )


# -- reading ------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_file_in_use_is_read_as_it_was_at_the_opening(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    info = await store.acquire("s", NOW_MS)
    await store.acquire("empty", NOW_MS)
    assert await one(store, append_of(info, 3, wake_at=8)) is Outcome.COMMITTED
    with SqliteStore.open_read_only(tmp_path / "a.db") as reader:
        assert (
            await one(store, append_of(SessionInfo("s", 0, None, info.epoch, 3, 8, 0))) is Outcome.COMMITTED
        )
        assert [(found.id, found.next_seq, found.wake_at) for found in reader.sessions()] == [("s", 3, 8)]
        assert reader.session("s").created_at == NOW_MS
        assert [event.seq for event in reader.events("s", 0)] == [1, 2]
        assert not list(reader.events("s", types=("other",)))
        with pytest.raises(SessionUnknownError, match="did you mean 's'"):
            reader.session("ss")
    with SqliteStore.open_read_only(tmp_path / "a.db") as reader:
        assert len(list(reader.events("s"))) == 4
    await store.close()
    with SqliteStore.open_read_only(str(tmp_path / "a.db")) as reader:
        assert len(list(reader.events("s"))) == 4


@pytest.mark.asyncio
async def test_the_file_speaks_for_itself(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    info = await store.acquire("s", NOW_MS)
    body = json.dumps({"prompt": "\ud800\0é"})
    await one(
        store,
        append_of(info, events=(stored_event(0)._replace(body=body, type="schedule/change"),), wake_at=3),
    )
    await store.close()
    plain = sqlite3.connect(tmp_path / "a.db")
    assert plain.execute("SELECT * FROM events").fetchall() == [("s", 0, "schedule/change", NOW_MS, body)]
    assert body.isascii()
    strict = {
        row[1]: row[5]
        for row in plain.execute("PRAGMA table_list")
        if row[2] == "table" and not row[1].startswith("sqlite_")
    }
    assert strict == {"sessions": 1, "events": 1}
    assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    plain.close()
    assert stat.S_IMODE((tmp_path / "a.db").stat().st_mode) == 0o600


@pytest.mark.asyncio
async def test_durable_means_a_full_sync(tmp_path: Path) -> None:
    for synchronous, number in (("FULL", 2), ("NORMAL", 1)):
        store = await SqliteStore.open(tmp_path / f"{synchronous}.db", synchronous=synchronous)
        assert await store._read(lambda connection: connection.execute("PRAGMA synchronous").fetchone()) == (
            number,
        )
        await store.close()


async def append_many(store: SqliteStore, info: SessionInfo, seqs: range) -> None:
    for seq in seqs:
        append = Append("s", info.epoch, seq, (stored_event(seq),), None)
        assert await one(store, append) is Outcome.COMMITTED


@pytest.mark.asyncio
async def test_wal_of_a_store_in_use_is_grown_at_once_and_holds_nothing_more(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    info = await store.acquire("s", NOW_MS)
    wal = tmp_path / "a.db-wal"
    await append_many(store, info, range(sqlite_store._GROW_AFTER - 2))
    await store.live()
    assert wal.stat().st_size < 1_000_000, "a store that is closed soon stays small"
    await append_many(store, info, range(sqlite_store._GROW_AFTER - 2, 20))
    await store.live()
    grown = wal.stat().st_size
    assert grown > 4_000_000
    with closing(sqlite3.connect(f"file:{tmp_path / 'a.db'}?mode=ro", uri=True)) as other:
        assert other.execute("SELECT count(*) FROM events").fetchone() == (20,)
        assert other.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'filler'").fetchone() == (0,)
    assert wal.stat().st_size == grown, "what comes later is written into it"
    await store.close()
    assert (tmp_path / "a.db").stat().st_size < 100_000
    store = await SqliteStore.open(tmp_path / "a.db")
    assert len(await store.read("s")) == 20
    await store.close()


@pytest.mark.asyncio
async def test_wal_that_cannot_be_grown_keeps_no_commit(tmp_path: Path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(sqlite_store, "_LOG_PAGES", 10**6)  # longer than a value may be
    caplog.set_level("INFO")
    store = await SqliteStore.open(tmp_path / "a.db")
    info = await store.acquire("s", NOW_MS)
    await append_many(store, info, range(20))
    assert [record.getMessage() for record in caplog.records if "was not grown" in record.getMessage()]
    assert len(await store.read("s")) == 20
    await store.close()


@pytest.mark.asyncio
async def test_reading_some_types_costs_nothing_for_the_events_of_others(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "a.db")
    some = ("ours", "theirs")
    for session_id, others in (("few", 10), ("many", 2_000)):
        info = await store.acquire(session_id, NOW_MS)
        kinds = [*some * 5, *["another"] * others, *some * 5]
        events = tuple(stored_event(seq, None, kind) for seq, kind in enumerate(kinds))
        assert await one(store, append_of(info, events=events)) is Outcome.COMMITTED
    await store.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        steps: list[None] = []
        connection.set_progress_handler(lambda: steps.append(None), 1)

        def cost(session_id: str) -> int:
            steps.clear()
            assert len(sqlite_rows.read_events(connection, session_id, -1, some).fetchall()) == 20
            assert len(sqlite_rows.bodies_of(connection, session_id, some[0])[0]) == 10
            return len(steps)

        cost("few")  # the first one reads the schema
        assert cost("many") <= cost("few")
