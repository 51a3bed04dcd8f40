"""The two screens of a chat: a prompt with line editing, and plain lines for pipes and dumb terminals."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.text import Text

from schedule_sm.cli.consoles import console
from schedule_sm.cli.conversation import COMMANDS
from schedule_sm.cli.stdin_lines import StdinLines

PROMPT: Final = "you> "


class ReadingScreen(Protocol):
    """A screen that can be read from."""

    is_interactive: bool
    """Whether a person sits there, who leaves when they leave; a pipe's end means "no more requests"."""

    def show(self, text: str, style: str = "") -> None:
        """Show lines of text."""

    async def read(self) -> str | None:
        """Return the next line without its end, ``None`` at the end of input or when the user leaves."""


class PromptScreen:
    """prompt_toolkit: a line that is being typed is drawn again below whatever arrives."""

    is_interactive = True

    def __init__(self) -> None:
        """Prepare; everything is written inside ``open``."""
        # a prompt of one line needs no cursor reports, and terminals that answer none get a warning printed
        os.environ.setdefault("PROMPT_TOOLKIT_NO_CPR", "1")
        from prompt_toolkit import PromptSession  # takes as long to import as the rest of the program
        from prompt_toolkit.completion import WordCompleter

        words = [command.split()[0] for command in COMMANDS]
        self._session: PromptSession[str] = PromptSession(
            PROMPT, completer=WordCompleter(words, sentence=True), complete_while_typing=False
        )

    @contextmanager
    def open(self) -> Iterator[None]:
        """Draw what others print above the prompt."""
        from prompt_toolkit.patch_stdout import patch_stdout

        with patch_stdout(raw=True):  # raw lets our own colours through; all foreign text is escaped
            self._console = console()
            yield

    def show(self, text: str, style: str = "") -> None:
        """Show lines above the prompt."""
        self._console.print(Text(text, style=style), soft_wrap=True)

    async def read(self) -> str | None:
        """Return the next line; ``None`` for Ctrl-C and Ctrl-D."""
        try:
            return await self._session.prompt_async(handle_sigint=False)
        except (KeyboardInterrupt, EOFError):
            return None


class LineScreen:
    """One request a line, plain lines out; a terminal, even a dumb one, gets a prompt too."""

    def __init__(self) -> None:
        """Read stdin in a thread of its own, which nobody waits for at the end."""
        self.is_interactive = _is_terminal(sys.stdin) and _is_terminal(sys.stdout)
        self._lines = StdinLines()
        self._is_reading = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """Stop reading at the end."""
        try:
            yield
        finally:
            self._lines.close()

    def show(self, text: str, style: str = "") -> None:
        """Print lines; on a terminal on a fresh line, with the prompt again behind them."""
        is_prompting = self.is_interactive and self._is_reading
        sys.stdout.write(f"\n{text}\n{PROMPT}" if is_prompting else f"{text}\n")
        sys.stdout.flush()

    async def read(self) -> str | None:
        """Return the next line; ``None`` at the end of input."""
        if self.is_interactive:
            sys.stdout.write(PROMPT)
            sys.stdout.flush()
        self._is_reading = True
        try:
            return await self._lines.read()
        finally:
            self._is_reading = False


def _is_terminal(stream: object) -> bool:
    return isinstance(stream, io.TextIOBase) and stream.isatty()


def choose_screen() -> PromptScreen | LineScreen:
    """Return a prompt where a terminal can draw one, else plain lines."""
    term = os.environ.get("TERM", "" if os.name == "posix" else "windows")
    is_dumb = term.lower() in ("", "dumb", "unknown")
    if _is_terminal(sys.stdin) and _is_terminal(sys.stdout) and not is_dumb:
        return PromptScreen()
    return LineScreen()
