"""``schedule-sm chat``: pipes in this process, and a real terminal in another one."""

from __future__ import annotations

import codecs
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.core.instants import format_instant
from tests.cli.running import Ran, run, stored, write_store
from tests.core.logs import create, log

ROOT = Path(__file__).parents[2]


def say(store: Path, *lines: str, session: str = "main") -> Ran:
    return run(
        "chat", "--store", store, "--session", session, stdin="".join(f"{line}\n" for line in lines).encode()
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.db"


def overdue_store(path: Path, prompt: str = "tea") -> Path:
    at = format_instant(time.time_ns() // 1_000_000 - 125_000)
    return write_store(path, {"main": stored(log(create("schedule-1", at=at, prompt=prompt)))})


def test_pipe_is_one_request_a_line_and_plain_lines_out(path: Path) -> None:
    ran = say(path, "remind me in 2 hours to stretch", "", "list", "hello")
    lines = ran.out.splitlines()
    assert ran.code == ExitCode.OK
    assert lines[0] == "I will remind you in 2 hours: stretch (schedule-1)."
    assert lines[1].startswith("schedule-1: stretch (in ")
    assert "remind me in 10 minutes" in lines[2]
    assert "\x1b" not in ran.out
    assert ran.err.startswith("1 reminder is pending, for 20")
    assert run("verify", path).code == ExitCode.OK


def test_last_line_needs_no_line_feed_and_bytes_that_are_no_text_do_no_harm(path: Path) -> None:
    ran = run("chat", "--store", path, stdin=b"\xff\xfe\r\nremind me in 1 hour to x")
    assert ran.out.endswith("I will remind you in 1 hour: x (schedule-1).\n")


def test_reopening_catches_up_and_says_how_late(path: Path) -> None:
    ran = say(overdue_store(path))
    assert ran.code == ExitCode.OK
    assert ran.out.startswith("reminder: tea (schedule-1, due ")
    assert ran.out.endswith(", 2 min 5 s late)\n")
    assert ran.err == ""
    assert say(path).out == ""  # once is enough


def test_wait_stays_for_what_is_not_due_yet(path: Path) -> None:
    # a second in real time: the whole program runs on its own loop and clock
    ran = run("chat", "--store", path, "--wait", "9", stdin=b"remind me in 1 second to look up\n")
    assert "reminder: look up (schedule-1, due " in ran.out
    assert ran.err == ""


def test_slash_commands(path: Path) -> None:
    ran = say(
        path,
        "/list",
        "remind me in 1 hour to x",
        "/list",
        "/why",
        "/why schedule-1",
        "/help",
        "/quit",
        "list",
    )
    assert ran.out.startswith("there are no active reminders\n")
    assert "schedule-1  20" in ran.out
    assert ran.out.count("schedule-1 is due at ") == 2
    assert "/why [ID]" in ran.out
    assert "schedule-1: x" not in ran.out  # what stands behind /quit is not asked


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/lst", "there is no command /lst; did you mean /list?"),
        ("/\x1b[2J", r"there is no command /\x1b[2J; /help lists them"),
        ("/why schedule-7", "was never created in this session"),
        ("/why schedule-1", "schedule-1: was deleted 20"),
        ("/why schedule-2", "schedule-2 is due at"),
    ],
)
def test_questions_about_what_is_not_there(path: Path, line: str, said: str) -> None:
    say(path, "remind me in 1 hour to x", "delete schedule-1", "remind me in 1 hour to y")
    assert said in say(path, line).out


def test_why_knows_what_was_delivered(path: Path) -> None:
    say(overdue_store(path))
    assert "schedule-1: was dispatched 20" in say(path, "/why schedule-1").out


def test_prompts_cannot_speak_to_the_terminal(path: Path) -> None:
    ran = say(path, "remind me in 1 hour to ring\x07 \x1b]0;title\x07\u202e [bold]", "/list", "list")
    assert "\x1b" not in ran.out
    assert "\x07" not in ran.out
    assert "\u202e" not in ran.out
    assert r"ring\x07" in ran.out
    assert "[bold]" in ran.out
    escaped = say(overdue_store(path.with_name("b.db"), "a\x1b[31mb"))
    assert r"reminder: a\x1b[31mb (" in escaped.out


def test_sessions_are_apart(path: Path) -> None:
    say(path, "remind me in 1 hour to x", session="one")
    assert say(path, "/list", session="two").out == "there are no active reminders\n"


