"""Row 6: how late reminders come one after the other, beside a backlog that lies far ahead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from schedule_sm.clock import wall_ms
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.host import FollowupMessage
from schedule_sm.plugin import schedule_owner
from tests.benchmarks.frame import Figure, Figures, Kind, Row, Side, Target, in_a_loop
from tests.benchmarks.lean_host import LeanAgent, LeanHost, LeanSession
from tests.benchmarks.setting import Setting
from tests.benchmarks.workloads import create, far_off, quiet

_BACKLOG = 10_000
_FIRST_AFTER_MS = 500


def rows(setting: Setting) -> list[Row]:
    """Return the row."""
    count, apart_ms = setting.size((60, 50), (30, 20))
    sides: dict[str, Side] = {
        "beside 10,000": in_a_loop(reminders, count, apart_ms, _BACKLOG),
        "beside none": in_a_loop(reminders, count, apart_ms, 0),
        "bare call_at": in_a_loop(bare_timers, count, apart_ms),
    }
    ours = "beside 10,000"
    return [
        Row(
            6,
            f"{count} reminders {apart_ms} ms apart, in memory, beside 10,000 far-off ones and beside none: from the "
            "target to the followup. The bare timers are loop.call_at at the same distances.",
            sides,
            [
                Target(
                    "6",
                    "lateness beside 10,000 far-off ones over beside none, p50",
                    Figure(ours, "p50"),
                    2,
                    Figure("beside none", "p50"),
                    slack=1.5,
                ),
                Target(
                    "6",
                    "lateness beside 10,000 far-off ones, more than bare call_at, p99",
                    Figure(ours, "p99"),
                    5,
                    Figure("bare call_at", "p99"),
                    kind=Kind.EXCESS,
                    slack=4,
                ),
            ],
            quick=frozenset({"6"}),
        )
    ]


def quantile(samples: Sequence[float], fraction: float) -> float:
    """Return the sample that ``fraction`` of all do not exceed."""
    return sorted(samples)[min(len(samples) - 1, int(fraction * len(samples)))]


def _summary(late_ms: Sequence[float]) -> Figures:
    return {"p50": quantile(late_ms, 0.5), "p99": quantile(late_ms, 0.99)}


async def reminders(count: int, apart_ms: int, backlog: int) -> Figures:
    """Wait for ``count`` reminders beside ``backlog`` others; their lateness in ms."""
    session = LeanSession("main")
    for data in far_off(backlog, wall_ms()):
        session.append(SCHEDULE_CHANGE, data)
    late_ms: list[float] = []
    done = asyncio.Event()

    def followup(message: FollowupMessage) -> None:
        late_ms.append(time.time_ns() / 1e6 - targets[len(late_ms)])
        if len(late_ms) == count:
            done.set()

    async with LeanHost() as host:
        agent = LeanAgent(session, followup)
        host.announce(agent)
        await quiet()  # the backlog is folded and armed
        first_ms = wall_ms() + _FIRST_AFTER_MS
        targets = [first_ms + number * apart_ms for number in range(count)]
        for number, target_ms in enumerate(targets, start=backlog + 1):
            session.append(SCHEDULE_CHANGE, create(number, target_ms))
        owner = schedule_owner(agent)
        assert owner is not None
        owner.recompute()
        await done.wait()
    assert min(late_ms) >= 0, "early"
    return _summary(late_ms)


async def bare_timers(count: int, apart_ms: int) -> Figures:
    """Wait for ``count`` timers of the loop, each armed when the one before it has ended; their lateness in ms."""
    loop = asyncio.get_running_loop()
    late_ms = []
    when = loop.time() + _FIRST_AFTER_MS / 1e3
    for _ in range(count):
        ended = loop.create_future()
        loop.call_at(when, ended.set_result, None)
        await ended
        late_ms.append((loop.time() - when) * 1e3)
        when += apart_ms / 1e3
    return _summary(late_ms)
