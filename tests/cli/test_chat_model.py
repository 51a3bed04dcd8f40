"""``schedule-sm chat --model``: a real run over the framework's test model, and what is missing for others."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from schedule_sm.cli import chat_model
from schedule_sm.cli.exit_codes import ExitCode
from tests.cli.running import Ran, run


def chat(folder: Path, model: str, said: str = "hello\n") -> Ran:
    return run("chat", "--store", folder / "chat.db", "--model", model, stdin=said.encode())


def missing(ran: Ran) -> str:
    assert (ran.code, ran.out) == (ExitCode.REQUIREMENT_MISSING, "")
    return ran.err.removeprefix("schedule-sm: ").rstrip("\n")


def test_test_model_runs_turns_with_the_tools_and_its_own_words(tmp_path: Path) -> None:
    ran = chat(tmp_path, "test", "hello\n/list\n/help\n")
    assert (ran.code, ran.err) == (ExitCode.OK, "")
    assert ran.out.startswith('{"schedule_create":')
    assert "\nthere are no active reminders\nI am test, and I keep reminders.\n" in ran.out
    assert run("verify", tmp_path / "chat.db").code == ExitCode.OK


def test_reminder_is_shown_with_what_the_model_says_of_it(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    assert run("chat", "--store", path, stdin=b"remind me in 1 second to look up\n").code == ExitCode.OK
    ran = run("chat", "--store", path, "--wait", "5", "--model", "test")
    assert "reminder: look up (schedule-1, due " in ran.out
    assert ran.out.splitlines()[1].startswith('{"schedule_create":')


def test_missing_key_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ran = chat(tmp_path, "openai:gpt-5")
    assert missing(ran) == "the model 'openai:gpt-5' needs the environment variable OPENAI_API_KEY"
    assert not (tmp_path / "chat.db").exists()


def test_missing_package_of_the_provider_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "groq", None)
    expected = "the model 'groq:x' needs the package groq: pip install 'pydantic-ai-slim[groq]'"
    assert missing(chat(tmp_path, "groq:x")) == expected


def test_missing_framework_is_named_with_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("schedule_sm.adapters.requirement.version", version)
    monkeypatch.delitem(sys.modules, "schedule_sm.adapters.pydantic_ai", raising=False)
    assert missing(chat(tmp_path, "test")) == (
        "this adapter needs pydantic-ai-slim>=2.60,<3, which is not installed: pip install 'schedule-sm[pydantic-ai]'"
    )


@pytest.mark.parametrize("name", ["nonsense", "nonsense:x", "", ":", "openai", "\x1b[31m:x"])
def test_name_that_nobody_knows_is_refused(name: str, tmp_path: Path) -> None:
    said = missing(chat(tmp_path, name))
    assert said.endswith("; it takes provider:name, such as openai:gpt-5")
    assert "\x1b" not in said


def test_what_a_provider_says_in_other_words_is_passed_on() -> None:
    assert chat_model._lack("x:y", "region must be set") == (
        "the model 'x:y' cannot be used: region must be set; it takes provider:name, such as openai:gpt-5"
    )


def test_without_the_option_no_framework_is_loaded() -> None:
    code = "import sys, schedule_sm.cli.app; sys.exit('pydantic_ai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
