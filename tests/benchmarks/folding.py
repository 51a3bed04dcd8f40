"""Rows 4 and 5: from a stored session to the first armed target, and the strict replay of a long log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from schedule_sm import fold_schedule_events
from schedule_sm.clock import wall_ms
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.embedded import ScheduleHost
from schedule_sm.embedded.encoded_log import encode_data
from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.jsonl_folder import file_name
from schedule_sm.stores.jsonl_index import index_path
from schedule_sm.stores.protocol import Append, Outcome, Store, StoredEvent
from schedule_sm.stores.sqlite import SqliteStore
from tests.benchmarks.frame import Figure, Figures, Row, Side, Target, in_a_loop
from tests.benchmarks.idle_runner import IdleRunner
from tests.benchmarks.setting import Setting, driven
from tests.benchmarks.workloads import churn, quiet, until

_CHANGES, _OTHERS_EACH = 10_000, 4
_REPLAYED = 100_000
_FLUSHED = 100

OpenStore = Callable[[Path], Awaitable[Store]]


def rows(setting: Setting) -> list[Row]:
    """Return both rows; they need the reference."""
    if setting.reference is None:
        return []
    return [_cold_start(setting, setting.folder / "cold"), _replay(setting, setting.folder / "replay.jsonl")]


def _cold_start(setting: Setting, folder: Path) -> Row:
    assert setting.reference is not None
    folder.mkdir()
    log = [*churn(_CHANGES, _OTHERS_EACH, wall_ms())]
    opened: dict[str, tuple[OpenStore, Path]] = {
        "JSONL": (JsonlStore.open, folder / "sessions"),
        "SQLite": (SqliteStore.open, folder / "sessions.db"),
    }
    for open_store, path in opened.values():
        asyncio.run(fill(open_store, path, log))
    plain = folder / "plain.jsonl"
    write_plain(plain, log)
    sides: dict[str, Side] = {f"ours, {name}": in_a_loop(cold_start, *how) for name, how in opened.items()}
    bare = "ours, JSONL without its index"
    sides[bare] = in_a_loop(cold_start, *opened["JSONL"], is_indexed=False)
    sides["reference"] = driven(setting.reference, "cold", plain)
    reference = Figure("reference", "ms")
    claim = "cold start of 10,000 schedule events among 40,000 others, from"
    return Row(
        4,
        "A stored session, half of its schedule events creates, the rest deletes and dispatches: from the opening of the "
        "store to the armed timer of the earliest target, in the embedded host with everything it loads. The session was "
        "closed as a host closes it, so a JSONL file has its index beside it; without, as a host that is killed the first "
        "time leaves it, for comparison. The reference reads a JSONL file, parses, folds and takes the earliest target.",
        sides,
        [
            Target("4", f"{claim} JSONL", Figure("ours, JSONL", "ms"), 1.0, reference, stretch=0.5),
            Target("4", "the same without the index of the JSONL file", Figure(bare, "ms"), None, reference),
            Target("4", f"{claim} SQLite", Figure("ours, SQLite", "ms"), 0.5, reference),
        ],
        samples=4,
    )


def _replay(setting: Setting, path: Path) -> Row:
    assert setting.reference is not None
    log = [*churn(_REPLAYED, 0, wall_ms())]
    write_plain(path, log)
    sides: dict[str, Side] = {
        "ours": lambda: replayed(path),
        "reference": driven(setting.reference, "fold", path),
    }
    return Row(
        5,
        "fold_schedule_events over 100,000 schedule events, already parsed.",
        sides,
        [
            Target(
                "5",
                "strict replay of 100,000 (2 is half the throughput)",
                Figure("ours", "ms"),
                2,
                Figure("reference", "ms"),
            )
        ],
        samples=2,
    )


def write_plain(path: Path, log: list[tuple[str, Any]]) -> None:
    """Write ``log`` as one event a line, as any program would."""
    with path.open("w", encoding="ascii") as file:
        for seq, (kind, data) in enumerate(log):
            event = {"seq": seq, "type": kind, "time": wall_ms(), "data": data}
            file.write(json.dumps(event, separators=(",", ":")) + "\n")


async def fill(open_store: OpenStore, path: Path, log: list[tuple[str, Any]]) -> None:
    """Store ``log`` as the session ``main``, in as many flushes as a session of that length has at least."""
    store = await open_store(path)
    try:
        info = await store.acquire("main", wall_ms())
        events = tuple(
            StoredEvent(seq, kind, wall_ms(), encode_data(data)) for seq, (kind, data) in enumerate(log)
        )
        for first in range(0, len(events), _FLUSHED):
            some = events[first : first + _FLUSHED]
            is_last = first + _FLUSHED >= len(events)
            append = Append("main", info.epoch, first, some, wall_ms(), let_go=is_last)
            assert await store.append([append]) == [Outcome.COMMITTED]
    finally:
        await store.close()


async def cold_start(open_store: OpenStore, path: Path, *, is_indexed: bool = True) -> Figures:
    """Open the session and wait until its owner waits for its first target; in ms."""
    if not is_indexed:
        index_path(path / file_name("main")).unlink()
    begun = perf_counter()
    store = await open_store(path)
    try:
        async with ScheduleHost.open(store=store, runner=IdleRunner()) as host:
            live = await host.session("main", create=False)
            owner = live.owner
            assert owner is not None
            await until(lambda: owner.state == "waiting")
            taken = perf_counter() - begun
            await quiet()
            assert sum(event["type"] == SCHEDULE_CHANGE for event in live.events) > 0
    finally:
        await store.close()
    return {"ms": taken * 1e3}


def replayed(path: Path) -> Figures:
    """Fold the events of a plain log; in ms."""
    events = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    begun = perf_counter()
    folded = fold_schedule_events(events)
    taken = perf_counter() - begun
    assert folded.seen_ids
    return {"ms": taken * 1e3}
