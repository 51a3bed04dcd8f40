"""A prompt is data: it forges no framing, no log, no terminal, no SQL, and it comes back as it was."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_sm.core.ecmascript import join_surrogate_pairs
from schedule_sm.core.framing import render_reminder_framing
from schedule_sm.embedded import ScheduleHost
from schedule_sm.tools import render_value
from tests.cli.running import run, stored, write_store
from tests.core.logs import create, log
from tests.embedded.scripted import ScriptedRunner, by_agent, types_of
from tests.security.hostile import PROMPTS, STORES, open_store

ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
@pytest.mark.asyncio
async def test_hostile_prompt_is_kept_and_delivered_as_data_and_as_nothing_else(
    travel, tmp_path: Path, kind: str, prompt: str
) -> None:
    store = await open_store(kind, tmp_path)
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        bystander = by_agent((await host.session("bystander")).agent)
        await bystander["create"].invoke({"prompt": "innocent", "after_seconds": 3600})
        tools = by_agent((await host.session("main")).agent)
        made = await tools["create"].invoke(json.dumps({"prompt": prompt, "after_seconds": 60}))
        assert made.value["prompt"] == prompt
        assert json.loads(made.content.encode())["prompt"] == prompt
    await store.close()
    store = await open_store(kind, tmp_path)  # everything went through the disk
    runner = ScriptedRunner()
    async with ScheduleHost.open(store=store, runner=runner) as host:
        bystander = by_agent((await host.session("bystander")).agent)
        session = await host.session("main")
        listed = await by_agent(session.agent)["list"].invoke({})
        assert [view["prompt"] for view in listed.value] == [prompt]
        assert json.loads(listed.content.encode()) == listed.value
        await travel(60)
        (text,) = runner.texts
        lines = text.encode().decode().split("\n")
        assert len(lines) == 5
        assert lines[2] == 'schedule_id_json: "schedule-1"'
        assert json.loads(lines[4].removeprefix("reminder_prompt_json: ")) == prompt
        assert [kind for kind in types_of(session) if "/" not in kind] == ["create", "dispatch"]
        assert [view["prompt"] for view in (await bystander["list"].invoke({})).value] == ["innocent"]
    await store.close()


@given(ANY_TEXT, ANY_TEXT)
def test_whatever_is_rendered_is_valid_utf_8_and_five_lines(schedule_id: str, prompt: str) -> None:
    text = render_reminder_framing(schedule_id, "2030-01-01T00:00:00.000Z", prompt).encode().decode()
    lines = text.split("\n")
    assert len(lines) == 5
    assert json.loads(lines[4].removeprefix("reminder_prompt_json: ")) == join_surrogate_pairs(prompt)
    value = {"id": schedule_id, "prompt": prompt}
    read = json.loads(render_value(value).encode())
    assert read == {key: join_surrogate_pairs(text) for key, text in value.items()}


@pytest.mark.parametrize("command", ["inspect", "chat", "verify"])
@pytest.mark.parametrize(
    "text", [PROMPTS[name] for name in ("terminal", "bidi", "markup", "framing", "surrogates")]
)
def test_no_command_lets_a_text_speak_to_the_terminal(tmp_path: Path, command: str, text: str) -> None:
    named = "".join(c for c in text if unicodedata.category(c) != "Cs")
    database = write_store(
        tmp_path / "a.db",
        {"main": stored(log(create("schedule-1", prompt=text))), named: stored(log(create("x")))},
        wake_at=None,  # so that verify has something to say of both
    )
    calls = {
        "inspect": [["inspect", database], ["inspect", database, "--session", "main"]],
        "chat": [["chat", "--store", database, "--session", "main"]],
        "verify": [["verify", database], ["convert", database, tmp_path / "x"]],
    }[command]
    for call in calls:
        ran = run(*call, stdin=f"list\n/list\nremind me in 5 minutes to {named}\n".encode())
        for character in ran.out + ran.err:
            assert character == "\n" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
