"""``python -m tests.benchmarks.soak [--quick]``: long use must leave nothing behind; exit 1 where something grows.

Three parts, each on the real embedded host: sessions opened, used and closed; creates and deletes; a virtual year of
daily reminders. After each round everything that could leak is counted; what the warm-up reached may not be exceeded by
more than the slack below. A live session's own log grows by design, so every round ends with its sessions closed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from schedule_sm.embedded import ScheduleHost
from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.memory import MemoryPlace, MemoryStore
from schedule_sm.stores.protocol import Store
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.travel import Travel, run_virtual
from tests.embedded.scripted import ScriptedRunner, by_agent

ROUNDS: Final = 20
WARM_UP: Final = 10
"""Rounds whose highest figures are the base line; the invariant keeps the logs of up to eight closed sessions."""
AT_ONCE: Final = 20
DAY_S: Final = 86_400


class Figures(NamedTuple):
    """What is counted after a round, with nothing live."""

    memory_kb: int
    objects: int
    tasks: int
    handles: int
    descriptors: int
    threads: int


SLACK: Final = Figures(memory_kb=8_192, objects=1_500, tasks=0, handles=0, descriptors=2, threads=1)
"""How much more than after the warm-up is no leak: allocator noise, caches of the interpreter, a database file's."""


@dataclass(frozen=True)
class Scale:
    """How much is done."""

    sessions: int
    pairs: int
    days: int


FULL: Final = Scale(sessions=10_000, pairs=100_000, days=365)
QUICK: Final = Scale(sessions=300, pairs=2_000, days=60)


class Gauge:
    """Takes the figures after each round of one part."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.taken: list[Figures] = []

    def take(self) -> None:
        """Count now; call it from the loop, with every session closed."""
        for _ in range(3):
            gc.collect()
        loop: Any = asyncio.get_running_loop()
        figures = Figures(
            memory_kb=_resident_kb(),
            objects=len(gc.get_objects()),
            tasks=len(asyncio.all_tasks(loop)) - 1,
            handles=sum(not handle.cancelled() for handle in loop._scheduled),
            descriptors=len(os.listdir("/proc/self/fd")),
            threads=threading.active_count(),
        )
        self.taken.append(figures)
        say(f"{self.part:>10} {len(self.taken):>3}  " + "  ".join(f"{n:>9,}" for n in figures))

    def exceeded(self) -> list[str]:
        """Return a line for each figure that grew beyond its slack after the warm-up."""
        base = Figures(*map(max, zip(*self.taken[:WARM_UP], strict=True)))
        found = []
        for name, before, last, slack in zip(Figures._fields, base, self.taken[-1], SLACK, strict=True):
            if last > before + slack:
                found.append(
                    f"{self.part}: {name} grew from {before:,} to {last:,}, {slack:,} more are no leak"
                )
        return found


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _resident_kb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1_024


class _Forgetful(ScriptedRunner):
    """Keeps no histories: the runner must not be what grows."""

    def user_message(self, text: str, message_id: str) -> Any:
        self.histories.clear()
        return super().user_message(text, message_id)

    async def run_turn(self, session_id: str, history: Any, tools: Any) -> Any:
        self.running = 0  # turns of several sessions run at once here
        return await super().run_turn(session_id, history, tools)


@asynccontextmanager
async def host_on(store: Store) -> AsyncIterator[ScheduleHost]:
    """Yield a host on ``store`` and close both."""
    try:
        async with ScheduleHost.open(store=store, runner=_Forgetful()) as host:
            yield host
    finally:
        await store.close()


async def sessions(store: Store, count: int, gauge: Gauge) -> None:
    """Open, use and close ``count`` sessions, some at once."""

    async def use(name: str) -> None:
        live = await host.session(name)
        tools = by_agent(live.agent)
        made = await tools["create"].invoke({"prompt": f"reminder of {name}", "after_seconds": 3_600})
        await live.send("hello")
        assert (await tools["delete"].invoke({"id": made.value["id"]})).value["deleted"] is True
        await live.close()

    async with host_on(store) as host:
        for number in range(ROUNDS):
            names = [f"session-{number}-{n}" for n in range(count // ROUNDS)]
            for start in range(0, len(names), AT_ONCE):
                async with asyncio.TaskGroup() as group:
                    for name in names[start : start + AT_ONCE]:
                        group.create_task(use(name))
            gauge.take()


async def changes(store: Store, pairs: int, gauge: Gauge) -> None:
    """Create and delete ``pairs`` reminders, in sessions at once that end with each round."""

    async def change(name: str) -> None:
        live = await host.session(name)
        tools = by_agent(live.agent)
        for n in range(pairs // ROUNDS // AT_ONCE):
            made = await tools["create"].invoke({"prompt": f"reminder {n}", "after_seconds": 60 + n})
            assert (await tools["delete"].invoke({"id": made.value["id"]})).value["deleted"] is True
        await live.close()

    async with host_on(store) as host:
        for number in range(ROUNDS):
            async with asyncio.TaskGroup() as group:
                for n in range(AT_ONCE):
                    group.create_task(change(f"session-{number}-{n}"))
            gauge.take()


async def year(travel: Travel, store: Store, days: int, gauge: Gauge) -> None:
    """Deliver a reminder a day, with naps and steps of the clock; a session for each round."""
    delivered = 0
    async with host_on(store) as host:
        for number in range(ROUNDS):
            live = await host.session(f"session-{number}")
            for day in range(number * days // ROUNDS, (number + 1) * days // ROUNDS):
                await by_agent(live.agent)["create"].invoke(
                    {"prompt": f"day {day}", "after_seconds": DAY_S // 2}
                )
                await (travel.suspend if day % 5 == 0 else travel)(DAY_S // 3)
                await travel.jump(3_600 if day % 2 else -3_600)
                await travel(DAY_S * 2 // 3)
            delivered += sum(
                e["type"] == "schedule/change" and e["data"]["operation"] == "dispatch" for e in live.events
            )
            await live.close()
            del live
            gauge.take()
    assert delivered == days, f"{delivered} of {days} reminders came"


def main(arguments: list[str] | None = None) -> int:
    """Run all parts and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.soak", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a thirtieth of everything")
    parser.add_argument("--store", choices=("sqlite", "jsonl"), default="sqlite")
    options = parser.parse_args(arguments)
    scale = QUICK if options.quick else FULL
    logging.getLogger("schedule_sm").setLevel(logging.ERROR)  # the clock's jumps are news otherwise
    say(f"{'':>10} {'':>3}  " + "  ".join(f"{name:>9}" for name in Figures._fields))
    gauges = [Gauge("sessions"), Gauge("changes"), Gauge("year")]
    with tempfile.TemporaryDirectory(prefix="schedule-sm-soak.") as folder:

        async def real(part: Callable[[Store, int, Gauge], Any], count: int, gauge: Gauge) -> None:
            path = Path(folder) / gauge.part
            opened = (
                SqliteStore.open(path, synchronous="NORMAL")
                if options.store == "sqlite"
                else JsonlStore.open(path)
            )
            await part(await opened, count, gauge)

        asyncio.run(real(sessions, scale.sessions, gauges[0]))
        asyncio.run(real(changes, scale.pairs, gauges[1]))
        run_virtual(lambda travel: year(travel, MemoryStore(MemoryPlace()), scale.days, gauges[2]))
    exceeded = [line for gauge in gauges for line in gauge.exceeded()]
    for line in exceeded:
        say(line)
    say("something grows" if exceeded else "flat")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
