"""Row 10: what an active reminder keeps in memory, in a whole live session on SQLite."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from schedule_sm.clock import wall_ms
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.embedded import ScheduleHost
from schedule_sm.stores.sqlite import SqliteStore
from tests.benchmarks.children import in_a_child
from tests.benchmarks.folding import fill
from tests.benchmarks.frame import Figure, Figures, Kind, Row, Side, Target
from tests.benchmarks.idle_runner import IdleRunner
from tests.benchmarks.setting import Setting
from tests.benchmarks.workloads import far_off, quiet, until


class _Record(BaseModel):
    id: str
    kind: str
    prompt: str
    afterSeconds: int  # noqa: N815 - the format's own name
    scheduledAt: str  # noqa: N815 - as above


class _Create(BaseModel):
    """The floor: the change of one event as plain models, without the event around it."""

    version: int
    operation: str
    schedule: _Record


def rows(setting: Setting) -> list[Row]:
    """Return the row."""
    sides: dict[str, Side] = {"models": in_a_child("memory", "models", 10_000)}
    model = Figure("models", "bytes")
    targets = []
    held = setting.size([("appended", 10_000), ("opened", 10_000), ("opened", 100_000)], [("opened", 5_000)])
    for how, count in held:
        side = f"{how}, {count:,}"
        sides[side] = in_a_child("memory", how, count)
        ours = Figure(side, "bytes")
        claim = f"live bytes of each of {count:,} active reminders, {how}"
        targets += [
            Target("10", claim, ours, 1_000, kind=Kind.VALUE, unit="bytes"),
            Target("10", f"{claim}, over a model each", ours, 0.6, model, unit="bytes"),
            Target(
                "10",
                f"timers and tasks of {count:,} active reminders, {how}, more than those of one",
                Figure(side, "handles"),
                0,
                Figure(side, "handles of one"),
                kind=Kind.EXCESS,
                unit="count",
            ),
        ]
    return [
        Row(
            10,
            "Bytes that tracemalloc counts as live after a collection, for each active reminder with a prompt of its own: "
            "the whole session in the embedded host on SQLite, log, index and cursors, opened from the store or appended "
            "live. Beside it one pydantic model of the change for each event.",
            sides,
            targets,
            quick=frozenset({"10"}),
        )
    ]


def _live_bytes() -> int:
    for _ in range(3):
        gc.collect()
    return tracemalloc.get_traced_memory()[0]


def models(count: str) -> Figures:
    """Hold ``count`` creates as models."""
    tracemalloc.start()
    now_ms = wall_ms()
    before = _live_bytes()
    held = [_Create.model_validate(data) for data in far_off(int(count), now_ms)]
    return {"bytes": (_live_bytes() - before) / len(held)}


def opened(count: str) -> Figures:
    """Open a stored session with ``count`` reminders in a host that has another session open."""
    log = [(SCHEDULE_CHANGE, data) for data in far_off(int(count), wall_ms())]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        asyncio.run(fill(SqliteStore.open, path, log))
        del log
        return asyncio.run(_session(path, int(count), appended_live=False))


def appended(count: str) -> Figures:
    """Append ``count`` reminders to a live session."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_session(Path(folder) / "sessions.db", int(count), appended_live=True))


async def _session(path: Path, count: int, *, appended_live: bool) -> Figures:
    async with ScheduleHost.open(path, runner=IdleRunner()) as host:
        await _put(host, await host.session("first"), 1)  # with it comes the loop's one watcher of the clocks
        with_first = _handles()
        await _put(host, await host.session("other"), 1)
        with_other = _handles()
        tracemalloc.start()
        before = _live_bytes()
        live = await host.session("main")
        if appended_live:
            await _put(host, live, count)
        await _at_rest(live)
        grown = _live_bytes() - before
        return {
            "bytes": grown / count,
            "handles": _handles() - with_other,
            "handles of one": with_other - with_first,
        }


async def _put(host: ScheduleHost, live: Any, count: int) -> None:
    for data in far_off(count, wall_ms()):
        live.log.append(SCHEDULE_CHANGE, data)
    assert await host.ctx.sessions.flush(live.log)
    live.owner.recompute()
    await _at_rest(live)


async def _at_rest(live: Any) -> None:
    await until(lambda: live.owner.state == "waiting")
    await quiet()


def _handles() -> int:
    loop: Any = asyncio.get_running_loop()
    return sum(not handle.cancelled() for handle in loop._scheduled) + len(asyncio.all_tasks(loop))
