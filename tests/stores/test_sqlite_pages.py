"""A log read page by page from SQLite: beside a writing store, after its close, and where events are missing."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from schedule_sm.stores.errors import StoreIOError, StoreMissingError
from schedule_sm.stores.protocol import StoredEvent
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.stores.sqlite_pages import PAGE
from schedule_sm.testing.store_contract import NOW_MS, append_of

pytestmark = pytest.mark.asyncio
LENGTH = 2 * PAGE + 3


async def opened(path: Path) -> tuple[SqliteStore, Sequence[StoredEvent], Sequence[StoredEvent]]:
    """A store with the session ``s`` of LENGTH events, its log in pages, and what it should hold."""
    store = await SqliteStore.open(path)
    append = append_of(await store.acquire("s", NOW_MS), LENGTH)
    await store.append([append])
    return store, (await store.open_log("s", ())).events, append.events


async def test_every_page_is_read_beside_the_store_and_after_its_close(tmp_path: Path) -> None:
    store, pages, events = await opened(tmp_path / "a.db")
    for seq in (0, PAGE - 1, PAGE, 2 * PAGE, LENGTH - 1, -1, -LENGTH):
        assert pages[seq] == events[seq]
    info = await store.acquire("t", NOW_MS)
    await store.append([append_of(replace(info, id="t"))])
    assert pages[1:3] == list(events[1:3])
    await store.close()
    assert tuple(pages) == events
    store, pages, _ = await opened(tmp_path / "b.db")
    await store.close()
    assert tuple(pages) == events
    for outside in (LENGTH, -LENGTH - 1):
        with pytest.raises(IndexError):
            pages[outside]


async def test_page_of_a_file_that_is_gone_is_an_error_and_a_page_read_before_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store, pages, events = await opened(path)
    assert pages[0] == events[0]
    await store.close()
    path.unlink()
    assert pages[1] == events[1]
    with pytest.raises(StoreMissingError):
        pages[PAGE]


async def test_page_of_another_file_that_was_put_there_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store, pages, _ = await opened(path)
    await store.close()
    (tmp_path / "b").mkdir()
    other, _, _ = await opened(tmp_path / "b" / "a.db")
    await other.close()
    (tmp_path / "b" / "a.db").replace(path)
    with pytest.raises(StoreIOError, match="replaced it"):
        pages[0]


@pytest.mark.parametrize("missing", [0, PAGE, LENGTH - 2, LENGTH - 1])
async def test_missing_event_is_told_when_the_log_is_opened_and_when_its_page_is_read(
    tmp_path: Path, missing: int
) -> None:
    path = tmp_path / "a.db"
    store, pages, _ = await opened(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM events WHERE seq = ?", (missing,))
        connection.commit()
    with pytest.raises(StoreIOError, match="missing"):
        await store.open_log("s", ())
    with pytest.raises(StoreIOError, match="should hold"):
        pages[missing]
    await store.close()


@pytest.mark.parametrize(("seq", "other"), [(0, -1), (LENGTH - 1, LENGTH), (0, LENGTH)])
async def test_event_in_another_place_is_told_when_the_log_is_opened(
    tmp_path: Path, seq: int, other: int
) -> None:
    path = tmp_path / "a.db"
    store, _, _ = await opened(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE events SET seq = ? WHERE seq = ?", (other, seq))
        connection.commit()
    with pytest.raises(StoreIOError, match="missing"):
        await store.open_log("s", ())
    await store.close()
