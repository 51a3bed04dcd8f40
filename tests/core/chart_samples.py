"""Charts that a flat table cannot express, each wrong in one way, and a small right one."""

from __future__ import annotations

from typing import Any

from statemachine import HistoryState, State, StateChart

from schedule_sm.core.edges import path, retry


class Strict(StateChart[Any]):
    allow_event_without_transition = False
    catch_errors_as_events = False


class Small(Strict):
    """A lamp."""

    off = State(initial=True)
    on = State()
    broken = State(final=True)

    switch = path(off.to(on), "pressed") | retry(on.to(off), "pressed again")
    fail = path(on.to(broken), "too old")


class Untagged(Strict):
    a = State(initial=True)
    b = State(final=True)
    go = a.to(b)


class AnySource(Strict):
    a = State(initial=True)
    b = State()
    c = State(final=True)
    go = path(a.to(b), "x")
    end = path(c.from_.any(), "copies lose the stamp")


class Guarded(Strict):
    a = State(initial=True)
    b = State(final=True)
    go = path(a.to(b, cond="ready"), "x")
    ready = True


class Validated(Strict):
    a = State(initial=True)
    b = State(final=True)
    go = path(a.to(b, validators=lambda: None), "x")


class Acting(Strict):
    a = State(initial=True)
    b = State(final=True)
    go = path(a.to(b, on=lambda: None), "x")


class Entering(Strict):
    a = State(initial=True)
    b = State(final=True, enter=lambda: None)
    go = path(a.to(b), "x")


class ByConvention(Strict):
    a = State(initial=True)
    b = State(final=True)
    go = path(a.to(b), "x")

    def on_enter_b(self) -> None: ...


class Lenient(StateChart[Any]):
    a = State(initial=True)
    b = State(final=True)
    go = path(a.to(b), "x")


class OwnValue(Strict):
    a = State(initial=True, value=1)
    b = State(final=True, value=2)
    go = path(a.to(b), "x")


class Hidden(Strict):
    a = State(initial=True)
    b = State(final=True)
    go = path(a.to(b), "x")
    loop = path(a.to.itself(internal=True), "x")


class Ambiguous(Strict):
    a = State(initial=True)
    b = State(final=True)
    c = State(final=True)
    go = path(a.to(b), "x") | path(a.to(c), "y")


class Nested(Strict):
    class a(State.Compound):  # noqa: N801 - the library names states after classes
        inner = State(initial=True)
        other = State(final=True)
        step = path(inner.to(other), "x")

    b = State(final=True)
    go = path(a.to(b), "x")


class WithHistory(Strict):
    class a(State.Compound):  # noqa: N801 - as above
        inner = State(initial=True)
        other = State()
        h = HistoryState()
        step = path(inner.to(other), "x")

    b = State()
    go = path(a.to(b), "x")
    back = path(b.to(a.h), "x")


class Wildcard(Strict):
    a = State(initial=True)
    b = State(final=True)
    go = path(a.to(b, event="*"), "x")


class Dotted(Strict):
    a = State(initial=True)
    b = State(final=True)
    error_seen = path(a.to(b), "declares error.seen too")


class Eventless(Strict):
    a = State(initial=True)
    b = State()
    c = State(final=True)
    a.to(b)
    go = path(b.to(c), "x")


class Listener: ...


class Listening(Strict):
    listeners = [Listener]
    a = State(initial=True)
    b = State(final=True)
    go = path(a.to(b), "x")
