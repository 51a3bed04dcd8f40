"""After every commit ``wake_at`` equals what a replay of the stored log gives, whatever was appended."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schedule_sm.core.instants import format_instant
from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.inbox import TURN_ENDED, TURN_STARTED, Message
from schedule_sm.embedded.sessions import EmbeddedSession, EmbeddedSessions
from schedule_sm.embedded.wake import replay_wake_at
from schedule_sm.stores.memory import MemoryStore
from schedule_sm.stores.protocol import NewSession

PLUGIN = {"kind": "plugin", "plugin": "schedule-sm"}
STEPS = st.one_of(
    st.tuples(st.just("create"), st.integers(-(10**12), 10**12)),
    st.tuples(
        st.sampled_from(["delete", "deliver", "end", "start", "withdraw", "corrupt"]), st.integers(0, 5)
    ),
    st.tuples(st.sampled_from(["say", "flush"]), st.just(0)),
)


class Machine:
    """Appends what a host and its plugin might."""

    def __init__(self, session: EmbeddedSession) -> None:
        self.session = session
        self.active: list[str] = []
        self.queued: list[Message] = []
        self.created = 0

    def change(self, operation: str, **data: Any) -> None:
        self.session.append("schedule/change", {"version": 1, "operation": operation, **data})

    def step(self, what: str, argument: int) -> None:
        match what:
            case "create":
                self.created += 1
                self.active.append(f"schedule-{self.created}")
                schedule = {"id": self.active[-1], "kind": "after", "prompt": "p", "afterSeconds": 1}
                self.change("create", schedule={**schedule, "scheduledAt": format_instant(argument)})
            case "say":
                self.queued.append(self.session.queue_user_message("hi"))
            case "corrupt":
                if argument == 0:
                    self.change("delete", id="never created")
            case "delete" | "deliver" | "withdraw" if self.active:
                schedule_id = self.active[argument % len(self.active)]
                if what == "delete":
                    self.change("delete", id=schedule_id)
                    self.active.remove(schedule_id)
                    return
                message = self.session.queue_reminder("text", PLUGIN, {"schedule_id": schedule_id})
                if what == "withdraw":
                    self.session.withdraw_undispatched()
                    return
                self.change("dispatch", id=schedule_id)
                self.active.remove(schedule_id)
                self.queued.append(message)
            case "start" | "end" if self.queued:
                message = self.queued[argument % len(self.queued)]
                turn = {"message": message.id, "attempt": 1}
                if what == "start":
                    self.session.record(TURN_STARTED, turn)
                else:
                    output = {"format": "f", "items": [], "reply": "", "error": None}
                    self.session.record(TURN_ENDED, {**turn, "message_seq": message.seq, **output})
                    self.queued.remove(message)


async def run(steps: list[tuple[str, int]], seed: list[tuple[str, int]]) -> None:
    store = MemoryStore()
    sessions = EmbeddedSessions(store)
    parent_info = await store.acquire("parent", 0)
    parent = EmbeddedSession(
        sessions, "parent", EncodedLog(), header=NewSession(), epoch=parent_info.epoch, durable=0
    )
    before = Machine(parent)
    for what, argument in seed:
        before.step(what, argument)
    log = EncodedLog(parent.events.stored())
    info = await store.acquire("s", 0)
    header = NewSession(seed_length=len(log), parent="parent")
    session = EmbeddedSession(sessions, "s", log, header=header, epoch=info.epoch, durable=0)
    machine = Machine(session)
    for what, argument in [*steps, ("flush", 0)]:
        machine.step(what, argument)
        if what == "flush":
            assert await session.writer.flush() is True
            kept = store.place.sessions["s"]
            assert kept.info.next_seq == len(session.events)
            assert kept.info.wake_at == replay_wake_at(EncodedLog(kept.events), header.seed_length)
    resumed = EmbeddedSession(
        sessions, "s", EncodedLog(kept.events), header=header, epoch=1, durable=kept.info.next_seq
    )
    assert resumed.events[:] == session.events[:]
    assert len(resumed.inbox) == len(session.inbox)


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=30), st.lists(STEPS, max_size=8))
def test_wake_at_equals_a_replay_after_every_commit(
    steps: list[tuple[str, int]], seed: list[tuple[str, int]]
) -> None:
    asyncio.run(run(steps, seed))
