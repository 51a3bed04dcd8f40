"""The web chat in a real headless Chromium, against a real server; ``.ci/full`` runs it.

Set ``SCHEDULE_SM_PICTURES`` to a folder to keep the pictures.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.examples.chromium import Page, find_chromium, open_page

CHAT = Path(__file__).parents[2] / "docs" / "examples" / "web_chat.py"
CHROMIUM = find_chromium()
LAST_LINE_IS_IN_SIGHT = """document.querySelector("li:last-child").getBoundingClientRect().bottom
    <= document.querySelector("main").getBoundingClientRect().bottom"""

pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif("SCHEDULE_SM_BROWSER" not in os.environ, reason=".ci/full sets SCHEDULE_SM_BROWSER=1"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]


@contextmanager
def server(store: Path, port: int = 0) -> Iterator[int]:
    """A server process on ``store``; yields its port, and ends it as Ctrl-C does."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", str(CHAT), str(store)],
        env={**os.environ, "PORT": str(port)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            told = []
            for line in process.stderr:
                told.append(line)
                if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                    break
            else:
                pytest.fail("".join(told))
            yield int(found[1])
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            assert process.wait(10) == 0, rest
            assert "Traceback" not in rest, rest
        finally:
            process.kill()


@pytest.fixture
def page() -> Iterator[Page]:
    assert CHROMIUM is not None
    with open_page(CHROMIUM) as page:
        yield page


def say(page: Page, text: str) -> None:
    page.run("document.querySelector('input').focus()")
    page.call("Input.insertText", text=text)
    page.call(
        "Input.dispatchKeyEvent",
        type="keyDown",
        key="Enter",
        code="Enter",
        text="\r",
        windowsVirtualKeyCode=13,
    )


def lines(page: Page, kind: str) -> list[str]:
    shown = page.run(f"[...document.querySelectorAll('li.{kind}')].map((line) => line.innerText)")
    return [text.replace("\u00a0", " ") for text in shown]


def test_reminder_appears_as_a_receipt_and_a_restart_is_caught_up(page: Page, tmp_path: Path) -> None:
    pictures = Path(os.environ.get("SCHEDULE_SM_PICTURES", tmp_path))
    pictures.mkdir(parents=True, exist_ok=True)
    page.show(1100, 760)
    with server(tmp_path / "chat.db") as port:
        page.call("Page.navigate", url=f"http://127.0.0.1:{port}/")
        page.wait_until("document.getElementById('link')?.innerText === 'connected'")
        say(page, "remind me in 1 second to drink <b>water</b> & stretch")
        page.wait_until("document.querySelector('li.receipt')")
        assert lines(page, "user") == ["remind me in 1 second to drink <b>water</b> & stretch"]
        assert lines(page, "agent") == [
            "I will remind you in 1 second: drink <b>water</b> & stretch (schedule-1)."
        ]
        prompt, facts = lines(page, "receipt")[0].split("\n", 1)
        assert prompt == "drink <b>water</b> & stretch"
        assert facts.startswith("due ")
        assert "on time" in facts
        assert facts.endswith("schedule-1")
        say(page, "remind me in 2 seconds to call the plumber about the kitchen tap")
        page.wait_until("document.querySelectorAll('li.agent').length === 2")
    page.wait_until("document.getElementById('link').innerText !== 'connected'")
    page.run("new Promise((done) => setTimeout(done, 3000))")  # the reminder's time passes while nothing runs
    with server(tmp_path / "chat.db", port):
        # the page reconnects by itself
        page.wait_until("document.querySelectorAll('li.receipt').length === 2")
        assert len(lines(page, "user")) == 2, "a reconnect shows nothing twice"
        assert "late" in lines(page, "receipt")[1]
        say(page, "list")
        page.wait_until("document.querySelectorAll('li.agent').length === 3")
        for name, width, is_phone in (("desktop", 1100, False), ("phone", 390, True)):
            for scheme in ("light", "dark"):
                page.show(width, 760, scheme, scale=2 if is_phone else 1, is_phone=is_phone)
                page.wait_until(f"document.documentElement.scrollWidth === {width}")  # nothing sticks out
                page.wait_until(LAST_LINE_IS_IN_SIGHT)
                page.picture(pictures / f"{name}-{scheme}.png")
        page.call("Page.reload")
        page.wait_until("document.querySelectorAll('li.receipt').length === 2")
        assert len(lines(page, "agent")) == 3, "a page that is opened later shows the whole conversation"
    assert [told for told in page.complaints if "ERR_" not in told] == []
