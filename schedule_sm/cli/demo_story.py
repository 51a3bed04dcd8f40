"""What ``schedule-sm demo`` plays: a host process that is spoken to, killed, started again, and checked.

The story knows nothing of the terminal; it tells a ``Stage`` what happened.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from schedule_sm.cli.demo_host import SESSION
from schedule_sm.clock import wall_ms
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.core.instants import parse_instant
from schedule_sm.core.projection import fold_schedule_events
from schedule_sm.embedded.inbox import MESSAGE, TURN_ENDED, TURN_STARTED
from schedule_sm.stores.sqlite_reader import SqliteReader

PATIENCE_S: Final = 30.0
"""How long the story waits for the host before it gives up."""
LATENESS_S: Final = 1.5
"""How long the host stays dead beyond the last reminder's target."""


class Stage(Protocol):
    """Where the story is shown."""

    def scene(self, text: str) -> None:
        """A new part begins."""

    def said(self, who: str, text: str) -> None:
        """The user or the agent said something."""

    def step(self, schedule_id: str, state: str, event: str, at_ms: int) -> None:
        """A reminder's chart took a step."""


class HostProcess:
    """One run of the host process."""

    def __init__(self, process: asyncio.subprocess.Process, stage: Stage) -> None:
        """Listen to ``process``."""
        self._process = process
        self._stage = stage
        self._news = asyncio.Condition()
        self._told: list[dict[str, Any]] = []

    @classmethod
    @asynccontextmanager
    async def start(cls, path: Path, stage: Stage) -> AsyncIterator[HostProcess]:
        """Start a host on ``path``; whatever happens, it is gone afterwards."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schedule_sm.cli.demo_host", str(path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        host = cls(process, stage)
        listening = asyncio.create_task(host._listen())
        try:
            await host.told(lambda news: news["what"] == "ready")
            yield host
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await listening

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if not line.endswith(b"\n"):
                break  # killed while it wrote
            news = json.loads(line)
            if news["what"] == "step":
                self._stage.step(news["id"], news["target"], news["event"], news["at_ms"])
            elif news["what"] in ("reply", "turn"):
                self._stage.said("agent", news["reply"])
            async with self._news:
                self._told.append(news)
                self._news.notify_all()
        async with self._news:
            self._told.append({"what": "end"})
            self._news.notify_all()

    async def told(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the host has told what is ``wanted``; raises TimeoutError, or EOFError if it ended."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            seen = 0
            while True:
                for news in self._told[seen:]:
                    if wanted(news):
                        return news
                    if news["what"] == "end":
                        raise EOFError
                seen = len(self._told)
                await self._news.wait()

    async def say(self, text: str, *, wait: bool = True) -> None:
        """Say ``text`` as the user, and wait for the reply unless told not to."""
        self._stage.said("user", text)
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode() + b"\n")
        await self._process.stdin.drain()
        if wait:
            await self.told(lambda news: news["what"] == "reply" and news["asked"] == text)

    async def reminded(self, schedule_id: str) -> dict[str, Any]:
        """Wait until the reminder's turn has ended."""
        return await self.told(lambda news: news["what"] == "turn" and news["id"] == schedule_id)

    async def kill(self) -> None:
        """End it with SIGKILL: no clean-up, no last write."""
        self._process.kill()
        await self._process.wait()

    async def close(self) -> None:
        """End its input, so that it closes in order; raises TimeoutError if it does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            await self._process.wait()


async def play(path: Path, stage: Stage) -> None:
    """Play the whole story on the store at ``path``."""
    async with HostProcess.start(path, stage) as host:
        stage.scene(f"A host process ({host.pid}) opens {path.name}.")
        await host.say("remind me in 2 seconds to stretch")
        await host.say("remind me in 60 seconds to call the plumber")
        await host.say("delete schedule-2")
        await host.reminded("schedule-1")
        stage.scene("A reminder comes due while a turn is running, and waits.")
        await host.say("remind me in 1 second to drink water")
        await host.say("work for 2 seconds")
        await host.reminded("schedule-3")
        stage.scene("The host process is killed with SIGKILL while a reminder is pending.")
        await host.say("remind me in 2 seconds to take a break")
        await host.kill()
    target_ms = _recorded(path).targets["schedule-4"]
    await asyncio.sleep(max(0.0, (target_ms - wall_ms()) / 1_000) + LATENESS_S)
    async with HostProcess.start(path, stage) as host:
        stage.scene(f"A new host process ({host.pid}) opens the same file and catches up.")
        await host.reminded("schedule-4")
        await host.close()


@dataclass(slots=True)
class Recorded:
    """What the log says happened."""

    events: list[dict[str, Any]]
    targets: dict[str, int] = field(default_factory=dict)
    dispatched: dict[str, list[int]] = field(default_factory=dict)
    """Times of the dispatches, by reminder."""
    deleted: set[str] = field(default_factory=set)
    messages: dict[str, list[str]] = field(default_factory=dict)
    """Message ids by reminder."""
    turns_ended: set[str] = field(default_factory=set)
    """Ids of the messages whose turn has ended."""
    work: tuple[int, int] = (0, 0)
    """When the long turn began and ended."""


def _recorded(path: Path) -> Recorded:
    with SqliteReader(path) as reader:
        events = [
            {"seq": event.seq, "type": event.type, "time": event.time, "data": json.loads(event.body)}
            for event in reader.events(SESSION)
        ]
    recorded = Recorded(events)
    for event in events:
        _note(recorded, event["type"], event["data"], event["time"])
    return recorded


def _note(recorded: Recorded, kind: str, data: dict[str, Any], time_ms: int) -> None:
    if kind == SCHEDULE_CHANGE and data["operation"] == "create":
        recorded.targets[data["schedule"]["id"]] = parse_instant(data["schedule"]["scheduledAt"])
    elif kind == SCHEDULE_CHANGE and data["operation"] == "delete":
        recorded.deleted.add(data["id"])
    elif kind == SCHEDULE_CHANGE:
        recorded.dispatched.setdefault(data["id"], []).append(time_ms)
    elif kind == MESSAGE and "schedule_id" in data["metadata"]:
        recorded.messages.setdefault(data["metadata"]["schedule_id"], []).append(data["id"])
    elif kind == MESSAGE and data["text"].startswith("work for"):
        recorded.messages.setdefault("work", []).append(data["id"])
    elif kind == TURN_STARTED and data["message"] in recorded.messages.get("work", ()):
        recorded.work = (time_ms, time_ms)
    elif kind == TURN_ENDED:
        recorded.turns_ended.add(data["message"])
        if data["message"] in recorded.messages.get("work", ()):
            recorded.work = (recorded.work[0], time_ms)


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, and whether the log keeps it."""

    promise: str
    kept: bool
    detail: str = ""


