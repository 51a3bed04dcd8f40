"""A stage for scenarios: the plugin on the minimal host, on the real clock, and a record of what the host was asked."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from schedule_sm import plugin
from schedule_sm.core.instants import format_instant, parse_instant
from tests.minimal_host import MinimalHost

TIMER_MS = 2
"""How late a timer alone may be: its delay is rounded up, the wall clock down."""
TICK_MS = 60_000
"""The watcher's longest silence: so late a jump may be noticed."""
DELIVERY = ["flush", "reserve", "followup", "append", "release", "flush"]


class Call(NamedTuple):
    """One host call: the wall clock at it, its name, and the reminder it was about."""

    at_ms: int
    name: str
    id: str | None = None


class Stage:
    """One session with one live agent; ``async with`` begins and ends it."""

    def __init__(self, travel, *targets_ms, host=None):
        """Begin with reminders from an earlier life: ``r0``, ``r1``, … due at ``targets_ms``.

        A ``host`` of several stages has the plugin loaded already.
        """
        self._travel = travel
        self.host = host or MinimalHost()
        self.session = self.host.session(f"session-{len(self.host.known)}")
        self.targets = {}
        self.calls = []
        self.turn_may_end = asyncio.Event()
        self.turn_may_end.set()
        for number, target_ms in enumerate(targets_ms):
            self._record(f"r{number}", target_ms)
        if host is None:
            plugin.apply(self.host)

    def _record(self, schedule_id, target_ms):
        schedule = {
            "id": schedule_id,
            "kind": "after",
            "prompt": f"prompt of {schedule_id}",
            "afterSeconds": 1,
            "scheduledAt": format_instant(target_ms),
        }
        self.targets[schedule_id] = target_ms
        self.session.append("schedule/change", {"version": 1, "operation": "create", "schedule": schedule})

    async def __aenter__(self):
        self.agent = self.host.create_agent(f"agent of {self.session.id}", self.session, self._run_turn)
        self._watch(self.agent, "followup", lambda message: message.metadata["schedule_id"])
        self._watch(self.agent, "reserve_turn_admission", lambda: None)
        self._watch(self.session, "append", lambda type, data: data.get("id"))
        self._watch(self.host, "flush", lambda session: session.id)
        self.owner = plugin.schedule_owner(self.agent)
        await self._travel.settle()
        return self

    async def __aexit__(self, *exc):
        self.turn_may_end.set()
        await self.agent.close()
        if not self.host.live:
            await self.host.close()

    def _watch(self, subject, function, about):
        """Note each call before it is made; a reservation's end too."""
        asked = getattr(subject, function)
        name = "reserve" if function == "reserve_turn_admission" else function

        def call(*arguments):
            self.calls.append(Call(self._travel.now_ms, name, about(*arguments)))
            answer = asked(*arguments)
            if name != "reserve" or answer is None:
                return answer

            def release():
                self.calls.append(Call(self._travel.now_ms, "release"))
                answer()

            return release

        setattr(subject, function, call)

    async def _run_turn(self, agent, text):
        await self.turn_may_end.wait()

    async def create(self, after_s, prompt="tea"):
        """Let the model create a reminder; returns its id."""
        tool = self.agent.ctx.tools.by_name["schedule_create"]
        result = await tool.execute({"prompt": prompt, "after_seconds": after_s}, self.agent)
        view = result.value
        self.targets[view["id"]] = parse_instant(view["scheduledAt"])
        assert self.targets[view["id"]] == self._travel.now_ms + after_s * 1000
        return view["id"]

    @property
    def arrivals(self):
        """``(id, wall clock)`` of each reminder handed over, in order."""
        return [(call.id, call.at_ms) for call in self.calls if call.name == "followup"]

    def late_ms(self, schedule_id):
        """How late a reminder came; fails unless it came exactly once."""
        (at_ms,) = [at_ms for arrived, at_ms in self.arrivals if arrived == schedule_id]
        return at_ms - self.targets[schedule_id]

    def check(self):
        """Each message has one dispatch record, none came early or twice, and the host was asked in the one order."""
        arrived = [id for id, _ in self.arrivals]
        assert len(arrived) == len(set(arrived))
        assert sum("[SCHEDULE REMINDER]" in turn for turn in self.agent.turns) == len(arrived)
        dispatched = [
            event["data"]["id"]
            for event in self.session.events
            if event["type"] == "schedule/change" and event["data"]["operation"] == "dispatch"
        ]
        assert dispatched == arrived
        assert all(self.late_ms(id) >= 0 for id in arrived)
        names = [call.name for call in self.calls]
        for place, call in enumerate(self.calls):
            if call.name == "followup":
                assert names[place - 2 : place + 4] == DELIVERY
                assert self.calls[place + 1].id == call.id

    def check_all_came(self, *, late_ms):
        """Every reminder came, exactly once, at most ``late_ms`` late, and nothing is left."""
        self.check()
        assert {id for id, _ in self.arrivals} == set(self.targets)
        assert max(self.late_ms(id) for id in self.targets) <= late_ms
        assert self.owner.state == "empty"
