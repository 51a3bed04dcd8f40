"""A session's reminders as bars over one axis of time, in as many columns as the terminal has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.text import Text

from schedule_sm.cli.rendering import local_time, visible
from schedule_sm.cli.session_report import ReminderReport

MIN_WIDTH: Final = 20
"""With less room for the bars nothing can be told from them."""
_LABEL: Final = 14


class _Marks(NamedTuple):
    created: str
    waiting: str
    due: str
    late: str
    dispatched: str
    deleted: str
    now: str


_UNICODE: Final = _Marks("├", "─", "◆", "━", "●", "✕", "┊")
_ASCII: Final = _Marks("[", "-", "|", "=", "*", "x", ":")
STYLES: Final = {"scheduled": "cyan", "overdue": "bold red", "dispatched": "green", "deleted": "dim"}
"""How each reminder state is coloured, here and in the table."""


class _Span(NamedTuple):
    created: int
    target: int
    end: int | None


def draw(reminders: Sequence[ReminderReport], now_ms: int, width: int, *, is_unicode: bool) -> list[Text]:
    """Return the lines of a timeline ``width`` columns wide; none if that is too narrow or there is nothing."""
    label = min(_LABEL, max((len(visible(r.id)) for r in reminders), default=0))
    columns = width - label - 2
    if not reminders or columns < MIN_WIDTH:
        return []
    spans = [_span(reminder) for reminder in reminders]
    start = min(span.created for span in spans)
    end = max(max(span.target, span.end or now_ms) for span in spans)
    axis = _Axis(start, end, columns)
    marks = _UNICODE if is_unicode else _ASCII
    lines = []
    for reminder, span in zip(reminders, spans, strict=True):
        name = visible(reminder.id)
        if len(name) > label:
            name = f"{name[: label - 1]}{'…' if is_unicode else '~'}"
        bar = _bar(reminder, span, axis, now_ms, marks)
        lines.append(Text.assemble(f"{name:<{label}}  ", (bar, STYLES[reminder.state])))
    lines.append(Text(f"{'':<{label}}  {_ends(axis)}", style="dim"))
    legend = "  ".join(f"{mark} {meaning}" for mark, meaning in zip(marks, _Marks._fields, strict=True))
    lines.append(Text(legend, style="dim"))
    return lines


class _Axis(NamedTuple):
    start: int
    end: int
    columns: int

    def column(self, ms: int) -> int:
        """Return where an instant stands, from 0."""
        share = (ms - self.start) * (self.columns - 1) // max(self.end - self.start, 1)
        return min(max(share, 0), self.columns - 1)


def _span(reminder: ReminderReport) -> _Span:
    return _Span(reminder.created_ms, reminder.target_ms, reminder.ended_ms)


def _bar(reminder: ReminderReport, span: _Span, axis: _Axis, now_ms: int, marks: _Marks) -> str:
    cells = [" "] * axis.columns
    if axis.start <= now_ms <= axis.end:
        cells[axis.column(now_ms)] = marks.now
    created, target = axis.column(span.created), axis.column(span.target)
    last = axis.column(min(now_ms, axis.end) if span.end is None else span.end)
    wait_until = min(target, last) if reminder.state == "deleted" else target
    cells[created : wait_until + 1] = marks.waiting * (wait_until - created + 1)
    if reminder.state != "scheduled" and last > target:
        cells[target + 1 : last + 1] = marks.late * (last - target)
    cells[created] = marks.created
    if reminder.state != "deleted" or last > target:
        cells[target] = marks.due
    if reminder.state == "dispatched":
        cells[max(last, min(target + 1, axis.columns - 1))] = marks.dispatched
    elif reminder.state == "deleted":
        cells[last] = marks.deleted
    return "".join(cells).rstrip()


def _ends(axis: _Axis) -> str:
    """Both ends of the axis in local time, as far as they fit."""
    left, right = local_time(axis.start), local_time(axis.end)
    gap = axis.columns - len(left) - len(right)
    if gap >= 2:
        return f"{left}{' ' * gap}{right}"
    return left if len(left) <= axis.columns else left[11:19]
