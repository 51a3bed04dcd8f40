"""A headless Chromium on a pipe: just enough of the DevTools protocol to look at a page, use it and keep a picture.

``--remote-debugging-pipe``: JSON messages that end in NUL, in on descriptor 3, out on descriptor 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
PATIENCE_S = 30.0


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One tab."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number, self._rest = 0, b""
        self.complaints: list[str] = []
        """What the page's console and its exceptions said."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Call one method of the protocol in this tab."""
        return self._ask(method, sessionId=self._session, **params)

    def _ask(self, method: str, sessionId: str | None = None, **params: Any) -> Any:  # noqa: N803 - the protocol's
        self._number += 1
        command = {"id": self._number, "method": method, "params": params}
        if sessionId is not None:
            command["sessionId"] = sessionId
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            if answer.get("method") in (
                "Runtime.exceptionThrown",
                "Runtime.consoleAPICalled",
                "Log.entryAdded",
            ):
                self.complaints.append(json.dumps(answer["params"]))
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._answers], [], [], PATIENCE_S)[0], "the browser does not answer"
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser has ended"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_until(self, script: str) -> None:
        """Return once a JavaScript expression is true."""
        end = time.monotonic() + PATIENCE_S
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < end, (
                f"{script} is still not true; the page: {self.run('document.body.innerText')}"
            )
            time.sleep(0.05)

    def show(
        self, width: int, height: int, scheme: str = "light", *, scale: float = 1, is_phone: bool = False
    ) -> None:
        """Choose the window's size and the colour scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale}
        self.call("Emulation.setDeviceMetricsOverride", **size, mobile=is_phone)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path) -> None:
        """Keep what is to be seen as a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def open_page(chromium: str) -> Iterator[Page]:
    """A browser of its own, gone with everything it kept afterwards."""
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()
    profile = tempfile.mkdtemp(prefix="schedule-sm-chromium-")
    starter = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
    browser = subprocess.Popen(
        ["bash", "-c", starter, "chromium", chromium, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(to_browser, from_browser),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(commands, answers)
    finally:
        os.close(commands)  # the browser ends when its pipe does
        os.close(answers)
        try:
            browser.wait(5)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
        shutil.rmtree(profile, ignore_errors=True)
