"""Every store against the one contract, and the contract against stores that break it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedule_sm.stores.memory import MemoryPlace, MemoryStore
from schedule_sm.stores.protocol import Append, Outcome, Store
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.store_contract import STORE_CHECKS, check_store, run_check


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
