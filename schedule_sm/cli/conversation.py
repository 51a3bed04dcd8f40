"""What happens in a chat, whatever it is shown on: requests, slash commands, reminders, and the end.

A screen only reads lines and shows text; every text is escaped here.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import Any, Final, Protocol

from schedule_sm.cli.rendering import duration, local_time, visible, visible_lines, with_local_times
from schedule_sm.cli.session_report import ReminderReport, report_session
from schedule_sm.clock import wall_ms
from schedule_sm.core.errors import ScheduleError
from schedule_sm.core.instants import parse_instant
from schedule_sm.embedded.builtin_runner import HELP
from schedule_sm.embedded.runtime import LiveSession
from schedule_sm.embedded.turns import Turn
from schedule_sm.stores.protocol import SessionInfo

COMMANDS: Final = {
    "/list": "the active reminders, confirmed by the disk",
    "/why [ID]": "where each reminder stands and why it has not come, or what became of one",
    "/help": "this",
    "/quit": "leave; Ctrl-D and Ctrl-C do the same",
}


class Screen(Protocol):
    """Where a chat is shown."""

    def show(self, text: str, style: str = "") -> None:
        """Show lines of text, without tearing a line that is being typed."""


class Conversation:
    """One session being talked to."""

    def __init__(self, live: LiveSession, screen: Screen, introduction: str = HELP) -> None:
        """Talk to ``live``; ``introduction`` is what the agent says of itself on /help."""
        self._live = live
        self._introduction = introduction
        self._screen = screen
        self._opened_at = len(live.events)
        self._slash: dict[str, Callable[[str], Awaitable[None]]] = {
            "/list": self._list,
            "/why": self._why,
            "/help": self._help,
        }

    async def follow(self) -> None:
        """Show each reminder as it comes, and answers to what an earlier chat was cut off in, until the close."""
        async for turn in self._live.turns():
            if turn.is_reminder:
                self._screen.show(_reminder_line(turn), "bold yellow")
                if (
                    self._introduction is not HELP and turn.reply
                ):  # a model's words say more than the line above
                    self._screen.show(visible_lines(turn.reply))
            elif turn.message.seq < self._opened_at:
                self._screen.show(f"(you said {visible(turn.message.text)!r} before this chat began)", "dim")
                self._screen.show(_answer(turn))

    async def handle(self, line: str) -> bool:
        """Answer one line; ``False`` if it asks to leave."""
        said = line.strip()
        if not said:
            return True
        word, _, rest = said.partition(" ")
        if word in ("/quit", "/exit"):
            return False
        if not word.startswith("/"):
            await self._send(said)
        elif word in self._slash:
            await self._slash[word](rest.strip())
        else:
            near = get_close_matches(word, [*self._slash, "/quit"], n=1)
            hint = f"did you mean {near[0]}?" if near else "/help lists them"
            self._screen.show(f"there is no command {visible(word)}; {hint}", "red")
        return True

    async def _send(self, text: str) -> None:
        try:
            reply = await self._live.send(text)
        except ScheduleError as error:
            self._screen.show(visible(error.message), "red")
        else:
            self._screen.show(visible_lines(reply))

    # -- slash commands -------------------------------------------------------------------------------------

    async def _help(self, _rest: str) -> None:
        lines = [self._introduction, *(f"{command:<10} {meaning}" for command, meaning in COMMANDS.items())]
        self._screen.show("\n".join(lines))

    async def _list(self, _rest: str) -> None:
        agent = self._live.agent
        tool = next((tool for tool in agent.ctx.tools if tool.name == "schedule_list"), None)
        if tool is None:
            self._screen.show("this session has no reminders any more; leave and open it again", "red")
            return
        value = (await tool.execute({}, agent)).value
        if not isinstance(value, list):
            self._screen.show(f"not certain ({value['code']}); try again, or ask /why", "red")
            return
        now_ms = wall_ms()
        self._screen.show(
            "\n".join(_view_line(view, now_ms) for view in value) or "there are no active reminders"
        )

    async def _why(self, schedule_id: str) -> None:
        owner = self._live.owner
        if owner is None:
            self._screen.show("nobody delivers this session's reminders; leave and open it again", "red")
            return
        now_ms, snapshot = wall_ms(), owner.snapshot()
        reminders = snapshot.reminders or ()
        if schedule_id:
            chosen = [reminder for reminder in reminders if reminder.id == schedule_id]
            if not chosen:
                self._screen.show(self._what_became_of(schedule_id, now_ms))
                return
            reminders = tuple(chosen)
        lines = [snapshot.sentence(now_ms), *(reminder.sentence(now_ms) for reminder in reminders)]
        if snapshot.reminders is None:
            lines.append("the log has not been confirmed yet, so nothing is known of the reminders")
        self._screen.show("\n".join(visible(with_local_times(line)) for line in lines))

    def _what_became_of(self, schedule_id: str, now_ms: int) -> str:
        reports = {reminder.id: reminder for reminder in self._reports(now_ms)}
        report = reports.get(schedule_id)
        name = visible(schedule_id)
        if report is None:
            near = get_close_matches(schedule_id, reports, n=2)
            hint = (
                f"did you mean {' or '.join(map(visible, near))}?" if near else "/list shows the active ones"
            )
            return f"{name}: was never created in this session; {hint}"
        if report.ended_ms is None:
            return f"{name}: is in the log and not confirmed yet; ask again in a moment"
        if report.state == "deleted":
            return f"{name}: was deleted {local_time(report.ended_ms)}"
        turn = "" if report.turn in (None, "ended") else f"; its turn: {report.turn}"
        return f"{name}: was dispatched {local_time(report.ended_ms)}, {_lateness(report.late_ms or 0)}{turn}"

    def _reports(self, now_ms: int, end: int | None = None) -> list[ReminderReport]:
        header, events = self._live.header, self._live.events
        info = SessionInfo(
            self._live.id,
            seed_length=header.seed_length,
            parent=header.parent,
            epoch=0,
            next_seq=len(events),
            wake_at=None,
            created_at=0,
        )
        return report_session(info, events.stored()[header.seed_length : end], now_ms).reminders

    # -- the end --------------------------------------------------------------------------------------------

    def is_waiting_for(self, until_ms: int) -> bool | None:
        """Whether something due at ``until_ms`` has not been shown yet; ``None`` if it cannot come in this chat."""
        if self._live.agent.is_busy:
            return True
        owner = self._live.owner
        if owner is None or owner.state in ("stopping", "stopped", "faulted"):
            return None
        reminders = owner.snapshot().reminders
        if reminders is None:
            return True
        return any(reminder.target_ms <= until_ms for reminder in reminders)

    @property
    def unwritten(self) -> int:
        """How many events the disk does not have."""
        return len(self._live.events) - self._live.log.writer.durable

    def farewell(self) -> str | None:
        """Return what is left behind on the disk, if anything is."""
        written = self._reports(wall_ms(), self._live.log.writer.durable)
        active = [reminder for reminder in written if reminder.ended_seq is None]
        if not active:
            return None
        first = min(reminder.target_ms for reminder in active)
        if len(active) == 1:
            return f"1 reminder is pending, for {local_time(first)}; open this session again to receive it"
        return f"{len(active)} reminders are pending, the first for {local_time(first)}; open this session for them"


def _reminder_line(turn: Turn) -> str:
    """Say what is due, since when and how late, from the framing that the model was shown."""
    if turn.error is not None:
        return f"a reminder's turn failed ({visible(turn.error)}); `schedule-sm inspect` shows it"
    fields = dict(line.split(": ", 1) for line in turn.message.text.split("\n")[2:])
    target_ms, now_ms = parse_instant(fields["occurrence_at"]), wall_ms()
    schedule_id, prompt = json.loads(fields["schedule_id_json"]), json.loads(fields["reminder_prompt_json"])
    when = f"due {local_time(target_ms)}, {_lateness(now_ms - target_ms)}"
    return f"reminder: {visible(prompt)} ({visible(schedule_id)}, {when})"


def _answer(turn: Turn) -> str:
    return visible_lines(turn.reply) if turn.error is None else f"the turn failed ({visible(turn.error)})"


def _lateness(late_ms: int) -> str:
    return "on time" if late_ms < 1_000 else f"{duration(late_ms)} late"


def _view_line(view: dict[str, Any], now_ms: int) -> str:
    target_ms = parse_instant(view["scheduledAt"])
    when = (
        f"in {duration(target_ms - now_ms)}"
        if target_ms > now_ms
        else f"{duration(now_ms - target_ms)} overdue"
    )
    return f"{visible(view['id'])}  {local_time(target_ms)}  {when}  {visible(view['prompt'])}"
