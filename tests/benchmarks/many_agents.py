"""Row 7: many agents whose reminders are due at one instant."""

from __future__ import annotations

import asyncio
import gc
import time

from schedule_sm.clock import wall_ms
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.host import FollowupMessage
from schedule_sm.plugin import schedule_owner
from tests.benchmarks.frame import Figure, Figures, Row, Side, Target, in_a_loop
from tests.benchmarks.lean_host import LeanAgent, LeanHost, LeanSession
from tests.benchmarks.setting import Setting, driven
from tests.benchmarks.workloads import create, until

_SPARE_MS = 300
"""How long all must have been armed before the instant, so that it finds the loop at rest."""


def rows(setting: Setting) -> list[Row]:
    """Return the row."""
    some, many = 1_000, 10_000
    sides: dict[str, Side] = {
        "ours 1,000": in_a_loop(delivered_at_once, some),
        "ours 10,000": in_a_loop(delivered_at_once, many),
        "bare tasks 1,000": in_a_loop(woken_at_once, some),
    }
    if not setting.is_quick:
        for count in (some, many):
            sides[f"uncollected {count:,}"] = in_a_loop(delivered_at_once, count, is_collected=False)
    if setting.reference is not None:
        sides["reference 1,000"] = driven(setting.reference, "agents", some)
    ours = Figure("ours 1,000", "last ms")
    claim = "last followup of 1,000 agents at one instant"
    targets = [
        Target("7a", f"{claim}, over the reference", ours, 1 / 5, Figure("reference 1,000", "last ms")),
        Target(
            "7b", f"{claim}, over 1,000 bare tasks", ours, 8, Figure("bare tasks 1,000", "last ms"), slack=3
        ),
    ]
    if not setting.is_quick:
        large = Figure("ours 10,000", "last ms")
        targets += [
            Target("7b", "last followup of 10,000 agents over 1,000", large, 15, ours),
            Target(
                "7b",
                "the same, what the collector owes for the set-up still to come",
                Figure("uncollected 10,000", "last ms"),
                None,
                Figure("uncollected 1,000", "last ms"),
            ),
        ]
    return [
        Row(
            7,
            "N agents in memory with one reminder each, all due at one instant and armed before it: from the instant to "
            "the last followup. The bare tasks each wait for a future that loop.call_at sets at one instant. On either "
            "side Python's collector runs in full before the instant. Else it does so at a moment that the set-up decides, "
            "often right after the instant, and the loop stands still for 0.3 to 0.6 s with 10,000 agents: for comparison.",
            sides,
            targets,
            samples=setting.size(2, 1),
            quick=frozenset({"7b"}),
        )
    ]


async def delivered_at_once(count: int, *, is_collected: bool = True) -> Figures:
    """Seat ``count`` agents and wait for the instant; the last followup's lateness in ms."""
    lead_ms = 1_000 + count
    while (figures := await _try_at_once(count, lead_ms, is_collected=is_collected)) is None:
        lead_ms *= 2  # a slow machine was not ready in time
    return figures


async def _try_at_once(count: int, lead_ms: int, *, is_collected: bool) -> Figures | None:
    delivered = 0
    last_ms = 0.0
    done = asyncio.Event()

    def followup(message: FollowupMessage) -> None:
        nonlocal delivered, last_ms
        delivered += 1
        if delivered == count:
            last_ms = time.time_ns() / 1e6
            done.set()

    due_ms = wall_ms() + lead_ms
    async with LeanHost() as host:
        agents = []
        for number in range(count):
            session = LeanSession(f"session-{number}")
            session.append(SCHEDULE_CHANGE, create(1, due_ms))
            agents.append(LeanAgent(session, followup))
            host.announce(agents[-1])
        await until(lambda: all(map(_is_armed, agents)) or wall_ms() >= due_ms, every_s=0.02)
        if is_collected:
            gc.collect()
        if wall_ms() > due_ms - _SPARE_MS:
            return None
        await done.wait()
        assert delivered == count
    return {"last ms": last_ms - due_ms}


def _is_armed(agent: LeanAgent) -> bool:
    owner = schedule_owner(agent)
    return owner is not None and owner.state == "waiting"


async def woken_at_once(count: int) -> Figures:
    """Wake ``count`` tasks at one instant; the last one's lateness in ms."""
    loop = asyncio.get_running_loop()
    due = loop.time() + 2 * _SPARE_MS / 1e3 + count * 1e-4
    last = 0.0

    async def one() -> None:
        nonlocal last
        wake = loop.create_future()
        loop.call_at(due, wake.set_result, None)
        await wake
        last = loop.time()

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())
        await asyncio.sleep(0)
        gc.collect()
        assert loop.time() < due - _SPARE_MS / 1e3, "the machine is too slow to be ready at the instant"
    return {"last ms": (last - due) * 1e3}
