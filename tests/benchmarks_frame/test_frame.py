"""The frame of the benchmark: rounds in turn, the least sample, the median round, verdicts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.benchmarks.frame import Figure, Figures, Kind, Row, Side, Target, Verdict, judge, measure

OURS, OTHER = Figure("ours", "ms"), Figure("other", "ms")


def target(
    limit: float = 2, *, kind: Kind = Kind.RATIO, stretch: float | None = None, slack: float = 1
) -> Target:
    other = None if kind is Kind.VALUE else OTHER
    return Target("1a", "ours over other", OURS, limit, other, kind, stretch=stretch, slack=slack)


def scripted(name: str, samples: list[float], calls: list[str]) -> Side:
    values: Iterator[float] = iter(samples)

    def side() -> Figures:
        calls.append(name)
        return {"ms": next(values)}

    return side


def test_sides_are_measured_in_turn_and_backwards_in_every_other_round() -> None:
    calls: list[str] = []
    sides = {name: scripted(name, [1.0] * 6, calls) for name in ("a", "b")}
    measure(Row(1, "", sides, [], samples=2), 3)
    assert "".join(calls) == "abab" + "baba" + "abab"


def test_least_sample_of_a_round_counts() -> None:
    row = Row(1, "", {"ours": scripted("ours", [5, 3, 4, 9, 8, 7], [])}, [], samples=3)
    assert measure(row, 2) == [{OURS: 3}, {OURS: 7}]


def test_median_round_is_judged_by_its_own_sides() -> None:
    judged = judge(target(), [{OURS: 9, OTHER: 1}, {OURS: 3, OTHER: 2}, {OURS: 1, OTHER: 1}], slack=False)
    assert (judged.figure, judged.ours, judged.other) == (1.5, 3, 2)
    assert judged.figures == (9, 1.5, 1)
    assert judged.verdict is Verdict.MET


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(1, Verdict.STRETCH), (1.001, Verdict.MET), (2, Verdict.MET), (2.001, Verdict.MISSED)],
)
def test_a_limit_itself_is_met(ours: float, verdict: Verdict) -> None:
    assert judge(target(2, stretch=1), [{OURS: ours, OTHER: 1}] * 3, slack=False).verdict is verdict


def test_slack_widens_the_limit_in_quick_runs_only() -> None:
    rounds = [{OURS: 3.0, OTHER: 1.0}] * 3
    assert judge(target(2, slack=1.5), rounds, slack=False).verdict is Verdict.MISSED
    judged = judge(target(2, slack=1.5), rounds, slack=True)
    assert (judged.verdict, judged.limit) == (Verdict.MET, 3)


@pytest.mark.parametrize(("kind", "figure"), [(Kind.RATIO, 1.5), (Kind.VALUE, 6), (Kind.EXCESS, 2)])
def test_kind_says_what_is_compared(kind: Kind, figure: float) -> None:
    assert judge(target(10, kind=kind), [{OURS: 6, OTHER: 4}] * 3, slack=False).figure == figure


def test_a_row_keeps_only_what_its_targets_need_and_can_have() -> None:
    alone = Target("1b", "ours alone", OURS, 1, kind=Kind.VALUE)
    sides: dict[str, Side] = {"ours": lambda: {"ms": 1}, "unused": lambda: {"ms": 1}}
    narrowed = Row(1, "", sides, [target(), alone]).narrowed([target(), alone])
    assert list(narrowed.sides) == ["ours"]
    assert narrowed.targets == [alone]
