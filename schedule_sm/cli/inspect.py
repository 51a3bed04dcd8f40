"""``schedule-sm inspect``: what a store holds, also while a running host is using it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from schedule_sm.cli import timeline
from schedule_sm.cli.consoles import console, is_unicode
from schedule_sm.cli.options import OneSession, StoreFile, open_reader
from schedule_sm.cli.rendering import duration, local_time, utc_time, visible
from schedule_sm.cli.session_report import (
    READ_TYPES,
    ReminderReport,
    SessionReport,
    StoreReport,
    report_session,
)
from schedule_sm.clock import wall_ms

SHOWN_ROWS: Final = 100
"""How many reminders of a session are drawn; ``--json`` has them all."""
_TABLE_WIDTH: Final = 110
"""Narrower terminals get one paragraph a reminder in place of a table."""


def inspect(
    file: StoreFile,
    session: OneSession = None,
    as_json: Annotated[  # noqa: FBT002 - a command-line switch
        bool, typer.Option("--json", help="Print JSON for programs, version 1 of the form described below.")
    ] = False,
) -> None:
    """Show sessions and their reminders: state, target, created, dispatched, how late, and a timeline.

    The store is read as it stands at this moment, without a lock and without writing: a host may be running on it.

    --json prints one object: format "schedule-sm/inspect", version 1, store, readAt and sessions. A session has id,
    parent, seedLength, events (a count), createdAt, wakeAt, reminders and error (null, or seq and message). A reminder
    has id, state (scheduled, overdue, dispatched or deleted), prompt, afterSeconds, scheduledAt, createdAt,
    createdSeq, endedAt, endedSeq, lateMs and turn (null, waiting, started or ended). Instants are UTC,
    YYYY-MM-DDTHH:MM:SS.mmmZ. Later releases may add fields; none changes its meaning within version 1.

    Example: schedule-sm inspect agent.db --session main
    """
    now_ms = wall_ms()
    with open_reader(file) as reader:
        infos = reader.sessions() if session is None else [reader.session(session)]
        reports = (
            report_session(info, reader.events(info.id, info.seed_length - 1, types=READ_TYPES), now_ms)
            for info in infos
        )
        if as_json:
            store = StoreReport(store=str(file), read_at=utc_time(now_ms), sessions=list(reports))
            typer.echo(store.as_json())
            return
        screen = console()
        if not infos:
            typer.echo(f"{visible(str(file))} holds no sessions yet")
        for position, report in enumerate(reports):
            for part in _session(report, now_ms, screen, is_first=not position):
                screen.print(part, soft_wrap=not screen.is_terminal)


def _session(
    report: SessionReport, now_ms: int, screen: Console, *, is_first: bool
) -> Iterator[RenderableType]:
    if not is_first:
        yield Text()
    yield _headline(report)
    shown = _most_relevant(report.reminders)
    if shown:
        yield Text()
    if screen.width >= _TABLE_WIDTH and shown:
        yield _table(shown)
    else:
        yield from (_paragraph(reminder) for reminder in shown)
    if len(shown) < len(report.reminders):
        yield Text(f"… and {len(report.reminders) - len(shown)} more, which --json shows", style="dim")
    lines = timeline.draw(shown, now_ms, screen.width, is_unicode=is_unicode(screen))
    if lines:
        yield Text()
        yield Text("\n").join(lines)


def _headline(report: SessionReport) -> Text:
    counts = [
        f"{sum(reminder.state == state for reminder in report.reminders)} {state}"
        for state in timeline.STYLES
    ]
    said = f" · {report.events} events · created {local_time(report.created_ms)} · {', '.join(counts)}"
    if report.parent is not None:
        said += f" · forked from {visible(report.parent)} after {report.seed_length} events"
    line = Text.assemble("session ", (visible(report.id), "bold"), said)
    if report.error is not None:
        line.append(
            f"\n{visible(report.error.message)}; `schedule-sm verify` says what was expected", "bold red"
        )
    return line


def _most_relevant(reminders: list[ReminderReport]) -> list[ReminderReport]:
    """Return at most SHOWN_ROWS, by target: all that are active, then those that ended last."""
    active = [reminder for reminder in reminders if reminder.ended_seq is None]
    ended = sorted((r for r in reminders if r.ended_seq is not None), key=lambda r: -(r.ended_seq or 0))
    chosen = (sorted(active, key=lambda r: r.target_ms) + ended)[:SHOWN_ROWS]
    return sorted(chosen, key=lambda r: (r.target_ms, r.created_seq))


def _table(reminders: list[ReminderReport]) -> Table:
    table = Table(show_lines=True)
    for heading in ("reminder", "state", "due (local, UTC)", "created, ended", "late", "prompt"):
        table.add_column(heading, overflow="fold")
    for reminder in reminders:
        table.add_row(
            Text(visible(reminder.id)),
            _state(reminder),
            Text(f"{local_time(reminder.target_ms)}\n{reminder.scheduled_at}"),
            Text(f"{local_time(reminder.created_ms)}\n{_ended(reminder)}"),
            Text(_late(reminder)),
            Text(visible(reminder.prompt)),
        )
    return table


def _paragraph(reminder: ReminderReport) -> Text:
    late = _late(reminder)
    return Text.assemble(
        (visible(reminder.id), "bold"),
        "  ",
        _state(reminder),
        f"  {late} late" if late else "",
        f"\n  {visible(reminder.prompt)}",
        f"\n  due      {local_time(reminder.target_ms)}  {reminder.scheduled_at}",
        f"\n  created  {local_time(reminder.created_ms)}",
        f"\n  ended    {_ended(reminder)}" if reminder.ended_at else "",
    )


def _state(reminder: ReminderReport) -> Text:
    said = Text(reminder.state, style=timeline.STYLES[reminder.state])
    if reminder.turn in ("waiting", "started"):
        said.append(f" (turn {reminder.turn})", "yellow")
    return said


def _ended(reminder: ReminderReport) -> str:
    return "" if reminder.ended_ms is None else local_time(reminder.ended_ms)


def _late(reminder: ReminderReport) -> str:
    return "" if reminder.late_ms is None else duration(reminder.late_ms)
