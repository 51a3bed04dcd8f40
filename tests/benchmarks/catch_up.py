"""Rows 1 and 8: an agent is announced while its session holds many overdue reminders."""

from __future__ import annotations

import asyncio
from time import perf_counter

from schedule_sm.clock import wall_ms
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.host import FollowupMessage
from tests.benchmarks.frame import Figure, Figures, Kind, Row, Side, Target, in_a_loop
from tests.benchmarks.lean_host import (
    Flush,
    LeanAgent,
    LeanHost,
    LeanSession,
    flush_never_suspending,
    flush_yielding_once,
)
from tests.benchmarks.setting import Setting, driven
from tests.benchmarks.workloads import in_contract_order, overdue, quiet

_TICK_S = 0.001


def rows(setting: Setting) -> list[Row]:
    """Return both rows."""
    return [_catch_up(setting), _stalls(setting)]


def _catch_up(setting: Setting) -> Row:
    small, middle, large = 300, 1_000, 3_000
    sides: dict[str, Side] = {
        f"ours {count:,}": in_a_loop(caught_up, count) for count in (small, middle, large)
    }
    if setting.reference is not None:
        sides["reference 1,000"] = driven(setting.reference, "catchup", middle)
    return Row(
        1,
        "N overdue one-shots in memory, their targets in no order, a flush that yields once: from the announcement of "
        "the agent to the N-th followup. One dispatch each, in the order of targets, checked in every sample.",
        sides,
        [
            Target(
                "1a",
                "catch-up of 1,000, over the reference",
                Figure("ours 1,000", "ms"),
                1 / 50,
                Figure("reference 1,000", "ms"),
                stretch=1 / 150,
            ),
            Target(
                "1b",
                "catch-up of 3,000 over one of 300",
                Figure("ours 3,000", "ms"),
                20,
                Figure("ours 300", "ms"),
                slack=1.5,
            ),
        ],
        samples=setting.size(3, 1),
        quick=frozenset({"1b"}),
    )


def _stalls(setting: Setting) -> Row:
    flushes: dict[str, Flush] = {
        "flush suspends": flush_yielding_once,
        "flush never suspends": flush_never_suspending,
    }
    sides: dict[str, Side] = {
        f"{name}, {count:,}": in_a_loop(caught_up, count, flush, tick=True)
        for name, flush in flushes.items()
        for count in (300, 3_000)
    }
    targets = []
    for name in flushes:
        large, small = Figure(f"{name}, 3,000", "stall"), Figure(f"{name}, 300", "stall")
        claim = f"longest stall of the loop in a catch-up of 3,000, {name}"
        targets += [
            Target("8", claim, large, 10, kind=Kind.VALUE, slack=5),
            Target("8", f"{claim}, over one of 300", large, 2, small, slack=2),
        ]
    return Row(
        8,
        "The catch-up of row 1 beside a task that sleeps 1 ms at a time: its longest interval, from the announcement to "
        "the last followup.",
        sides,
        targets,
        samples=setting.size(3, 1),
        quick=frozenset({"8"}),
    )


class Ticker:
    """Sleeps 1 ms at a time and remembers the longest interval."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        last = perf_counter()
        while True:
            await asyncio.sleep(_TICK_S)
            now = perf_counter()
            self.longest_s = max(self.longest_s, now - last)
            last = now

    def stop(self) -> None:
        self._task.cancel()


async def caught_up(count: int, flush: Flush = flush_yielding_once, *, tick: bool = False) -> Figures:
    """Catch up ``count`` reminders; ``ms`` in all and, with ``tick``, the longest ``stall`` in ms."""
    creates = overdue(count, wall_ms())
    session = LeanSession("main")
    for _, data in creates:
        session.append(SCHEDULE_CHANGE, data)
    delivered: list[str] = []
    done = asyncio.get_running_loop().create_future()
    ended = 0.0

    def followup(message: FollowupMessage) -> None:
        nonlocal ended
        delivered.append(message.metadata["schedule_id"])
        if len(delivered) == count:
            ended = perf_counter()
            done.set_result(None)

    async with LeanHost(flush) as host:
        agent = LeanAgent(session, followup)
        ticker = Ticker() if tick else None
        if ticker is not None:
            await asyncio.sleep(10 * _TICK_S)
            ticker.longest_s = 0.0
        begun = perf_counter()
        host.announce(agent)
        await done
        if ticker is not None:
            await asyncio.sleep(2 * _TICK_S)
            ticker.stop()
        await quiet()
    _check(session, creates, delivered)
    return {"ms": (ended - begun) * 1e3} | ({} if ticker is None else {"stall": ticker.longest_s * 1e3})


def _check(session: LeanSession, creates: list[tuple[int, dict[str, object]]], delivered: list[str]) -> None:
    wanted = in_contract_order(creates)
    assert delivered == wanted, "not in the order of targets"
    dispatched = [event["data"]["id"] for event in session.events[len(creates) :]]
    assert dispatched == wanted, "not one dispatch each"
