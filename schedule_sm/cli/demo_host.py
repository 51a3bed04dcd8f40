"""The host process of ``schedule-sm demo``: an embedded host on a real file, told what to do on stdin.

Run as ``python -m schedule_sm.cli.demo_host FILE``. Each input line is what the user says; each output line is one JSON
object: ``ready``, ``step`` (of a chart), ``reply`` or ``turn``. The end of the input closes the host in order.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from typing import Final

from schedule_sm.clock import wall_ms
from schedule_sm.embedded.builtin_runner import BuiltinRunner
from schedule_sm.embedded.runner import JsonValue, TurnOutput
from schedule_sm.embedded.runtime import LiveSession, ScheduleHost
from schedule_sm.tool_spec import ToolSpec

SESSION: Final = "demo"
_WORK: Final = re.compile(r"work for (\d+) seconds?", re.ASCII)


class WorkingRunner(BuiltinRunner):
    """The built-in runner, which can also be kept busy: ``work for 2 seconds``."""

    async def run_turn(
        self, session_id: str, history: Sequence[JsonValue], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        """Answer the user message that ends ``history``."""
        message = history[-1]
        asked = _WORK.fullmatch(str(message["content"])) if isinstance(message, dict) else None
        if asked is None:
            return await super().run_turn(session_id, history, tools)
        await asyncio.sleep(int(asked[1]))
        reply = f"Worked for {asked[1]} seconds."
        return TurnOutput([{"role": "assistant", "content": reply}], reply)


def _tell(what: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"what": what, "at_ms": wall_ms(), **fields}) + "\n")
    sys.stdout.flush()


class _Steps:
    """Tells of every chart's steps, and of each reminder that was armed: a chart's initial state takes no step."""

    def __init__(self) -> None:
        self.session: LiveSession | None = None
        self._armed: set[str] = set()

    def on_transition(self, chart: str, subject_id: str, source: str, event: str, target: str) -> None:
        if chart == "DeliveryChart":
            _tell("step", id=subject_id, source=source, event=event, target=target)
        elif self.session is not None and self.session.owner is not None:
            for reminder in self.session.owner.snapshot().reminders or ():
                if reminder.state == "armed" and reminder.id not in self._armed:
                    self._armed.add(reminder.id)
                    _tell("step", id=reminder.id, source="", event="create", target="armed")


async def _tell_turns(session: LiveSession) -> None:
    async for turn in session.turns():
        if turn.is_reminder:
            metadata = dict(turn.message.metadata)
            _tell("turn", reply=turn.reply, id=metadata["schedule_id"], late_ms=metadata["late_ms"])


async def _say(session: LiveSession, text: str) -> None:
    _tell("reply", asked=text, reply=await session.send(text))


async def _serve(path: str) -> None:
    steps = _Steps()
    async with ScheduleHost.open(path, runner=WorkingRunner(), observers=(steps.on_transition,)) as host:
        session = steps.session = await host.session(SESSION)
        async with asyncio.TaskGroup() as tasks:
            turns = tasks.create_task(_tell_turns(session))
            _tell("ready")
            loop = asyncio.get_running_loop()
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                tasks.create_task(_say(session, line.strip()))
            turns.cancel()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
