"""``schedule-sm demo``: about ten seconds of reminders in a real host process, killed and resumed, then checked.

On a terminal a live table shows each reminder's chart state change by change; in a pipe it prints plain lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from schedule_sm.cli.consoles import console, is_unicode
from schedule_sm.cli.demo_story import Check, checks, play
from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.cli.rendering import local_clock, visible
from schedule_sm.stores.sqlite import SqliteStore

_STYLES = {
    "armed": "cyan",
    "overdue": "yellow",
    "preflight": "yellow",
    "awaiting_admission": "magenta",
    "queued": "blue",
    "dispatched": "green",
    "deleted": "dim",
    "detached": "dim",
    "faulted": "red",
}


class PlainStage:
    """One line for each thing that happens."""

    def __init__(self, out: Console) -> None:
        """Print on ``out``."""
        self._out = out

    def scene(self, text: str) -> None:
        """A new part begins."""
        self._out.print(f"-- {visible(text)}", soft_wrap=True)

    def said(self, who: str, text: str) -> None:
        """The user or the agent said something."""
        self._out.print(f"   {who:>5}: {visible(text)}", soft_wrap=True)

    def step(self, schedule_id: str, state: str, event: str, at_ms: int) -> None:
        """A reminder's chart took a step."""
        self._out.print(f"          {local_clock(at_ms)} {schedule_id} --{event}--> {state}", soft_wrap=True)


class LiveStage:
    """A table that changes in place, with the latest lines of the conversation above it."""

    SHOWN_LINES = 12

    def __init__(self, live: Live, *, unicode: bool) -> None:
        """Show on ``live``."""
        self._live = live
        self._arrow = " → " if unicode else " > "
        self._lines: list[Text] = []
        self._paths: dict[str, list[str]] = {}
        self._since: dict[str, str] = {}

    def scene(self, text: str) -> None:
        """A new part begins."""
        self._lines.append(
            Text(f"• {visible(text)}" if self._arrow == " → " else f"* {visible(text)}", "bold")
        )
        self._refresh()

    def said(self, who: str, text: str) -> None:
        """The user or the agent said something."""
        line = Text(f"  {who:>5}: ", "green" if who == "user" else "cyan")
        self._lines.append(line.append(visible(text), "default"))
        self._refresh()

    def step(self, schedule_id: str, state: str, event: str, at_ms: int) -> None:
        """A reminder's chart took a step."""
        path = self._paths.setdefault(schedule_id, [])
        if not path or path[-1] != state:
            path.append(state)
        self._since[schedule_id] = local_clock(at_ms)
        self._refresh()

    def _refresh(self) -> None:
        table = Table(title="reminders, as their charts see them", title_justify="left", expand=True)
        table.add_column("id", no_wrap=True)
        table.add_column("state", no_wrap=True)
        table.add_column("since", no_wrap=True)
        table.add_column("the last steps", ratio=1)
        for schedule_id, path in sorted(self._paths.items()):
            state = Text(path[-1], _STYLES[path[-1]])
            table.add_row(schedule_id, state, self._since[schedule_id], self._arrow.join(path[-5:]))
        self._live.update(Group(*self._lines[-self.SHOWN_LINES :], table), refresh=True)


@contextlib.contextmanager
def _stage(out: Console) -> Iterator[PlainStage | LiveStage]:
    if not out.is_terminal or out.is_dumb_terminal:
        yield PlainStage(out)
        return
    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
        yield LiveStage(live, unicode=is_unicode(out))


async def _try_place(path: Path) -> None:
    """Raise StoreError here, with its own line and exit code, where the host process could only fail."""
    await (await SqliteStore.open(path)).close()


def _summary(out: Console, results: list[Check]) -> None:
    out.print()
    for check in results:
        word = Text("kept  ", "green") if check.kept else Text("BROKEN", "bold red")
        detail = f" ({check.detail})" if check.detail else ""
        out.print(word.append(f" {check.promise}{detail}", "default"), soft_wrap=True)


def demo(
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep the SQLite file here; it must not exist. Else a temporary one."
        ),
    ] = None,
) -> None:
    """Show it working: about ten seconds, no key, no server; exit 1 if anything is not as promised.

    A host process on a real SQLite file is asked for reminders; one is deleted, one comes due while a turn is running,
    one while the process is dead, killed with SIGKILL. The summary is checked against the log.

    Example: schedule-sm demo
    """
    if store is not None and store.exists():
        message = f"{store} exists already; name a file that does not"
        raise typer.BadParameter(message)
    out = console()
    with tempfile.TemporaryDirectory(prefix="schedule-sm-demo-") as folder:
        path = store or Path(folder) / "demo.db"
        asyncio.run(_try_place(path))
        with _stage(out) as stage:
            try:
                asyncio.run(play(path, stage))
            except (EOFError, TimeoutError) as error:
                what = "ended unexpectedly" if isinstance(error, EOFError) else "did not answer in time"
                typer.echo(f"schedule-sm: the host process {what}; its messages stand above", err=True)
                raise typer.Exit(ExitCode.FAILED) from error
        results = checks(path)
        _summary(out, results)
        if store is not None:
            out.print(f"\nLook into it: schedule-sm inspect {store}", soft_wrap=True)
    if not all(check.kept for check in results):
        raise typer.Exit(ExitCode.FAILED)
