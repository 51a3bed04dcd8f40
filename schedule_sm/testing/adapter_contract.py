"""``check_adapter``: the suite that every framework adapter has to pass, ours and other people's.

Each check drives a real ``ScheduleHost`` with a runner over the framework's own offline model and says in its name what
must hold. In a project of your own::

    @pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=lambda check: check.__name__)
    @pytest.mark.asyncio
    async def test_my_adapter(check, travel):
        await run_check(check, MyAdapter(), travel)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from schedule_sm.testing import adapter_tool_checks as tool_checks
from schedule_sm.testing import adapter_turn_checks as turn_checks
from schedule_sm.testing.adapter_suite import Adapter, Call, Reply, Request, Script, Scripted, Suite
from schedule_sm.testing.travel import Travel

__all__ = [
    "ADAPTER_CHECKS",
    "Adapter",
    "Call",
    "Reply",
    "Request",
    "Script",
    "Scripted",
    "Suite",
    "check_adapter",
    "run_check",
]

ADAPTER_CHECKS: Final = (
    tool_checks.the_model_is_shown_the_catalogue,
    tool_checks.a_good_call_is_answered_with_the_view,
    tool_checks.bad_arguments_of_every_kind_are_answered_with_a_value,
    tool_checks.arguments_that_no_library_could_carry_are_answered_with_a_value,
    tool_checks.refusals_use_up_nothing,
    tool_checks.lone_surrogates_harm_nothing,
    tool_checks.a_call_of_an_unknown_tool_harms_no_later_turn,
    tool_checks.calls_of_one_response_are_each_answered,
    tool_checks.calls_without_an_id_of_their_own_are_each_answered,
    tool_checks.a_call_from_another_event_loop_is_refused,
    tool_checks.a_tool_name_taken_twice_is_refused_before_the_model_is_asked,
    turn_checks.two_sessions_of_one_agent_are_kept_apart,
    turn_checks.a_due_reminder_gets_a_turn_of_its_own,
    turn_checks.a_reminder_due_in_mid_turn_waits_for_its_end,
    turn_checks.a_model_that_fails_fails_its_own_turn_only,
    turn_checks.the_next_turn_sees_what_was_said,
    turn_checks.a_turn_cut_off_anywhere_is_offered_again,
    turn_checks.a_reminder_whose_turn_crashed_is_offered_again,
    turn_checks.a_call_repeated_in_a_turn_offered_again_makes_no_second_reminder,
)
"""Every check, for a parametrised test: ``await run_check(check, adapter, travel)``."""

_Check: TypeAlias = Callable[[Suite], Awaitable[None]]


async def run_check(check: _Check, adapter: Adapter, travel: Travel) -> None:
    """Run one of ``ADAPTER_CHECKS``; ``travel`` moves the clocks (the fixture, or ``run_virtual``).

    Raises:
        AssertionError: where the adapter departs from the contract; it names the check.
    """
    try:
        await check(Suite(adapter, travel))
    except Exception as error:
        msg = f"{adapter.name}, {check.__name__}: {type(error).__name__}: {error}"
        raise AssertionError(msg) from error


async def check_adapter(adapter: Adapter, travel: Travel) -> None:
    """Run the whole suite; it stops at the first check that fails and names it.

    Raises:
        AssertionError: where the adapter departs from the contract.
    """
    for check in ADAPTER_CHECKS:
        await run_check(check, adapter, travel)
