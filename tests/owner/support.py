"""Short ways to script a life of the owner and to say what happened in it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from schedule_sm.core.instants import format_instant
from schedule_sm.testing import ScriptedHost
from tests.core import logs

CLOCK = 1_785_931_200_000
"""2026-08-05T12:00:00Z."""


def create(number, in_ms=0, *, prompt="tea"):
    """The create of ``schedule-<number>``, due ``in_ms`` after CLOCK."""
    return logs.create(f"schedule-{number}", at=format_instant(CLOCK + in_ms), prompt=prompt)


def delete(number):
    return logs.delete(f"schedule-{number}")


def dispatch(number):
    return logs.dispatch(f"schedule-{number}")


def appending(*changes):
    """Actions inside a scripted call that write ``changes`` to the log."""
    return [{"do": "append", "data": change} for change in changes]


CORRUPT = {"version": 1, "operation": "delete", "id": "nobody"}
TRIGGER, DISPOSE, DEPART = {"do": "trigger"}, {"do": "dispose"}, {"do": "depart"}


def set_clock(in_ms):
    return {"do": "set_clock", "ms": CLOCK + in_ms}


def scripted(*changes, clock_ms=CLOCK, **script):
    """A ScriptedHost whose log holds ``changes``; the keywords are the script."""
    return ScriptedHost(clock_ms=clock_ms, log=logs.log(*changes), script=script)


def calls(host):
    """The host calls in words, in order."""
    return [_word(call) for call in host.trace]


def _word(call):
    told = [call["call"], *(str(call[key]) for key in ("operation", "id") if key in call)]
    return " ".join([*told, *([call["result"]] if call.get("result") not in (None, "granted") else [])])


def changes(host):
    """What the package appended, in words."""
    return [
        f"{data['operation']} {data['schedule']['id'] if 'schedule' in data else data['id']}"
        for data in host.appended
    ]


async def stop(host):
    """Dispose as a host does, and wait for the end."""
    host.act(DISPOSE)
    await host.owner.wait_stopped()
    await host.settle()


@asynccontextmanager
async def living(host):
    """Start the owner, let it settle, and stop it at the end."""
    await host.do({"do": "start"})
    try:
        yield host
    finally:
        await stop(host)


def tool_task(host, name, arguments=None):
    """Call a tool in a task of its own."""
    return asyncio.create_task(host.call_tool(name, {} if arguments is None else arguments))


class BrokenLog(list):
    """A log that the host can no longer read: our own fold meets an exception of no class that it knows."""

    broken = False

    def __len__(self):
        if self.broken:
            raise MemoryError("no log")
        return super().__len__()


class Steps:
    """Every step of both charts, in order, as (chart, subject, source, event, target)."""

    def __init__(self):
        self.taken = []

    def __call__(self, *step):
        self.taken.append(step)

    @property
    def owner(self):
        """The events of the owner's chart."""
        return [event for chart, _, _, event, _ in self.taken if chart == "OwnerChart"]

    def of(self, number):
        """The events of one reminder's chart."""
        return [
            event
            for chart, subject, _, event, _ in self.taken
            if chart == "DeliveryChart" and subject == f"schedule-{number}"
        ]

    def edges(self, chart):
        return {(source, event, target) for name, _, source, event, target in self.taken if name == chart}
