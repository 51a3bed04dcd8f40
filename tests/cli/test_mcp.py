"""``schedule-sm mcp``: a child process, spoken to by the framework's own client and by raw lines."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning

from schedule_sm.adapters import requirement
from schedule_sm.cli import mcp as mcp_command
from schedule_sm.cli import mcp_stdio
from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.core.instants import format_instant
from schedule_sm.embedded.without_turns import SessionWithoutTurns
from schedule_sm.stores.errors import SessionHeldError
from schedule_sm.tools import AgentTools
from tests.cli.running import run, stored, write_store
from tests.core.logs import create, log

pytestmark = pytest.mark.timeout(60)
in_a_child = pytest.mark.slow
"""It imports the framework anew, which takes seconds."""

COMMAND = [sys.executable, "-W", "error", "-m", "schedule_sm"]
OPENING = (
    '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"test","version":"1"}}}'
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store whose one reminder is overdue."""
    at = format_instant(time.time_ns() // 1_000_000 - 125_000)
    return write_store(tmp_path / "a.db", {"main": stored(log(create("schedule-1", at=at, prompt="tea")))})


class Server:
    """The child, by raw lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    def read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self) -> tuple[int, bytes, bytes]:
        """Wait for the end; exit code, and what is left in stdout and stderr."""
        code = self.process.wait(30)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return code, self.process.stdout.read(), self.process.stderr.read()


@contextmanager
def serving(path: Path) -> Iterator[Server]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([*COMMAND, "mcp", "--store", path], bufsize=0, **pipes) as process:
        server = Server(process)
        try:
            server.send(OPENING)
            assert server.read()["result"]["serverInfo"]["name"] == "schedule-sm"
            yield server
        finally:
            process.kill()


def operations(path: Path) -> list[str]:
    exported = run("export", path)
    assert exported.code == ExitCode.OK
    return [
        event["data"]["operation"]
        for event in map(json.loads, exported.out.splitlines())
        if event.get("type") == "schedule/change"
    ]


@in_a_child
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.asyncio
async def test_client_of_the_framework_finds_tools_and_hears_of_what_is_due(path: Path, mode: str) -> None:
    parameters = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], "mcp", "--store", str(path)])
    heard = asyncio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.set()

    async with Client(parameters, mode=mode, message_handler=on_message) as client:
        assert client.session.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert "cannot start a turn" in (client.instructions or "")
        async with subscribed(client, mode):
            assert await overdue(client) == ["tea"]
            created = await client.call_tool("schedule_create", {"prompt": "stretch", "after_seconds": 9_999})
            assert created.structured_content["id"] == "schedule-2"
            assert not heard.is_set()
            assert (await client.call_tool("schedule_delete", {"id": "schedule-1"})).is_error is False
            await heard.wait()
            assert await overdue(client) == []
    assert operations(path) == ["create", "create", "delete"]
    assert run("verify", path).code == ExitCode.OK


@asynccontextmanager
async def subscribed(client: Client, mode: str) -> AsyncIterator[None]:
    if mode == "legacy":
        with warnings.catch_warnings(action="ignore", category=MCPDeprecationWarning):
            await client.subscribe_resource("schedule://due")
        yield
    else:
        async with client.listen(resource_subscriptions=["schedule://due"]):
            yield


async def overdue(client: Client) -> list[str]:
    [contents] = (await client.read_resource("schedule://due")).contents
    assert isinstance(contents, types.TextResourceContents)
    return [view["prompt"] for view in json.loads(contents.text)["overdue"]]


def call(number: int, arguments: str = "{}", name: str = "schedule_create") -> str:
    """A call as a line, its arguments as JSON text."""
    params = f'{{"name":"{name}","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}'


def exchange(path: Path, capfd: pytest.CaptureFixture[str], *lines: str) -> dict[Any, list[Any]]:
    """What the command, run here with ``lines`` as its input, answers by id; nothing else is on stdout."""
    ran = run("mcp", "--store", path, stdin="".join(f"{line}\n" for line in (OPENING, *lines)).encode())
    assert (ran.code, ran.out) == (ExitCode.OK, "")
    answers: dict[Any, list[Any]] = {}
    for line in capfd.readouterr().out.splitlines():
        answer = json.loads(line)
        answers.setdefault(answer["id"], []).append(answer)
    assert answers.pop(0)[0]["result"]["serverInfo"]["name"] == "schedule-sm"
    return answers


def test_whatever_a_model_sends_is_answered_before_the_end(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    delays = ["NaN", "1e400", "9" * 5000, '"60"', "[60]", "1.5"]
    delays += ["[" * levels + '{"a": "]}\\\\\\""}' + "]" * levels for levels in (62, 190, 300, 100_000)]
    refused = [
        call(number, f'{{"prompt": "x", "after_seconds": {delay}}}') for number, delay in enumerate(delays, 1)
    ]
    cut = call(50, '{"prompt": "cut \\ud83d and \\ud83d\\ude00", "after_seconds": 60}')
    answers = exchange(path, capfd, *refused, cut)
    for number, delay in enumerate(delays, 1):
        [answer] = answers[number]
        assert answer["result"]["isError"] is True, delay
        assert answer["result"]["structuredContent"]["code"] == "invalid_rule", delay
    [answer] = answers[50]
    assert answer["result"]["structuredContent"]["prompt"] == "cut \\ud83d and \N{GRINNING FACE}"
    assert operations(path) == ["create", "create"]


def test_what_is_no_call_is_an_error_of_the_protocol(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    strange = [call(1, "[1]"), call(2, '"x"'), call(3, "5")]
    lines = [
        "garbage",
        '{"jsonrpc":"2.0"}',
        "[]",
        '{"id":true}',
        "[" * 100_000,
        '{"id":"mine","x":"\\ud800"}',
        '{"jsonrpc":"2.0","id":"cut","method":"ping" "}',
        '{"jsonrpc":"2.0","id":"cut","method":"' + '{\\"' * 20_000,
    ]
    answers = exchange(path, capfd, *strange, "", " ", *lines, call(5, name="schedule_list"))
    codes = {key: [answer["error"]["code"] for answer in found] for key, found in answers.items() if key != 5}
    assert codes == {
        **{key: [types.INVALID_PARAMS] for key in (1, 2, 3)},
        "mine": [types.PARSE_ERROR],
        None: [types.PARSE_ERROR] * 7,
    }
    assert '"schedule-1"' in answers[5][0]["result"]["content"][0]["text"]


def test_stdout_has_the_protocol_alone(
    path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = AgentTools.list

    async def noisy(self: AgentTools, *given: Any) -> Any:
        os.write(1, b"written\n")
        await (await asyncio.create_subprocess_exec("echo", "echoed")).wait()
        return await plain(self, *given)

    monkeypatch.setattr(AgentTools, "list", noisy)
    assert list(exchange(path, capfd, call(1, name="schedule_list"))) == [1]
    os.write(1, b"given back\n")
    assert capfd.readouterr().out == "given back\n"


def test_call_that_is_never_answered_does_not_keep_the_end_waiting(
    path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(self: AgentTools, *given: Any) -> Any:
        await asyncio.Future()

    monkeypatch.setattr(mcp_stdio, "DRAIN_S", 0.05)
    monkeypatch.setattr(AgentTools, "create", hangs)
    [answer] = exchange(path, capfd, call(1))[1]
    assert "error" in answer


@in_a_child
def test_control_c_ends_it_in_order_and_frees_the_file(path: Path) -> None:
    with serving(path) as server:
        held = run("mcp", "--store", path)
        assert (held.code, held.out) == (ExitCode.LOCKED, "")
        assert f"in use by process {server.process.pid}" in held.err
        server.process.send_signal(signal.SIGINT)
        assert server.end() == (ExitCode.INTERRUPTED, b"", b"")
    assert run("chat", "--store", path, stdin=b"list\n").code == ExitCode.OK


@in_a_child
def test_sigterm_ends_it_also_if_the_client_reads_no_more(path: Path) -> None:
    with serving(path) as server:
        assert server.process.stdin is not None
        os.set_blocking(server.process.stdin.fileno(), False)
        while server.process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n') is not None:
            pass  # until its stdout is full, and then its stdin
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == ExitCode.TERMINATED
        assert server.process.stderr is not None
        assert server.process.stderr.read() == b""


@in_a_child
def test_client_that_is_gone_ends_it_without_a_word(path: Path) -> None:
    with serving(path) as server:
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.send('{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        assert server.process.wait(30) == ExitCode.PIPE_CLOSED
        assert server.process.stderr is not None
        assert server.process.stderr.read() == b""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], ExitCode.USAGE),
        (["--store", "nowhere/a.db"], ExitCode.FOLDER_MISSING),
        (["--store", "text.txt"], ExitCode.NOT_A_DATABASE),
        (["--store", "a.db", "--session", ""], ExitCode.USAGE),
    ],
)
def test_wrong_places_have_the_exit_codes_of_the_other_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: ExitCode
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("no database, but long enough to be looked at\n" * 100)
    ran = run("mcp", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)


def test_missing_framework_is_named_with_its_extra(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_of_it(name: str) -> str:
        raise requirement.PackageNotFoundError(name)

    for name in ("schedule_sm.adapters.mcp", "schedule_sm.cli.mcp_stdio"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(requirement, "version", none_of_it)
    ran = run("mcp", "--store", path)
    assert ran.code == ExitCode.REQUIREMENT_MISSING
    assert ran.err.endswith("which is not installed: pip install 'schedule-sm[mcp]'\n")


@pytest.mark.asyncio
async def test_folder_of_json_lines_is_served_too(path: Path, tmp_path: Path) -> None:
    assert run("convert", path, tmp_path / "folder").code == ExitCode.OK

    async def create_one(session: SessionWithoutTurns) -> None:
        [create] = [tool for tool in session.tools if tool.name == "schedule_create"]
        assert (await create.invoke({"prompt": "x", "after_seconds": 60})).value["id"] == "schedule-2"

    assert await mcp_command._serve(tmp_path / "folder", "main", create_one) == ExitCode.OK
    assert "schedule-2" in run("export", tmp_path / "folder").out


@pytest.mark.asyncio
async def test_session_that_another_host_takes_over_ends_it_with_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def for_ever(session: SessionWithoutTurns) -> None:
        await asyncio.Future()

    async def at_once(session: SessionWithoutTurns) -> None:
        return

    monkeypatch.setattr(SessionWithoutTurns, "wait_lost", at_once)
    with pytest.raises(SessionHeldError, match="'main' already has an owner"):
        await mcp_command._serve(path, "main", for_ever)


@pytest.mark.asyncio
async def test_failure_of_the_server_is_raised_after_the_session_is_closed(path: Path) -> None:
    async def fails(session: SessionWithoutTurns) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await mcp_command._serve(path, "main", fails)
    async with SessionWithoutTurns.open(path):
        pass


def test_the_command_line_loads_no_framework_before_it_is_asked_to() -> None:
    program = "import sys, schedule_sm.cli.app; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
