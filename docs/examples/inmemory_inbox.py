"""A host with its log in a file and its inbox in memory, killed at the two moments where that shows.

Run ``python inmemory_inbox.py``. Each life of the host is a process of its own, and each crash is ``os._exit``.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from minimal_host import Agent, MinimalHost, Session

from schedule_sm import plugin, schedule_owner

KILLED = 9


class FileHost(MinimalHost):
    """The minimal host with durable sessions. Its inbox stays what it was: a deque of the agent's."""

    def __init__(self, path: Path, crash: str) -> None:
        """Keep the events in ``path``; die ``before`` or ``after`` a dispatch is durable, or ``never``."""
        super().__init__()
        self._path, self._crash = path, crash
        self.shown = asyncio.Event()

    def resume(self, session_id: str) -> Session:
        """Return the session with every event that is in the file."""
        session = self.session(session_id)
        session.events.extend(map(json.loads, self._path.read_text().splitlines()))
        session.durable = len(session.events)
        return session

    async def flush(self, session: Session) -> bool:
        """Write what is new. This is the moment where a crash separates the inbox from the log."""
        new = session.events[session.durable :]
        is_dispatch = any(event["data"].get("operation") == "dispatch" for event in new)
        if is_dispatch and self._crash == "before":
            await self.shown.wait()  # a slow disk: the turn of the queued message runs meanwhile
            os._exit(KILLED)
        with self._path.open("a") as file:
            file.writelines(json.dumps(event) + "\n" for event in new)
            file.flush()
            os.fsync(file.fileno())
        session.durable += len(new)
        if is_dispatch and self._crash == "after":
            os._exit(KILLED)  # a fast disk: the turn of the queued message has not begun
        return True

    async def run_turn(self, agent: Agent, text: str) -> None:
        """A turn: show the reminder to the user."""
        prompt = json.loads(text.split("\n")[-1].partition(": ")[2])
        print(f"    the user reads: {prompt}", flush=True)
        self.shown.set()


async def live(path: Path, crash: str) -> None:
    """One life of the host: ask for a reminder unless the log has one, and stay until nothing is left to deliver."""
    host = FileHost(path, crash)
    plugin.apply(host)
    session = host.resume("main")
    agent = host.create_agent("helper", session, host.run_turn)
    owner = schedule_owner(agent)
    assert owner is not None
    if not session.events:
        create = agent.ctx.tools.by_name["schedule_create"]
        result = await create.execute({"prompt": "drink water", "after_seconds": 1}, agent)
        print(f"    the user asks: {result.value['id']} will come in one second", flush=True)
    while owner.state != "empty":  # noqa: ASYNC110 - an example may poll; a program would use an observer
        await asyncio.sleep(0.01)
    await agent.when_idle()
    await agent.close()
    await host.close()


def logged(path: Path) -> str:
    """What the file says happened to the reminder."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return ", ".join(event["data"]["operation"] for event in events)


def crash_and_restart(folder: Path, crash: str) -> int:
    """Kill one host, start the next on the same file, and return how often the user read the reminder."""
    path = folder / f"{crash}.jsonl"
    path.touch()
    read = 0
    for life in (crash, "never"):
        print("  a host starts", flush=True)
        command = [sys.executable, __file__, str(path), life]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        print(ended.stdout, end="")
        print(f"    it {'is killed' if ended.returncode == KILLED else 'ends'}; the log says: {logged(path)}")
        sys.stderr.write(ended.stderr)
        read += ended.stdout.count("the user reads")
    return read


def main() -> None:
    """Show both."""
    with tempfile.TemporaryDirectory() as folder:
        print("Killed when the message is queued and its dispatch is not yet durable:")
        read = crash_and_restart(Path(folder), "before")
        print(f"  => {read} messages for one reminder. This is the duplicate window.\n")
        print("Killed when the dispatch is durable and the message's turn has not begun:")
        read = crash_and_restart(Path(folder), "after")
        print(f"  => {read} messages, and the log says dispatched. This is the in-memory loss.\n")
    print("The embedded host has neither: its inbox is in the log, in one transaction with the dispatch.")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(live(Path(sys.argv[1]), sys.argv[2]))
    else:
        main()
