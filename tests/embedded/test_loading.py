"""Sessions whose stored log is damaged: what can go on goes on, and what cannot is given back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.embedded import BuiltinRunner, ScheduleHost
from schedule_sm.embedded.encoded_log import encode_data
from schedule_sm.stores.memory import MemoryPlace, MemoryStore
from schedule_sm.stores.protocol import Append, StoredEvent
from tests.core.logs import create
from tests.embedded.scripted import by_agent


async def place_of(events: Sequence[tuple[str, str]]) -> MemoryPlace:
    """A place with the session ``s`` of these types and bodies."""
    store = MemoryStore()
    info = await store.acquire("s", 0)
    stored = tuple(StoredEvent(seq, type_, 1, body) for seq, (type_, body) in enumerate(events))
    await store.append([Append("s", info.epoch, 0, stored, None)])
    await store.close()
    return store.place


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        *(("inbox/message", body) for body in ('{"id', "{}", "7", "null")),
        ("inbox/message", '{"id":["m"],"text":"x","source":{},"metadata":{}}'),
        ("turn/started", '{"message":"m","attempt":"x"}'),
        ("turn/ended", '{"message":"m"}'),
        *(
            (
                "turn/ended",
                f'{{"message":"m","message_seq":{seq},"attempt":1,"format":"f","items":[],"reply":"","error":null}}',
            )
            for seq in (-1, 0, 9)
        ),
    ],
)
@pytest.mark.asyncio
async def test_session_whose_inbox_cannot_be_read_is_given_back(type_: str, body: str) -> None:
    place = await place_of([("note", "1"), (type_, body)])
    async with ScheduleHost.open(store=MemoryStore(place), runner=BuiltinRunner()) as host:
        for _ in range(2):
            with pytest.raises(ScheduleLogError, match="at event 1"):
                await host.session("s")
        assert place.sessions["s"].holder is None


@pytest.mark.asyncio
async def test_reminder_that_is_no_json_is_a_corrupt_log_and_the_rest_is_still_written(travel) -> None:
    place = await place_of(
        [
            ("schedule/change", encode_data(create("schedule-1"))),
            ("schedule/change", '{"version'),
            ("note", "1"),
        ]
    )
    async with ScheduleHost.open(store=MemoryStore(place), runner=BuiltinRunner()) as host:
        session = await host.session("s")
        await travel.settle()
        assert session.owner is not None
        assert session.owner.state == "faulted"
        answer = await by_agent(session.agent)["list"].invoke({})
        assert '"corrupt_schedule_log"' in answer.content
        assert await session.send("help")
        assert session.log.writer.durable == len(session.events) == 6
        with pytest.raises(ScheduleLogError) as caught:
            session.events[1]
        assert caught.value.seq == 1
