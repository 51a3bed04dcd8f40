"""The commands by name, each loaded when it is asked for: ``--help`` and one command do not pay for all of them."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup

from schedule_sm.cli.exit_codes import ExitCode

SUMMARIES: Final = {
    "demo": "Show it working: about ten seconds, no key, no server; exit 1 if anything is not as promised.",
    "chat": 'Talk to the built-in agent; it understands "remind me in 10 minutes to stretch".',
    "mcp": "Serve the three tools and the resource schedule://due over MCP, on stdin and stdout.",
    "inspect": "Show sessions and their reminders: state, target, created, dispatched, how late, and a timeline.",
    "verify": "Replay every session under the invariant; exit 1 if anything is wrong.",
    "export": "Write sessions as JSON Lines: a header for the file and for each session, then its events in order.",
    "import": "Read an export into a store, in one transaction.",
    "convert": "Write the sessions of an SQLite file as a JSONL folder, or those of a folder as an SQLite file.",
    "diagrams": "Write tables and pictures of both charts: Markdown with Mermaid, DOT and SVG.",
}
"""What the list of commands says of each; a test holds it equal to the first line of the command's docstring."""

_HOMES: Final = {"export": ("export_sessions", "export"), "import": ("import_sessions", "import_")}
"""File and function of the commands whose names Python or its library has taken."""


class LazyCommands(TyperGroup):
    """A group that imports the file of a command when the command is run or its help is shown."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order in which they are shown."""
        return list(SUMMARIES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or ``None`` for a name that is none."""
        return load(cmd_name) if cmd_name in SUMMARIES else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


@functools.cache
def load(name: str) -> Any:
    """Return the command called ``name``; if the reader of its output goes away, it ends without a word."""
    module, function = _HOMES.get(name, (name, name))
    command: Callable[..., None] = getattr(import_module(f"schedule_sm.cli.{module}"), function)

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError as error:
            forget_stdout()
            raise typer.Exit(ExitCode.PIPE_CLOSED) from error

    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name)(guarded)
    return typer.main.get_command(alone)


def forget_stdout() -> None:
    """The reader of our output has gone; keep the interpreter from complaining when it flushes at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
