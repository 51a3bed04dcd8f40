"""The three calls against a host that fails: what is answered, what is logged, what is never told."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from schedule_sm.core.errors import SENTENCES
from schedule_sm.tools import error_value, register_schedule_tools
from tests.owner.support import CORRUPT, DEPART, appending, calls, changes, create, delete, living, scripted

pytestmark = pytest.mark.asyncio

CREATE = {"prompt": "buy the ring for Ada", "after_seconds": 60}
SECRET = "/var/lib/agent.db: password=hunter2"
CALLS = [
    ("schedule_create", CREATE, "create"),
    ("schedule_list", {}, "list"),
    ("schedule_delete", {"id": "schedule-1"}, "delete"),
]


def raising(*_):
    raise RuntimeError(SECRET)


async def raising_flush(session):
    raise RuntimeError(SECRET)


def quiet(host):
    """Tools only: nobody drives."""
    host._on_wake = lambda: host.trace.append({"call": "wake"})
    return host


async def test_create_flushes_notifies_appends_flushes_notifies():
    host = quiet(scripted())
    value, content = await host.call_tool("schedule_create", CREATE)
    assert calls(host) == ["flush", "wake", "append create schedule-1", "flush", "wake"]
    assert content == (
        '{"id":"schedule-1","kind":"after","prompt":"buy the ring for Ada","afterSeconds":60,'
        '"scheduledAt":"2026-08-05T12:01:00.000Z","state":"scheduled","deliveryMode":"session-local"}'
    )
    assert host.appended[0]["schedule"]["scheduledAt"] == value["scheduledAt"]


async def test_list_flushes_notifies_and_keeps_the_order_of_creates():
    host = quiet(scripted(create(2, 50), create(1, 10), create(3, -1), delete(2)))
    value, _ = await host.call_tool("schedule_list", {})
    assert [(view["id"], view["state"]) for view in value] == [
        ("schedule-1", "scheduled"),
        ("schedule-3", "overdue"),
    ]
    assert list(value[0]) == ["id", "kind", "prompt", "afterSeconds", "scheduledAt", "state", "deliveryMode"]
    assert calls(host) == ["flush", "wake"]


@pytest.mark.parametrize(
    ("off_ms", "state"),
    [(-1, "scheduled"), (0, "overdue"), (-(10**17), "scheduled"), (10**17, "overdue")],
    ids=["a millisecond before", "at the instant", "before year 1", "behind year 9999"],
)
async def test_list_says_overdue_from_the_instant_on_also_outside_the_years_of_the_log(off_ms, state):
    host = quiet(scripted(create(1, 10_000)))
    host.clock.wall_ms += 10_000 + off_ms
    value, _ = await host.call_tool("schedule_list", {})
    assert value[0]["state"] == state


async def test_second_delete_finds_nothing():
    host = quiet(scripted(create(1, 50)))
    first, _ = await host.call_tool("schedule_delete", {"id": "schedule-1"})
    second, content = await host.call_tool("schedule_delete", {"id": "schedule-1"})
    assert first == {"id": "schedule-1", "deleted": True}
    assert content == '{"id":"schedule-1","deleted":false,"code":"schedule_not_found"}'
    assert changes(host) == ["delete schedule-1"]
    assert second["deleted"] is False


async def test_ids_are_never_reused():
    host = quiet(scripted(create(1, 50), create(3, 50), delete(1), delete(3)))
    value, _ = await host.call_tool("schedule_create", CREATE)
    assert value["id"] == "schedule-4"


@pytest.mark.parametrize(("name", "arguments", "operation"), CALLS)
async def test_failing_flush_of_a_departed_agent_is_answered_and_not_spoken_of(name, arguments, operation):
    host = quiet(scripted(create(1, 9), flush=[{"outcome": "reject", "during": [DEPART]}]))
    value, _ = await host.call_tool(name, arguments)
    assert (value["code"], value["operation"]) == ("persistence_uncertain", operation)
    assert host.warnings == []


@pytest.mark.parametrize(("name", "arguments", "operation"), CALLS)
@pytest.mark.parametrize("outcome", ["reject", "unacknowledged"])
async def test_unconfirmed_preflight_names_the_operation_and_reads_nothing(
    name, arguments, operation, outcome
):
    host = quiet(scripted(create(1, 50), flush=[outcome]))
    value, _ = await host.call_tool(name, arguments)
    named = {"id": "schedule-1"} if operation == "delete" else {}
    assert value == {
        "code": "persistence_uncertain", "message": SENTENCES["persistence_uncertain"], "operation": operation, **named,
    }  # fmt: skip
    assert calls(host) == ["flush"]
    assert host.warnings == ["preflight"]


@pytest.mark.parametrize(("name", "arguments", "operation"), [CALLS[0], CALLS[2]])
async def test_unconfirmed_barrier_names_operation_and_id(name, arguments, operation):
    host = quiet(scripted(create(1, 50), flush=["ok", "reject"]))
    value, _ = await host.call_tool(name, arguments)
    assert list(value) == ["code", "message", "operation", "id"]
    assert (value["operation"], value["id"]) == (
        operation,
        "schedule-2" if operation == "create" else "schedule-1",
    )
    assert host.warnings == ["barrier"]


@pytest.mark.parametrize("answer", [1, "ok", None, False, [True]])
async def test_flush_that_answers_anything_but_true_is_unconfirmed(answer):
    host = quiet(scripted())

    async def flush(session):
        return answer

    host.ctx.flush = flush
    assert (await host.call_tool("schedule_list", {}))[0]["code"] == "persistence_uncertain"


async def test_gone_session_service_is_unconfirmed():
    host = quiet(scripted())
    host.ctx.sessions = None
    assert (await host.call_tool("schedule_list", {}))[0]["code"] == "persistence_uncertain"


@pytest.mark.parametrize("script", [{"append": ["throw"]}, None])
async def test_append_that_raises_is_an_internal_error_and_the_log_says_whether_it_happened(script):
    host = quiet(scripted(**(script or {})))
    if script is None:
        host.session.append = lambda type, data: (host.session.write(type, data), raising())
    value, _ = await host.call_tool("schedule_create", CREATE)
    assert value == error_value("internal_error")
    assert host.warnings == ["append"]
    host.session.append = host.session.write
    listed, _ = await host.call_tool("schedule_list", {})
    assert len(listed) == (script is None)


async def test_async_append_is_an_internal_error():
    host = quiet(scripted())

    async def append(type, data):
        pytest.fail("it must never run")

    host.session.append = append
    assert (await host.call_tool("schedule_create", CREATE))[0] == error_value("internal_error")


@pytest.mark.parametrize(("name", "arguments", "operation"), CALLS)
async def test_notification_that_raises_is_logged_and_the_result_stays(name, arguments, operation, caplog):
    host = scripted(create(1, 50))
    host._on_wake = raising
    value, _ = await host.call_tool(name, arguments)
    assert "code" not in value
    assert set(host.warnings) == {"owner"}
    assert SECRET in caplog.text


@pytest.mark.parametrize("reading", [1, 2])
async def test_clock_that_cannot_be_read(reading):
    """Before the append: internal_error. After it the reminder is durable, so the view stands."""
    host = quiet(scripted())
    now_ms, count = host.clock.now_ms, 0

    def flaky():
        nonlocal count
        count += 1
        return raising() if count == reading else now_ms()

    host.clock.now_ms = flaky
    value, _ = await host.call_tool("schedule_create", CREATE)
    assert value.get("code") == ("internal_error" if reading == 1 else None)
    assert changes(host) == (["create schedule-1"] if reading == 2 else [])
    assert host.warnings == ["owner"]


async def test_log_that_turns_corrupt_during_the_barrier_does_not_take_the_view_back():
    host = quiet(scripted(flush=["ok", {"outcome": "ok", "during": appending(CORRUPT)}]))
    assert (await host.call_tool("schedule_create", CREATE))[0]["id"] == "schedule-1"
    assert (await host.call_tool("schedule_list", {}))[0] == error_value("corrupt_schedule_log")
    assert (await host.call_tool("schedule_list", {}))[0] == error_value("corrupt_schedule_log")
    assert host.warnings == ["corrupt_log"] * 2


@pytest.mark.parametrize("broken", ["flush", "append", "clock", "wake", "corrupt"])
@pytest.mark.parametrize(("name", "arguments", "operation"), CALLS)
async def test_no_value_and_no_log_message_carries_a_prompt_a_path_or_a_backends_text(
    broken, name, arguments, operation, caplog
):
    host = quiet(scripted(create(1, 50, prompt=CREATE["prompt"])))
    if broken == "flush":
        host.ctx.flush = raising_flush
    elif broken == "append":
        host.session.append = raising
    elif broken == "clock":
        host.clock.now_ms = raising
    elif broken == "wake":
        host._on_wake = raising
    else:
        wrong = create(9, prompt=f" {CREATE['prompt']} ")
        host.session.write("schedule/change", {**wrong, "path": SECRET})
    caplog.set_level(logging.DEBUG)
    value, content = await host.call_tool(name, arguments)
    if isinstance(value, dict) and "message" in value:
        assert CREATE["prompt"] not in content
    assert "hunter2" not in content
    records = [record for record in caplog.records if record.name.startswith("schedule_sm")]
    for record in records:
        assert record.kind in {"preflight", "append", "owner", "corrupt_log"}
        assert CREATE["prompt"] not in record.getMessage()
        assert "hunter2" not in record.getMessage()
        assert record.session_id == host.session.id
        if record.exc_info is not None and record.exc_info[0] is not RuntimeError:
            assert CREATE["prompt"] not in caplog.text
    if broken == "corrupt":
        assert value == error_value("corrupt_schedule_log")


async def test_call_from_another_thread_is_refused():
    host = quiet(scripted())
    await host.call_tool("schedule_list", {})
    tool = host.agent.ctx.tools.by_name["schedule_list"]
    answers = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(tool.execute({}, host.agent))))
    thread.start()
    thread.join()
    assert answers[0].value == error_value("internal_error")
    assert calls(host) == ["flush", "wake"]


class TestRegistration:
    async def test_order_is_create_list_delete(self):
        host = scripted()
        dispose = register_schedule_tools(host.ctx, host.agent, host)
        assert list(host.agent.ctx.tools.by_name) == ["schedule_create", "schedule_list", "schedule_delete"]
        dispose()
        dispose()
        assert host.agent.ctx.tools.by_name == {}

    @pytest.mark.parametrize("taken", ["schedule_create", "schedule_list", "schedule_delete"])
    async def test_taken_name_rolls_the_others_back(self, taken):
        host = scripted()
        host.agent.ctx.tools.by_name[taken] = "somebody else's"
        with pytest.raises(ValueError, match=taken):
            register_schedule_tools(host.ctx, host.agent, host)
        assert host.agent.ctx.tools.by_name == {taken: "somebody else's"}

    async def test_async_register_is_refused_and_rolls_back(self):
        host = scripted()

        async def register(tool):
            pytest.fail("it must never run")

        host.agent.ctx.tools.register = register
        with pytest.raises(Exception, match="must be synchronous"):
            register_schedule_tools(host.ctx, host.agent, host)

    async def test_async_disposer_is_closed_and_logged(self, recwarn):
        host = scripted()
        register = host.agent.ctx.tools.register

        def registering(tool):
            dispose = register(tool)

            async def asynchronous():
                dispose()

            return asynchronous if tool.name == "schedule_list" else dispose

        host.agent.ctx.tools.register = registering
        register_schedule_tools(host.ctx, host.agent, host)()
        assert (list(host.agent.ctx.tools.by_name), host.warnings) == (["schedule_list"], ["owner"])
        assert not recwarn.list

    async def test_tool_that_cannot_be_taken_back_keeps_none_of_the_others(self):
        host = scripted()
        register = host.agent.ctx.tools.register

        def registering(tool):
            dispose = register(tool)
            return raising if tool.name == "schedule_list" else dispose

        host.agent.ctx.tools.register = registering
        dispose = register_schedule_tools(host.ctx, host.agent, host)
        tool = host.agent.ctx.tools.by_name["schedule_list"]
        dispose()
        assert list(host.agent.ctx.tools.by_name) == ["schedule_list"]
        assert (await tool.execute({}, host.agent)).value["code"] == "internal_error"
        assert host.warnings == ["owner"]


async def test_call_and_turn_ids_change_nothing():
    host = scripted()
    async with living(host):
        await host.call_tool("schedule_list", {})
        tool = host.agent.ctx.tools.by_name["schedule_list"]
        assert await tool.execute({}, host.agent, call_id="c", turn_id="t") == await tool.execute(
            {}, host.agent
        )


async def test_caller_goes_on_ahead_of_the_drive_that_its_call_set_off():
    host = scripted()
    flush = host.ctx.sessions.flush

    async def suspending(session):
        await asyncio.sleep(0)
        return await flush(session)

    host.ctx.sessions.flush = suspending
    async with living(host):
        calls_before = len(calls(host))
        await host.call_tool("schedule_create", CREATE)
        assert calls(host)[calls_before:] == ["flush", "append create schedule-1", "flush"]
        assert host.owner.state == "driving"
        await host.settle()
        assert calls(host)[calls_before:] == ["flush", "append create schedule-1", "flush", "flush"]
