"""A host process on bad disks: ``python -m tests.faults.patient FOLDER SECONDS KIND/FAULT …``; prints what became of each.

The hosts run in one event loop at once, each on a file of its own, so one fault must not disturb the others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedule_sm.embedded import LiveSession, ScheduleHost
from schedule_sm.testing.store_contract import append_of
from tests.crash.kinds import open_store, place_of
from tests.embedded.scripted import ScriptedRunner, by_agent
from tests.faults.faults import FAULTS, unsynced_bytes
from tests.faults.loop_watch import watching

BUSY_TIMEOUT_MS, FLUSH_TIMEOUT_S, TOOL_TIMEOUT_S = 200, 0.5, 1.0
"""A tenth of what is shipped and less: the fault lasts a second here, not ten."""
PADDING = "!" * 5_000
"""More than what is left of a block on a full file system."""
PATIENCE_S = 40.0
"""Beyond the longest back-off."""


class Patient:
    """One host, one fault; ``report`` is what happened."""

    def __init__(self, folder: Path, name: str, lasts_s: float) -> None:
        kind, fault = name.split("/")
        self._path = place_of(folder, f"{kind}-{fault}", kind)
        self._fault = FAULTS[fault]()
        self._lasts_s = lasts_s
        self.report: dict[str, Any] = {}

    async def suffer(self) -> None:
        runner = ScriptedRunner()
        store = self._store = await open_store(self._path, busy_timeout_ms=BUSY_TIMEOUT_MS)
        try:
            async with ScheduleHost.open(
                store=store, runner=runner, flush_timeout_s=FLUSH_TIMEOUT_S, tool_timeout_s=TOOL_TIMEOUT_S
            ) as host:
                session = await host.session("s")
                await call(session, "create", prompt="kept", after_seconds=3_600)
                await call(session, "create", prompt="soon", after_seconds=1)
                self._fault.begin(self._path)
                try:
                    await self._during(session, runner)
                finally:
                    self._fault.end()
                await self._afterwards(session, runner)
                begun_at = asyncio.get_running_loop().time()
            self.report["closed_s"] = asyncio.get_running_loop().time() - begun_at
        finally:
            await store.close()

    async def _during(self, session: LiveSession, runner: ScriptedRunner) -> None:
        loop = asyncio.get_running_loop()
        begun_at = loop.time()
        answers, waited_s = [], []
        for name, arguments in (
            ("create", {"prompt": f"during{PADDING}", "after_seconds": 3_600}),
            ("list", {}),
            ("delete", {"id": "schedule-1"}),
        ):
            asked_at = loop.time()
            answers.append((await call(session, name, **arguments))["code"])
            waited_s.append(loop.time() - asked_at)
        self.report["answers"], self.report["waited_s"] = answers, max(waited_s)
        await asyncio.sleep(
            max(0.0, begun_at + self._lasts_s - loop.time())
        )  # how long it lasts is the fault
        self.report["fault"] = self._store.last_fault.code if self._store.last_fault else None
        self.report["came_during"] = len(runner.histories)
        snapshot = session.owner.snapshot() if session.owner else None
        self.report["owner_during"] = snapshot.state if snapshot else None

    async def _afterwards(self, session: LiveSession, runner: ScriptedRunner) -> None:
        """Nobody asks for anything: the reminder has to come by itself."""
        loop = asyncio.get_running_loop()
        begun_at = loop.time()
        async with asyncio.timeout(PATIENCE_S):
            async for turn in session.turns(after_seq=-1):
                self.report["came"] = turn.message.id
                break
        self.report["came_after_s"] = loop.time() - begun_at
        listed = await call(session, "list")
        self.report["listed"] = [view["prompt"].removesuffix(PADDING) for view in listed]
        self.report["unsynced"] = unsynced_bytes(self._path)
        self.report["turns"] = len(runner.histories)


async def call(session: LiveSession, name: str, **arguments: Any) -> Any:
    """Call one of the three tools."""
    return (await by_agent(session.agent)[name].invoke(arguments)).value


async def repeat_after_a_failed_sync(path: Path) -> dict[str, Any]:
    """Return the outcomes of one append, the sync of which fails at first, and what was not synced at its "yes"."""
    fault = FAULTS["sync-eio"]()
    store = await open_store(path)
    info = await store.acquire("s", 0)
    append = append_of(info)
    fault.begin(path)
    outcomes = [(await store.append([append]))[0].value for _ in range(2)]
    fault.end()
    outcomes.append((await store.append([append]))[0].value)
    unsynced = unsynced_bytes(path)
    await store.close()
    return {"outcomes": outcomes, "unsynced": unsynced}


async def close_and_reopen(path: Path, fault_name: str) -> dict[str, Any]:
    """Return how long a session's close took under a fault, and what was there when it was opened again after it."""
    loop = asyncio.get_running_loop()
    fault = FAULTS[fault_name]()
    store = await open_store(path, busy_timeout_ms=BUSY_TIMEOUT_MS)
    async with ScheduleHost.open(
        store=store, runner=ScriptedRunner(), flush_timeout_s=FLUSH_TIMEOUT_S, tool_timeout_s=TOOL_TIMEOUT_S
    ) as host:
        session = await host.session("s")
        await call(session, "create", prompt="kept", after_seconds=3_600)
        fault.begin(path)
        await call(session, "create", prompt="during", after_seconds=3_600)
        begun_at = loop.time()
        await session.close()
        closed_s = loop.time() - begun_at
        fault.end()
        again = await host.session("s")
        listed = [view["prompt"] for view in await call(again, "list")]
    await store.close()
    return {"closed_s": closed_s, "listed": listed}


async def main(folder: Path, lasts_s: float, faults: Sequence[str]) -> dict[str, Any]:
    patients = {fault: Patient(folder, fault, lasts_s) for fault in faults}
    async with watching() as watch:
        ends = await asyncio.gather(*(each.suffer() for each in patients.values()), return_exceptions=True)
    reports = {fault: patient.report for fault, patient in patients.items()}
    for fault, end in zip(faults, ends, strict=True):
        if end is not None:
            reports[fault]["error"] = "".join(traceback.format_exception(end))
    reports["loop"] = {"longest_s": watch.longest_s}
    for kind in {fault.split("/")[0] for fault in faults if fault.endswith("/sync-eio")}:
        reports[f"{kind}/repeat"] = await repeat_after_a_failed_sync(place_of(folder, f"{kind}-repeat", kind))
        for fault in (
            ("locked", "sync-hangs", "write-eio") if kind == "sqlite" else ("sync-hangs", "write-eio")
        ):
            path = place_of(folder, f"{kind}-reopen-{fault}", kind)
            reports[f"{kind}/reopen-{fault}"] = await close_and_reopen(path, fault)
    return reports


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print(json.dumps(asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))))  # noqa: T201 - the report
