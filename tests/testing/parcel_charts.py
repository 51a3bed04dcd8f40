"""Charts as another project might have them: guards, nested states, events without a name, coroutines.

It knows nothing of schedule_sm. Tests of the coverage plugin copy this file into a project of their own.
"""

from statemachine import HistoryState, State, StateChart


class ParcelChart(StateChart):
    """A flat chart with a guard and a loop."""

    catch_errors_as_events = False
    allow_event_without_transition = False

    packed = State(initial=True)
    sent = State()
    delivered = State(final=True)
    lost = State(final=True)

    heavy = False

    send_off = packed.to(sent, unless="heavy") | packed.to.itself(cond="heavy")
    scan = sent.to.itself()
    hand_over = sent.to(delivered)
    lose = sent.to(lost)


class CourierChart(StateChart):
    """Nested states, a history state, a transition without an event, one out of a whole compound state."""

    class working(State.Compound):  # noqa: N801 - the library names states after classes
        riding = State(initial=True)
        resting = State()
        back = HistoryState()
        rest = riding.to(resting)
        ride = resting.to(riding)

    paused = State()
    home = State(final=True)
    tired = State()

    pause = working.to(paused)
    resume = paused.to(working.back)
    finish = working.to(tired)
    tired.to(home)


class OvenChart(StateChart):
    """Two parallel regions, and a transition out of both."""

    class cooking(State.Parallel):  # noqa: N801 - as above
        class heat(State.Compound):  # noqa: N801 - as above
            cold = State(initial=True)
            hot = State()
            warm_up = cold.to(hot)
            cool = hot.to(cold)

        class light(State.Compound):  # noqa: N801 - as above
            dark = State(initial=True)
            bright = State()
            open_door = dark.to(bright)
            close_door = bright.to(dark)

    broken = State(final=True)
    fail = cooking.to(broken)


class AsyncChart(StateChart):
    """Its callbacks are coroutines, so the library runs it on its other engine."""

    idle = State(initial=True)
    busy = State()
    start = idle.to(busy)
    stop = busy.to(idle)

    async def on_start(self):
        return "started"
