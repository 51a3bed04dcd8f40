"""Logs and prompts for the rows: plain, distinct, and the same in every run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.core.instants import format_instant

FAR_OFF_MS: Final = 10 * 86_400_000
"""How far a reminder lies ahead that no run lives to see."""

_CHUNK: Final = "assistant/chunk"


def prompt(number: int) -> str:
    """Return a prompt that no other reminder shares."""
    return f"check the deploy log of service {number} and report"


def create(number: int, target_ms: int, after_seconds: int = 3_600) -> dict[str, Any]:
    """Return the data of a create."""
    return {
        "version": 1,
        "operation": "create",
        "schedule": {
            "id": f"schedule-{number}",
            "kind": "after",
            "prompt": prompt(number),
            "afterSeconds": after_seconds,
            "scheduledAt": format_instant(target_ms),
        },
    }


def end(operation: str, number: int) -> dict[str, Any]:
    """Return the data of a delete or a dispatch."""
    return {"version": 1, "operation": operation, "id": f"schedule-{number}"}


def far_off(count: int, now_ms: int) -> Iterator[dict[str, Any]]:
    """Yield ``count`` creates, each a second later than the one before it."""
    for number in range(1, count + 1):
        yield create(number, now_ms + FAR_OFF_MS + number * 1_000)


def overdue(count: int, now_ms: int) -> list[tuple[int, dict[str, Any]]]:
    """Return ``count`` creates whose targets have passed, in no order of time: each with its target."""
    targets = [now_ms - 1_000 - i * 10 for i in range(count)]
    random.Random(count).shuffle(targets)
    return [(target, create(number, target)) for number, target in enumerate(targets, start=1)]


def in_contract_order(creates: list[tuple[int, dict[str, Any]]]) -> list[str]:
    """Return the ids by target, ties in create order."""
    return [data["schedule"]["id"] for _, data in sorted(creates, key=lambda each: each[0])]


def churn(changes: int, others_each: int, now_ms: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a session's life: ``changes`` schedule events, each behind ``others_each`` of another type.

    Half of the changes create (while something is active), a quarter delete and a quarter dispatch; every target lies
    far ahead, so that a session with this log waits when it is opened.
    """
    rng = random.Random(changes)
    active: list[int] = []
    created = 0
    for position in range(changes):
        for other in range(others_each):
            text = f"lorem ipsum dolor sit amet {rng.randrange(10**6)}"
            delta = {"type": "text-delta", "text": text}
            yield _CHUNK, {"turn": position, "step": 1, "index": other, "delta": delta}
        if not active or rng.random() < 0.5:
            created += 1
            active.append(created)
            seconds = rng.randrange(1, 864_000)
            yield SCHEDULE_CHANGE, create(created, now_ms + FAR_OFF_MS + seconds * 1_000, seconds)
        else:
            chosen = rng.randrange(len(active))
            active[chosen], active[-1] = active[-1], active[chosen]
            yield SCHEDULE_CHANGE, end(rng.choice(("delete", "dispatch")), active.pop())


async def quiet() -> None:
    """Return when nothing on the loop is ready to run: what was set off in memory has come to rest."""
    loop: Any = asyncio.get_running_loop()
    await asyncio.sleep(0)
    while loop._ready:  # noqa: ASYNC110 - what may run next is the loop's own knowledge
        await asyncio.sleep(0)


async def until(holds: Callable[[], bool], every_s: float = 0.001) -> None:
    """Return once ``holds()``; asked rarely enough to leave the loop and a store's thread alone."""
    while not holds():  # noqa: ASYNC110 - an observer of every step would be measured too
        await asyncio.sleep(every_s)
