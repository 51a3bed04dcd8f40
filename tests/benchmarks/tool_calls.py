"""Rows 2 and 3: the tools of an agent whose session holds many active reminders."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import orjson

from schedule_sm.clock import wall_ms
from schedule_sm.core.fields import SCHEDULE_CHANGE
from tests.benchmarks.frame import Figure, Figures, Row, Side, Target, in_a_loop
from tests.benchmarks.lean_host import LeanAgent, LeanHost, LeanSession
from tests.benchmarks.setting import Setting, driven
from tests.benchmarks.workloads import far_off, quiet

PAIRS = 30
LISTS = 5
"""In one sample, as the reference's driver does."""
_FEW, _MANY = 10, 10_000


def rows(setting: Setting) -> list[Row]:
    """Return both rows."""
    return [_pairs(setting), _list(setting)]


def _pairs(setting: Setting) -> Row:
    sides: dict[str, Side] = {
        f"ours {count:,}": in_a_loop(created_and_deleted, count) for count in (_FEW, _MANY)
    }
    if setting.reference is not None:
        for count in (_FEW, _MANY):
            pairs = PAIRS if count == _FEW else 3  # one takes it a tenth of a second there
            sides[f"reference {count:,}"] = driven(setting.reference, "pairs", count, pairs)
    few, many = Figure(f"ours {_FEW:,}", "ms a pair"), Figure(f"ours {_MANY:,}", "ms a pair")
    claim = "create and delete beside"
    return Row(
        2,
        f"{PAIRS} pairs of create and delete beside N active far-off reminders in memory: each call until nothing that "
        "it set off is left to do, the owner's drive too. The reference's tools are called directly.",
        sides,
        [
            Target("2a", f"{claim} 10,000 active over 10", many, 6, few, slack=1.5),
            Target(
                "2b",
                f"{claim} 10,000, over the reference",
                many,
                1 / 100,
                Figure(f"reference {_MANY:,}", "ms a pair"),
            ),
            Target(
                "2b",
                f"{claim} 10, over the reference",
                few,
                1 / 2,
                Figure(f"reference {_FEW:,}", "ms a pair"),
            ),
        ],
        samples=setting.size(4, 1),
        quick=frozenset({"2a"}),
    )


def _list(setting: Setting) -> Row:
    sides: dict[str, Side] = {"ours": in_a_loop(listed, _MANY)}
    ours = Figure("ours", "list")
    if setting.reference is not None:
        sides["reference"] = driven(setting.reference, "list", _MANY)
    return Row(
        3,
        "schedule_list of 10,000 active reminders, from the call to canonical JSON bytes; beside it orjson.dumps of the "
        "finished list.",
        sides,
        [
            Target("3", "list of 10,000 over orjson.dumps", ours, 8, Figure("ours", "orjson")),
            Target("3", "list of 10,000, over the reference", ours, 1 / 4, Figure("reference", "list")),
        ],
        samples=2,
    )


@asynccontextmanager
async def seated_agent(count: int) -> AsyncIterator[tuple[LeanAgent, dict[str, Any]]]:
    """Yield an agent whose session has ``count`` active reminders, with its tools by name; all is at rest."""
    session = LeanSession("main")
    for data in far_off(count, wall_ms()):
        session.append(SCHEDULE_CHANGE, data)
    async with LeanHost() as host:
        agent = LeanAgent(session, lambda message: None)
        host.announce(agent)
        await quiet()
        yield agent, agent.ctx.by_name


async def created_and_deleted(count: int) -> Figures:
    """Create and delete beside ``count`` others; the mean of a pair in ms."""
    async with seated_agent(count) as (agent, tools):
        create, delete = tools["schedule_create"], tools["schedule_delete"]
        begun = perf_counter()
        for number in range(PAIRS):
            made = await create.execute({"prompt": f"extra {number}", "after_seconds": 9_000}, agent)
            await quiet()
            ended = await delete.execute({"id": made.value["id"]}, agent)
            await quiet()
            assert ended.value["deleted"] is True
        taken = perf_counter() - begun
    return {"ms a pair": taken * 1e3 / PAIRS}


async def listed(count: int) -> Figures:
    """List ``count`` reminders; the least of some calls, and of ``orjson.dumps`` of what they yield, in ms."""
    calls, floors = [], []
    async with seated_agent(count) as (agent, tools):
        for _ in range(LISTS):
            begun = perf_counter()
            result = await tools["schedule_list"].execute({}, agent)
            data = result.content.encode()
            listed_at = perf_counter()
            floor = orjson.dumps(result.value)
            dumped_at = perf_counter()
            assert data == floor, "not canonical"
            assert len(result.value) == count
            calls.append((listed_at - begun) * 1e3)
            floors.append((dumped_at - listed_at) * 1e3)
            await quiet()
    return {"list": min(calls), "orjson": min(floors)}