def checks(path: Path) -> list[Check]:
    """Return every promise of the story, checked against the log alone."""
    log = _recorded(path)
    folded = fold_schedule_events(log.events)
    delivered = ("schedule-1", "schedule-3", "schedule-4")
    late = {i: log.dispatched[i][0] - log.targets[i] for i in delivered if i in log.dispatched}
    waited = log.targets.get("schedule-3", 0) < log.work[1] <= log.dispatched.get("schedule-3", [0])[0]
    turns = [message for i in delivered for message in log.messages.get(i, ())]
    return [
        Check(
            "every confirmed reminder is in the log",
            list(folded.seen_ids) == ["schedule-1", "schedule-2", "schedule-3", "schedule-4"],
            f"{len(folded.seen_ids)} created, none left over"
            if not folded.active
            else "some are still active",
        ),
        Check(
            "each was dispatched once, with one message",
            all(len(log.dispatched.get(i, ())) == len(log.messages.get(i, ())) == 1 for i in delivered),
        ),
        Check(
            "none came early", len(late) == len(delivered) and min(late.values()) >= 0, _spell_lateness(late)
        ),
        Check(
            "the deleted one never came",
            log.deleted == {"schedule-2"} and "schedule-2" not in log.messages,
        ),
        Check("the one due during a turn waited for its end", waited),
        Check(
            "the one due while the host was dead came after the restart",
            late.get("schedule-4", 0) >= LATENESS_S * 1_000,
            f"{late.get('schedule-4', 0) / 1_000:.1f} s late",
        ),
        Check(
            "every reminder had its turn", len(turns) == len(delivered) and log.turns_ended.issuperset(turns)
        ),
    ]


def _spell_lateness(late: dict[str, int]) -> str:
    return ", ".join(f"{i} {ms} ms after its target" for i, ms in late.items())
