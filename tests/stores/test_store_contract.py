"""Every store against the one contract, and the contract against stores that break it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.memory import MemoryPlace, MemoryStore
from schedule_sm.stores.protocol import Append, Outcome, Store
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.store_contract import NOW_MS, STORE_CHECKS, append_of, check_store, run_check


@pytest.fixture(params=["memory", "sqlite"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    if request.param == "memory":
        return (lambda: MemoryStore(MemoryPlace()), lambda closed: MemoryStore(closed.place))
    numbers = itertools.count()
    return (
        lambda: SqliteStore.open(tmp_path / f"{next(numbers)}.db"),
        lambda closed: SqliteStore.open(closed.path),
    )


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.asyncio
async def test_store_keeps_the_contract(check: Any, kind: tuple[Any, Any]) -> None:
    make_store, reopen = kind
    await run_check(check, make_store, reopen=reopen)


@pytest.mark.asyncio
async def test_the_whole_suite_runs_in_one_call() -> None:
    await check_store(MemoryStore)


class _ForgetsRepeats(MemoryStore):
    """Fences a repeated append."""

    async def append(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        outcomes = []
        for append in batch:
            known = self.place.sessions.get(append.session_id)
            stale = known is not None and append.events and append.expected_seq < len(known.events)
            outcomes.append(Outcome.FENCED if stale else (await super().append([append]))[0])
        return outcomes


class _IgnoresEpochs(MemoryStore):
    async def append(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        from dataclasses import replace

        known = self.place.sessions
        return await super().append(
            [replace(a, epoch=known[a.session_id].info.epoch) if a.session_id in known else a for a in batch]
        )


@pytest.mark.parametrize(
    ("broken", "named"),
    [(_ForgetsRepeats, "a_repeated_append"), (_IgnoresEpochs, "the_epoch_rises")],
)
@pytest.mark.asyncio
async def test_the_suite_names_what_a_broken_store_breaks(broken: Callable[[], Store], named: str) -> None:
    with pytest.raises(AssertionError, match=named):
        await check_store(broken)


@pytest.mark.parametrize("open_store", [SqliteStore.open, JsonlStore.open], ids=["sqlite", "jsonl"])
@pytest.mark.parametrize("form", ["relative", "two slashes"])
@pytest.mark.asyncio
async def test_a_store_stays_where_it_was_opened(
    open_store: Any, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = await open_store("store" if form == "relative" else f"/{tmp_path}/store")
    info = await store.acquire("s", NOW_MS)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert await store.append([append_of(info)]) == [Outcome.COMMITTED]
    with store.open_read_only(tmp_path / "store") as reader:
        assert len(list(reader.events("s"))) == 1
    await store.acquire("other", NOW_MS)
    await store.close()
    assert os.listdir(".") == []
