"""A chat in this process: the prompt on a scripted terminal, faults of disk and runner, signals."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from schedule_sm.cli import chat, screens
from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.embedded.builtin_runner import BuiltinRunner
from schedule_sm.embedded.runtime import LiveSession
from schedule_sm.stores.errors import DiskFullError
from schedule_sm.stores.protocol import Outcome
from schedule_sm.stores.sqlite import SqliteStore
from tests.cli.running import Ran, run, stored, write_store
from tests.core.logs import create, log


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


class ScriptedScreen:
    """Answers each read from a list; what it is shown is kept."""

    def __init__(self, *lines: str | None, is_interactive: bool = False) -> None:
        self.is_interactive = is_interactive
        self._lines = list(lines)
        self.shown: list[str] = []

    @contextmanager
    def open(self) -> Iterator[None]:
        yield

    def show(self, text: str, style: str = "") -> None:
        self.shown.append(text)

    async def read(self) -> str | None:
        return self._lines.pop(0) if self._lines else None


class RecordingOutput(DummyOutput):
    """A terminal of which only the text is kept."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, data: str) -> None:
        self.written.append(data)

    def write_raw(self, data: str) -> None:
        self.written.append(data)


def chat_on(screen: object, path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    monkeypatch.setattr(chat, "choose_screen", lambda: screen)
    return run("chat", "--store", path)


def test_prompt_takes_lines_and_control_d(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = RecordingOutput()
    with create_pipe_input() as typed, create_app_session(input=typed, output=output):
        typed.send_text("remind me in 2 hours to x\r/list\r\x04")
        ran = chat_on(screens.PromptScreen(), path, monkeypatch)
    shown = "".join(output.written)
    assert ran.code == ExitCode.OK
    assert "I will remind you in 2 hours: x (schedule-1)." in shown
    assert "in 1 h 59 min  x" in shown


def test_control_c_at_the_prompt_is_an_orderly_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        typed.send_text("half a line\x03")
        assert chat_on(screens.PromptScreen(), path, monkeypatch).code == ExitCode.OK


def test_what_did_not_reach_the_disk_is_told_with_the_fault_s_code(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: SqliteStore, batch: Any) -> list[Outcome]:
        self.last_fault = DiskFullError(str(self.path))
        return [Outcome.UNKNOWN] * len(batch)

    monkeypatch.setattr(SqliteStore, "append", fail)
    ran = run("chat", "--store", path, stdin=b"remind me in 1 hour to x\n")
    assert ran.code == ExitCode.DISK_FULL
    assert "persistence_uncertain" in ran.out
    assert "may be lost: no room is left" in ran.err
    assert "1 reminder is pending" not in ran.err
    assert "Traceback" not in ran.err


def test_slow_answer_gives_the_prompt_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> str:
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(chat, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(LiveSession, "send", hang)
    screen = ScriptedScreen("hello", "/why", is_interactive=True)
    assert chat_on(screen, path, monkeypatch).code == ExitCode.OK
    assert "(no answer yet; /why says more)" in screen.shown
    assert any("owner" in text.lower() for text in screen.shown)


def test_slow_close_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_PATIENCE_S", 0)
    assert "the disk does not answer yet" in chat_on(ScriptedScreen(), path, monkeypatch).err


def test_turn_that_fails_is_one_line_and_the_chat_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    overdue = stored(log(create("schedule-1", at="2020-01-01T00:00:00.000Z")))
    write_store(path, {"main": overdue})
    monkeypatch.setattr(BuiltinRunner, "run_turn", fail)
    ran = run("chat", "--store", path, stdin=b"hello\n/list\n")
    assert ran.code == ExitCode.OK
    assert "the turn failed (ZeroDivisionError)" in ran.out
    assert "a reminder's turn failed (ZeroDivisionError)" in ran.out
    assert "Traceback" not in ran.out + ran.err


def test_request_that_was_cut_off_is_answered_in_the_next_chat(path: Path) -> None:
    message = {"id": "main/message-0", "text": "list", "source": {"kind": "user"}, "metadata": {}}
    events = [{"seq": 0, "type": "inbox/message", "time": 0, "data": message}]
    write_store(path, {"main": stored(events)})
    ran = run("chat", "--store", path)
    assert ran.out == "(you said 'list' before this chat began)\nThere are no reminders.\n"


def test_session_without_an_owner_or_tools_says_what_to_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveSession, "owner", property(lambda _: None))
    ran = run("chat", "--store", path, stdin=b"/why\n")
    assert ran.out == "nobody delivers this session's reminders; leave and open it again\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_signal_ends_it_in_order(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: ExitCode
) -> None:
    class Waiting(ScriptedScreen):
        async def read(self) -> str | None:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
            return None

    assert chat_on(Waiting(), path, monkeypatch).code == code
    assert run("verify", path).code == ExitCode.OK


def test_second_signal_does_not_wait(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []

    class Waiting(ScriptedScreen):
        async def read(self) -> str | None:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
            return None

    monkeypatch.setattr(os, "_exit", left.append)
    chat_on(Waiting(), path, monkeypatch)
    assert len(left) == 1


def test_dumb_terminal_gets_its_prompt_again_after_a_reminder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screens, "_is_terminal", lambda _: True)
    screen = screens.LineScreen()
    with screen.open():
        screen.show("an answer")
        screen._is_reading = True
        screen.show("a reminder")
    assert capsys.readouterr().out == "an answer\n\na reminder\nyou> "


@pytest.mark.parametrize(
    ("term", "kind"), [("dumb", "LineScreen"), ("", "LineScreen"), ("xterm-256color", "PromptScreen")]
)
def test_terminal_that_cannot_draw_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, term: str, kind: str
) -> None:
    monkeypatch.setattr(screens, "_is_terminal", lambda _: True)
    monkeypatch.setenv("TERM", term)
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        screen = screens.choose_screen()
    assert type(screen).__name__ == kind
    if isinstance(screen, screens.LineScreen):
        with screen.open():
            pass