def test_default_store_lies_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SCHEDULE_SM_STORE", raising=False)
    assert run("chat", stdin=b"remind me in 1 hour to x\n").code == ExitCode.OK
    assert run("verify", tmp_path / "data" / "schedule-sm" / "chat.db").code == ExitCode.OK


class Terminal:
    """A chat on a pseudo terminal of its own."""

    def __init__(self, path: Path, term: str) -> None:
        self._fd, child = os.openpty()
        environment = {**os.environ, "TERM": term, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "LINES": "24"}
        command = [sys.executable, "-m", "schedule_sm", "chat", "--store", str(path)]
        self.process = subprocess.Popen(
            command, stdin=child, stdout=child, stderr=child, env=environment, start_new_session=True
        )
        os.close(child)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def expect(self, text: str, since: int = 0) -> int:
        """Read until ``text`` is there; returns where it ends."""
        until = time.monotonic() + 15
        while text not in self.seen[since:]:
            assert time.monotonic() < until, f"{text!r} did not come:\n{self.seen}"
            assert self._read() or text in self.seen[since:], f"it ended without {text!r}:\n{self.seen}"
        return self.seen.index(text, since) + len(text)

    def wait(self) -> tuple[int, float]:
        """Return its exit code, and how many seconds its end took."""
        started = time.monotonic()
        while self.process.poll() is None:
            assert time.monotonic() < started + 15, f"it does not end:\n{self.seen}"
            if not self._read():
                self.process.wait(15)
        return self.process.returncode, time.monotonic() - started

    def _read(self) -> bool:
        """Take what there is, waiting a moment for it; ``False`` once the other side is closed."""
        if select.select([self._fd], [], [], 0.1)[0]:
            try:
                self.seen += self._decoder.decode(os.read(self._fd, 65_536))
            except OSError:  # EIO
                return False
        return True

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._fd)


@pytest.fixture(params=["xterm", "dumb"])
def terminal(request: pytest.FixtureRequest, path: Path) -> Iterator[Terminal]:
    opened = Terminal(path, request.param)
    yield opened
    opened.close()


# A real terminal needs a real process, which takes a second to start; a reminder takes another one.
@pytest.mark.slow
def test_reminder_arrives_while_a_line_is_being_typed(terminal: Terminal, path: Path) -> None:
    terminal.expect("you>")
    terminal.type("remind me in 1 second to look up\r")
    here = terminal.expect("I will remind you in 1 second")
    terminal.expect("you>", here)
    terminal.type("remind me in 2 ho")
    here = terminal.expect("reminder: look up (schedule-1, due ", here)
    terminal.expect("you>", here)
    terminal.type("urs to go on\r")
    here = terminal.expect("I will remind you in 2 hours: go on (schedule-2).", here)
    terminal.expect("you>", here)  # until then the terminal may be a cooked one, which makes a NUL of Ctrl-D
    terminal.type("\x04")
    code, seconds = terminal.wait()
    assert code == ExitCode.OK
    assert seconds < 5  # within a second on a quiet machine
    assert "1 reminder is pending" in terminal.seen
    assert run("verify", path).code == ExitCode.OK


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)]
)
def test_signals_end_it_in_order(path: Path, number: signal.Signals, code: ExitCode) -> None:
    opened = Terminal(path, "xterm")
    try:
        opened.expect("you>")
        opened.process.send_signal(number)
        assert opened.wait()[0] == code
        assert "Traceback" not in opened.seen
        assert say(path, "list").code == ExitCode.OK  # the lock is free
    finally:
        opened.close()


@pytest.mark.slow
def test_control_c_at_the_prompt_leaves_cleanly(path: Path) -> None:
    opened = Terminal(path, "xterm")
    try:
        # the first line is printed above a prompt that stands already: what is typed meanwhile meets a cooked terminal
        opened.expect("you>", opened.expect("session main"))
        opened.type("half a line\x03")
        assert opened.wait()[0] == ExitCode.OK
        assert "Traceback" not in opened.seen
    finally:
        opened.close()


@pytest.mark.parametrize("wait", ["inf", "nan", "-1", "1e9"])
def test_wait_that_is_no_length_of_time_is_a_usage_error(path: Path, wait: str) -> None:
    assert run("chat", "--store", path, "--wait", wait, stdin=b"").code == ExitCode.USAGE
