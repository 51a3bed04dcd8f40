"""The web chat, asked over ASGI without a server; ``test_web_chat_browser`` looks at it in a browser."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture
def web_chat(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("httpx")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "web_chat", raising=False)
    import web_chat

    return web_chat


def sent_events(body: str) -> list[tuple[int, Any]]:
    """``(id, data)`` of each server-sent event, read as the HTML standard says, for the fields that occur here."""
    found = []
    for block in body.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            found.append((int(fields["id"]), json.loads(fields["data"])))
    return found


class Visitor:
    """A client, and the app under it: ``async with`` opens and closes the host."""

    def __init__(self, web_chat: ModuleType, path: Path) -> None:
        import httpx

        self.app = web_chat.create_app(path)
        transport = httpx.ASGITransport(self.app)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://chat.test")
        self._lifespan = self.app.router.lifespan_context(self.app)
        self.get = self._client.get
        self.post = self._client.post

    async def __aenter__(self) -> Visitor:
        await self._lifespan.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.aclose()

    async def close_host(self) -> None:
        await self._lifespan.__aexit__(None, None, None)


async def finished_turns(visitor: Visitor, count: int) -> None:
    async with asyncio.timeout(10):
        ended = 0
        async for _ in visitor.app.state.session.turns(after_seq=-1):
            ended += 1
            if ended == count:
                return


async def follow(visitor: Visitor, **headers: str) -> list[tuple[int, Any]]:
    """What a page is sent until the host closes; httpx hands an ASGI body over when it is complete."""
    following = asyncio.create_task(visitor.get("/turns", headers=headers))
    await asyncio.sleep(0)
    await visitor.close_host()
    answer = await following
    assert answer.headers["content-type"].startswith("text/event-stream")
    return sent_events(answer.text)


@pytest.mark.asyncio
async def test_reminder_is_sent_as_the_receipt_of_its_dispatch(web_chat: ModuleType, tmp_path: Path) -> None:
    async with Visitor(web_chat, tmp_path / "chat.db") as visitor:
        page = await visitor.get("/")
        assert page.headers["content-type"].startswith("text/html")
        answer = await visitor.post(
            "/messages", json={"text": " remind me in 1 second to drink water\u2028& tea "}
        )
        assert answer.status_code == 202
        await finished_turns(visitor, 2)
        (_, asked), (last_seq, reminded) = await follow(visitor)
    assert asked["asked"] == "remind me in 1 second to drink water\u2028& tea"
    assert asked["reply"].startswith("I will remind you in 1 second")
    assert asked["error"] is None
    receipt = reminded["receipt"]
    assert list(receipt) == ["scheduleId", "prompt", "occurrenceAt", "deliveryMode"]
    assert receipt["scheduleId"] == "schedule-1"
    assert receipt["prompt"] == "drink water\u2028& tea"
    assert receipt["deliveryMode"] == "session-local"
    assert reminded["lateMs"] >= 0

    async with Visitor(
        web_chat, tmp_path / "chat.db"
    ) as visitor:  # a browser that reconnects after a restart
        await visitor.post("/messages", json={"text": "list"})
        await finished_turns(visitor, 3)
        events = await follow(visitor, **{"Last-Event-ID": str(last_seq)})
    assert [event["asked"] for _, event in events] == ["list"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"content": "text=list", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}, 415),
        ({"content": '{"text":"list"}', "headers": {"Content-Type": "text/plain"}}, 415),
        ({"content": "{", "headers": {"Content-Type": "application/json"}}, 422),
        ({"json": ["list"]}, 422),
        ({"json": {"text": 1}}, 422),
        ({"json": {"text": "  "}}, 422),
        ({"json": {"text": "x" * 4_001}}, 422),
    ],
)
async def test_what_is_no_message_is_refused(
    web_chat: ModuleType, tmp_path: Path, request_: dict[str, Any], status: int
) -> None:
    async with Visitor(web_chat, tmp_path / "chat.db") as visitor:
        assert (await visitor.post("/messages", **request_)).status_code == status
        assert await follow(visitor, **{"Last-Event-ID": "no number"}) == []


def test_examples_are_short() -> None:
    for path in EXAMPLES.iterdir():
        if path.is_file():
            assert len(path.read_text(encoding="utf-8").splitlines()) < 150, path
