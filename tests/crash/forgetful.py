"""A host with an in-memory inbox on a real store: it has the window that DESIGN section 1 states, no other.

``forgetful_life`` is one life of it, killed or not; ``judge_window`` says how often the window was hit, and that nothing
else happened.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from schedule_sm import plugin
from schedule_sm.clock import wall_ms
from schedule_sm.embedded.durability import SessionWriter
from schedule_sm.embedded.encoded_log import EncodedLog, encode_data
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.protocol import NewSession
from schedule_sm.testing.travel import START, Travel, run_virtual
from tests.crash.judge import Story, facts, read_logs
from tests.crash.kinds import open_store
from tests.crash.life import LIFE_TIME_S, Plan, Witness, prepare_to_die
from tests.minimal_host import Agent, MinimalHost, Session

REMINDERS = 4


class ForgetfulSession(Session):
    """Its events go to the store; the inbox does not."""

    def open(self, log: EncodedLog, writer: SessionWriter) -> None:
        self.events, self._log, self.writer = log[:], log, writer

    def append(self, type: str, data: Any) -> None:
        super().append(type, data)
        self._log.add(type, wall_ms(), encode_data(data))


class ForgetfulAgent(Agent):
    """Tells the witness what was queued, and passes the failpoints of the embedded agent."""

    witness: Witness

    def followup(self, message: Any) -> None:
        failpoint("followup.before")
        self.witness.say("queued", id=message.metadata["schedule_id"])
        super().followup(message)
        failpoint("followup.after")


class ForgetfulHost(MinimalHost):
    """Flushes through the embedded host's own writer."""

    async def flush(self, session: ForgetfulSession) -> bool:
        return await session.writer.flush()


async def _live(plan: Plan, travel: Travel, witness: Witness) -> None:
    store = await open_store(Path(plan.path))
    info = await store.acquire("s", wall_ms())
    log = EncodedLog(await store.read("s"))
    host = ForgetfulHost()
    session = ForgetfulSession(host, "s")
    writer = SessionWriter(
        store, "s", log, epoch=info.epoch, durable=info.next_seq, header=NewSession(), wake_at=lambda: None
    )
    session.open(log, writer)
    plugin.apply(host)
    ForgetfulAgent.witness = witness
    agent = host.live["s"] = ForgetfulAgent(
        host, "s", session, lambda _agent, _text: travel_nowhere(), is_root=True
    )
    host.emit("agent/created", agent)
    for number in range(REMINDERS):
        arguments = {"prompt": f"{plan.number}.{number}", "after_seconds": 1 + number // 2}
        value = (await agent.ctx.tools.by_name["schedule_create"].execute(arguments, agent)).value
        witness.say("created", session="s", id=value["id"], prompt=value["prompt"], at=value["scheduledAt"])
    await travel(60)
    await agent.close()
    await host.close()
    await writer.close()
    await store.close()


async def travel_nowhere() -> None:
    """A turn that does nothing."""


def forgetful_life(plan: Plan) -> None:
    """Live ``plan`` to its end; a killed process does not return."""
    witness = Witness(plan.witness, plan.number)
    prepare_to_die(plan)

    async def main(travel: Travel) -> None:
        await _live(plan, travel, witness)

    run_virtual(main, START + timedelta(seconds=LIFE_TIME_S * plan.number))


def judge_window(path: Path, witness: Path, life: int) -> int:
    """Return how many reminders ``life`` had queued without a durable dispatch; raises for any other fault."""
    story = read_logs(path).get("s", Story([]))
    told = facts(witness)
    for fact in told:
        assert fact["what"] != "created" or fact["id"] in story.created, f"the confirmed {fact['id']} is lost"
    queued = Counter(fact["id"] for fact in told if fact["what"] == "queued")
    assert all(ends == ["dispatch"] for ends in story.ended.values())
    assert queued.keys() >= story.ended.keys(), "a dispatch without its message"
    in_window = [
        f["id"] for f in told if f["what"] == "queued" and f["life"] == life and f["id"] not in story.ended
    ]
    return len(in_window)
