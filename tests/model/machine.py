"""The state machine: random interleavings of everything that people, hosts, disks and clocks do."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.model.stage import REFUSALS, STORE_FAULTS, Stage

SESSIONS = ("a", "b")
MOST_SESSIONS = 4

loop_turns = st.one_of(st.none(), st.integers(0, 12))
"""How far the loop gets before the next rule: some turns, or until all is quiet."""


class ScheduleMachine(RuleBasedStateMachine):
    """Drives a ``Stage``; what was promised is checked after every rule."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        for session_id in SESSIONS:
            self.stage.run(self.stage.open_session(session_id))

    def _do(self, turns: int | None, *actions: Any) -> None:
        async def part() -> None:
            for action in actions:
                action()
            await self.stage.turns_of_the_loop(turns)

        self.stage.run(part())

    def _session(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.stage.live)))

    has_live = precondition(lambda self: self.stage.live)

    # -- tools ----------------------------------------------------------------------------------------------

    @has_live
    @rule(data=st.data(), seconds=st.sampled_from((1, 1, 2, 30)), turns=loop_turns)
    def create(self, data: st.DataObject, seconds: int, turns: int | None) -> None:
        session = self._session(data)
        arguments = {"prompt": "p\x00\ud800", "after_seconds": seconds}
        self._do(turns, lambda: self.stage.begin_call(session, "create", arguments))

    @has_live
    @rule(data=st.data(), number=st.integers(1, 5), turns=loop_turns)
    def delete(self, data: st.DataObject, number: int, turns: int | None) -> None:
        session = self._session(data)
        self._do(turns, lambda: self.stage.begin_call(session, "delete", {"id": f"schedule-{number}"}))

    @has_live
    @rule(data=st.data(), turns=loop_turns)
    def list(self, data: st.DataObject, turns: int | None) -> None:
        session = self._session(data)
        self._do(turns, lambda: self.stage.begin_call(session, "list", {}))

    @precondition(lambda self: any(not call.done() for call in self.stage.calls))
    @rule(data=st.data(), turns=loop_turns)
    def cancel(self, data: st.DataObject, turns: int | None) -> None:
        open_calls = [call for call in self.stage.calls if not call.done()]
        self._do(turns, data.draw(st.sampled_from(open_calls)).cancel)

    # -- turns ----------------------------------------------------------------------------------------------

    @has_live
    @rule(data=st.data(), text=st.sampled_from(("hello", "hold", "fail", "create")), turns=loop_turns)
    def say(self, data: st.DataObject, text: str, turns: int | None) -> None:
        session = self.stage.live[self._session(data)]
        self._do(turns, lambda: self.stage.begin(session.send(text)))

    @rule(turns=loop_turns)
    def end_turns(self, turns: int | None) -> None:
        self._do(turns, self.stage.turns.let_go)

    @rule()
    def hold_what_comes_next(self) -> None:
        self.stage.turns.holds_next = True

    # -- faults ---------------------------------------------------------------------------------------------

    @rule(fault=st.sampled_from(STORE_FAULTS))
    def begin_fault(self, fault: str) -> None:
        self.stage.run(self._end_fault())
        self.stage.store.fault = fault

    @rule(turns=loop_turns)
    def end_fault(self, turns: int | None) -> None:
        self._do(turns, self.stage.store.end_fault)

    async def _end_fault(self) -> None:
        self.stage.store.end_fault()

    @rule(kinds=st.sets(st.sampled_from(REFUSALS)))
    def refuse(self, kinds: set[str]) -> None:
        self.stage.refused = kinds

    # -- clocks ---------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from((0.05, 1, 1, 2.5, 11, 40)))
    def wait(self, seconds: float) -> None:
        self.stage.run(self.stage.travel(seconds))

    @rule(seconds=st.sampled_from((-3, 0.9, 3, 100)))
    def jump(self, seconds: float) -> None:
        self.stage.run(self.stage.travel.jump(seconds))

    # -- coming and going -----------------------------------------------------------------------------------

    @has_live
    @rule(data=st.data(), turns=loop_turns)
    def close_session(self, data: st.DataObject, turns: int | None) -> None:
        session = self.stage.live.pop(self._session(data))
        self._do(turns, lambda: self.stage.begin_closing(session))

    @precondition(
        lambda self: self.stage.store.fault is None and len(self.stage.live) < len(self.stage.promises)
    )
    @rule(data=st.data())
    def open_session(self, data: st.DataObject) -> None:
        closed = sorted(self.stage.promises.keys() - self.stage.live.keys())
        self.stage.run(self.stage.open_session(data.draw(st.sampled_from(closed))))

    @precondition(
        lambda self: (
            self.stage.live and self.stage.store.fault is None and len(self.stage.promises) < MOST_SESSIONS
        )
    )
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        self.stage.run(self.stage.fork(self._session(data), f"fork-{len(self.stage.promises)}"))

    @rule(data=st.data(), crashes=st.booleans())
    def start_anew(self, data: st.DataObject, crashes: bool) -> None:
        self.stage.run(self.stage.crash() if crashes else self.stage.restart())
        for session_id in sorted(self.stage.promises):
            if data.draw(st.booleans()):
                self.stage.run(self.stage.open_session(session_id))

    # -- what must hold -------------------------------------------------------------------------------------

    @invariant()
    def keeps_its_promises(self) -> None:
        self.stage.check()

    def teardown(self) -> None:
        try:
            self.stage.run(self.stage.check_end())
        finally:
            self.stage.close()
