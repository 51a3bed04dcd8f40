"""A host process that is interrupted: ``python -m tests.faults.interrupted FILE HOW [TURN]``; says ``ready``, then waits.

``HOW``: ``idle`` or ``busy`` (a turn runs) is ended by Ctrl-C; ``left`` returns without closing its host, so that the
event loop is torn down under it; ``locked`` is ended by Ctrl-C while another program holds the write lock.

With ``TURN`` a second Ctrl-C comes that many turns of the event loop after the first, in a callback. One from outside
may land between two steps of asyncio itself, and what it then forgets to wake never ends: asyncio's runner raises
KeyboardInterrupt wherever the program stands.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import sys
from pathlib import Path
from typing import Any

from schedule_sm.embedded import ScheduleHost
from tests.embedded.scripted import ScriptedRunner, by_agent
from tests.faults.faults import WriteLock


async def _hold(_text: str, _tools: Any) -> None:
    await asyncio.Event().wait()


def _interrupt_again(turn: int) -> None:
    if turn > 0:
        asyncio.get_running_loop().call_soon(_interrupt_again, turn - 1)
    else:
        signal.raise_signal(signal.SIGINT)


async def _use(host: ScheduleHost, path: Path, how: str, in_use: asyncio.Event) -> None:
    session = await host.session("s")
    create = by_agent(session.agent)["create"]
    assert "scheduledAt" in (await create.invoke({"prompt": "kept", "after_seconds": 3_600})).value
    lock = WriteLock()
    async with asyncio.TaskGroup() as tasks:
        if how in ("busy", "locked"):
            tasks.create_task(session.send("hold"))
            await asyncio.sleep(0.05)  # the turn begins
        if how == "locked":
            lock.begin(path)
            atexit.register(lock.end)  # in force to the very end, and no leak of this program's own
            tasks.create_task(create.invoke({"prompt": "during", "after_seconds": 3_600}))
            await asyncio.sleep(0.05)  # the commit waits for the lock
        print("ready", flush=True)  # noqa: T201 - the answer to the parent
        in_use.set()
        await asyncio.Event().wait()


async def _main(path: Path, how: str, again: int | None) -> None:
    in_use = asyncio.Event()
    opened = ScheduleHost.open(path, runner=ScriptedRunner(_hold))
    if how == "left":
        host = await opened.__aenter__()
        using = asyncio.ensure_future(_use(host, path, "busy", in_use))
        await in_use.wait()
        assert not using.done()
        return
    async with opened as host:
        try:
            await _use(host, path, how, in_use)
        finally:
            if again is not None:
                _interrupt_again(again + 1)  # never from here: the host is to be closing


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if sys.argv[3:] else None))
