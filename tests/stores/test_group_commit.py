"""What the stores on disk share: nobody waits for ever for a group that was cut off, and a cut-off close lets go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schedule_sm.stores.errors import StoreClosedError
from schedule_sm.stores.failpoints import set_failpoint_hook
from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.protocol import Outcome, Store
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.store_contract import append_of

STORES = pytest.mark.parametrize("open_store", [SqliteStore.open, JsonlStore.open], ids=["sqlite", "jsonl"])


class Disk:
    """Holds the writer thread at the beginning of a group until it may go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def hook(self, name: str) -> None:
        if name == "begin.before":
            self.reached.set()
            assert self.may_go_on.wait(10)


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    set_failpoint_hook(disk.hook)
    yield disk
    disk.may_go_on.set()
    set_failpoint_hook(None)


async def write_held_up(store: Store, disk: Disk) -> asyncio.Future:
    """Begin a write and return it once it has reached the disk, which holds it up."""
    info = await store.acquire("main", 0)
    disk.reached.clear()
    disk.may_go_on.clear()
    write = asyncio.ensure_future(store.append([append_of(info)]))
    assert await asyncio.to_thread(disk.reached.wait, 10)
    return write


@STORES
@pytest.mark.asyncio
async def test_close_that_is_cancelled_behind_a_slow_write_lets_the_next_host_in(
    open_store: Callable, tmp_path: Path, disk: Disk
) -> None:
    store = await open_store(tmp_path / "store")
    write = await write_held_up(store, disk)
    close = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    close.cancel()
    await asyncio.wait({close})
    disk.may_go_on.set()
    await asyncio.wait({write})
    await asyncio.to_thread(store._groups._thread._thread.join, 10)
    await (await open_store(tmp_path / "store")).close()


@STORES
@pytest.mark.asyncio
async def test_group_whose_write_is_cancelled_keeps_nobody_waiting(
    open_store: Callable, tmp_path: Path, disk: Disk
) -> None:
    loop = asyncio.get_running_loop()
    writes: list[asyncio.Future] = []
    in_thread = loop.run_in_executor
    loop.run_in_executor = lambda *job: writes.append(in_thread(*job)) or writes[-1]  # type: ignore[method-assign]  # to have it
    store = await open_store(tmp_path / "store")
    write = await write_held_up(store, disk)
    writes[-1].cancel()
    done, _ = await asyncio.wait({write}, timeout=5)
    assert done
    assert write.cancelled()
    disk.may_go_on.set()
    await store.close()


@STORES
@pytest.mark.asyncio
async def test_who_queued_behind_a_write_that_was_left_behind_is_told_that_the_store_is_closed(
    open_store: Callable, tmp_path: Path, disk: Disk
) -> None:
    store = await open_store(tmp_path / "store")
    other = await store.acquire("other", 0)
    write = await write_held_up(store, disk)
    queued = asyncio.ensure_future(store.append([append_of(other)]))
    await asyncio.sleep(0)
    store._groups._is_closed = True
    store._groups._thread.submit(store._close)  # in its own thread: SQLite closes no connection from another
    store._groups._thread.shutdown(wait=False)
    disk.may_go_on.set()
    assert await write == [Outcome.COMMITTED]
    with pytest.raises(StoreClosedError):
        await queued
    await asyncio.to_thread(store._groups._thread._thread.join, 10)
