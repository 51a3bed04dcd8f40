"""A lock whose file was removed protects nothing: its store writes no more, and the next host loses nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.protocol import Append, Outcome
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.store_contract import NOW_MS, append_of


@pytest.mark.parametrize(
    ("kind", "lock", "holder"),
    [(SqliteStore, "store.lock", "store.holder"), (JsonlStore, "store/.lock", "store/.holder")],
)
@pytest.mark.asyncio
async def test_a_store_whose_lock_was_removed_writes_no_more(
    tmp_path: Path, kind: type[SqliteStore | JsonlStore], lock: str, holder: str
) -> None:
    first = await kind.open(tmp_path / "store")
    info = await first.acquire("s", NOW_MS)
    assert list(await first.append([append_of(info, 2)])) == [Outcome.COMMITTED]
    (tmp_path / lock).unlink()
    second = await kind.open(tmp_path / "store")
    again = await second.acquire("s", NOW_MS)
    assert list(await second.append([append_of(again, 1)])) == [Outcome.COMMITTED]
    assert list(await first.append([append_of(replace(info, next_seq=2), 1)])) == [Outcome.UNKNOWN]
    assert first.last_fault is not None
    assert "its lock was removed" in str(first.last_fault)
    await first.append([Append("s", info.epoch, -1, (), None, let_go=True)])
    await first.close()
    assert (tmp_path / holder).exists(), "the second host's"
    assert [event.seq for event in await second.read("s")] == [0, 1, 2]
    assert list(await second.append([append_of(replace(again, next_seq=3), 1)])) == [Outcome.COMMITTED]
    await second.close()


FORK = """
import asyncio, gc, os, sys
from pathlib import Path
from schedule_sm.stores.errors import StoreLockedError
from schedule_sm.stores.held_lock import HeldLock

place = Path(sys.argv[1])
def hold():
    return HeldLock(place, place / "lock", place / "holder", 0, write=Path.write_text)
held = hold()
if (child := os.fork()) == 0:
    if sys.argv[2] == "forgotten":
        del held
        gc.collect()
    else:
        held.release()
    os._exit(0)
os.waitpid(child, 0)
if os.fork() == 0:
    try:
        hold()
    except StoreLockedError:
        os._exit(0)
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("how", ["forgotten", "released"])
@pytest.mark.slow
def test_a_forked_child_does_not_take_its_parents_lock_away(tmp_path: Path, how: str) -> None:
    """A lock of the operating system belongs to both: what the child unlocks is unlocked."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK, str(tmp_path), how], check=False)
    assert done.returncode == 0
