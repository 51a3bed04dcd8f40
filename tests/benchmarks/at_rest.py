"""Row 11: what many owners with far-off reminders cost while nothing is due."""

from __future__ import annotations

import asyncio
import resource
import selectors
from time import perf_counter
from typing import Any

from schedule_sm.clock import wall_ms
from schedule_sm.core.fields import SCHEDULE_CHANGE
from tests.benchmarks.children import in_a_child
from tests.benchmarks.frame import Figure, Figures, Kind, Row, Side, Target
from tests.benchmarks.lean_host import LeanAgent, LeanHost, LeanSession
from tests.benchmarks.setting import Setting
from tests.benchmarks.workloads import far_off, quiet

_MANY, _FEW, _EACH = 10_000, 10, 10


def rows(setting: Setting) -> list[Row]:
    """Return the row."""
    seconds = setting.size(60, 5)
    sides: dict[str, Side] = {
        "10,000 owners": in_a_child("at_rest", "at_rest", _MANY, _EACH, seconds),
        "10 owners": in_a_child("at_rest", "at_rest", _FEW, _EACH, seconds),
    }
    many = "10,000 owners"
    return [
        Row(
            11,
            f"10,000 owners with 10 far-off reminders each, {seconds} s in which nothing is due: CPU time of the process "
            "and calls of the loop's selector. Beside it 10 owners.",
            sides,
            [
                Target("11", "CPU at rest, of one core", Figure(many, "cpu %"), 1, kind=Kind.VALUE, unit="%"),
                Target(
                    "11",
                    "wake-ups at rest, more than with 10 owners",
                    Figure(many, "wake-ups"),
                    1,  # the clocks' one tick a minute may lie on either side of the end
                    Figure("10 owners", "wake-ups"),
                    kind=Kind.EXCESS,
                    unit="count",
                ),
            ],
        )
    ]


class CountingSelector(selectors.DefaultSelector):
    """Counts how often the loop went to sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def select(self, timeout: float | None = None) -> Any:
        self.calls += 1
        return super().select(timeout)


def at_rest(owners: str, each: str, seconds: str) -> Figures:
    """Seat ``owners`` with ``each`` reminders, then do nothing for ``seconds``."""
    selector = CountingSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(_rest(int(owners), int(each), float(seconds), selector))


async def _rest(owners: int, each: int, seconds: float, selector: CountingSelector) -> Figures:
    async with LeanHost() as host:
        for number in range(owners):
            session = LeanSession(f"session-{number}")
            for data in far_off(each, wall_ms()):
                session.append(SCHEDULE_CHANGE, data)
            host.announce(LeanAgent(session, lambda message: None))
        await quiet()
        wake_ups, cpu_s, begun = selector.calls, _cpu_s(), perf_counter()
        await asyncio.sleep(seconds)
        cpu_s, elapsed_s = _cpu_s() - cpu_s, perf_counter() - begun
        return {"cpu %": 100 * cpu_s / elapsed_s, "wake-ups": selector.calls - wake_ups}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
