"""What a row of the benchmark is, how it is measured and how it is judged.

Within a round each side of a row is measured in turn, forwards in one round and backwards in the next, and the least of
its samples counts. A target is judged by the figure of the median round, so one disturbed round decides nothing.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median_low
from typing import Any, Final, TypeAlias

Figures: TypeAlias = Mapping[str, float]
"""What one sample of a side yields, by name; less is better in all of them."""

Side: TypeAlias = Callable[[], Figures]
"""Takes one sample. What is not part of the figure (filling a log, starting a process) it does outside its clock."""

MIN_ROUNDS: Final = 3


def in_a_loop(
    job: Callable[..., Coroutine[Any, Any, Figures]], *arguments: object, **options: object
) -> Side:
    """Return the side whose samples are ``job(*arguments, **options)``, each on an event loop of its own."""
    return lambda: asyncio.run(job(*arguments, **options))


class Kind(Enum):
    """What is compared with the limit."""

    RATIO = "ratio"
    """Ours over the other side's."""
    VALUE = "value"
    """Ours alone."""
    EXCESS = "excess"
    """Ours less the other side's."""


class Verdict(Enum):
    """What became of a target."""

    STRETCH = "stretch"
    """Met, and the harder target beside it too."""
    MET = "met"
    MISSED = "missed"
    REPORTED = "for comparison"
    """It has no limit."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one side."""

    side: str
    name: str


@dataclass(frozen=True, slots=True)
class Target:
    """One claim with its limit."""

    name: str
    """The row's id: ``1b``."""
    claim: str
    """What is compared, for people."""
    ours: Figure
    limit: float | None
    """At most this, in terms of ``kind``; ``None`` for a figure that others are to be seen beside."""
    other: Figure | None = None
    kind: Kind = Kind.RATIO
    stretch: float | None = None
    """A harder limit that is reported but not required."""
    unit: str = "ms"
    """Of ours and the other side's figure; ``count`` for none."""
    slack: float = 1.0
    """How many times the limit passes in a quick run, on a machine that does other things too."""

    def sides(self) -> set[str]:
        """Return the names of the sides that it compares."""
        return {self.ours.side} | ({self.other.side} if self.other is not None else set())


@dataclass(frozen=True, slots=True)
class Row:
    """Sides that are measured in turn, and what is claimed of them."""

    number: int
    what: str
    """Workload and how it is measured: the method, for people."""
    sides: Mapping[str, Side]
    targets: Sequence[Target]
    samples: int = 1
    """Of each side in each round."""
    quick: frozenset[str] = field(default_factory=frozenset)
    """Names of the targets that a quick run takes."""

    def narrowed(self, targets: Sequence[Target]) -> Row:
        """Return the row with these targets and the sides that they need; a target whose side is missing is left out."""
        kept = [target for target in targets if target.sides() <= self.sides.keys()]
        needed = set().union(*(target.sides() for target in kept))
        sides = {name: side for name, side in self.sides.items() if name in needed}
        return Row(self.number, self.what, sides, kept, self.samples, self.quick)


Round: TypeAlias = Mapping[Figure, float]
"""The least sample of each figure in one round."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A target with what was measured."""

    target: Target
    figure: float
    """The median round's, compared with ``limit``."""
    ours: float
    """In that round."""
    other: float | None
    figures: tuple[float, ...]
    """Every round's."""
    limit: float | None
    """The target's, with the slack that was allowed."""
    verdict: Verdict


def measure(row: Row, rounds: int) -> list[Round]:
    """Return ``rounds`` rounds of ``row``."""
    return [_measure_round(row, backwards=bool(number % 2)) for number in range(rounds)]


def _measure_round(row: Row, *, backwards: bool) -> Round:
    names = list(row.sides)
    if backwards:
        names.reverse()
    least: dict[Figure, float] = {}
    for _ in range(row.samples):
        for name in names:
            gc.collect()  # what another side left behind is not this one's work
            for figure, value in row.sides[name]().items():
                key = Figure(name, figure)
                least[key] = min(least.get(key, value), value)
    return least


def judge(target: Target, rounds: Sequence[Round], *, slack: bool) -> Judged:
    """Judge ``target`` by the median of ``rounds``; with ``slack`` its limit is that much wider."""
    figures = tuple(_compared(target, taken) for taken in rounds)
    middle = median_low(figures)
    taken = rounds[figures.index(middle)]
    limit = None if target.limit is None else target.limit * (target.slack if slack else 1.0)
    if limit is None:
        verdict = Verdict.REPORTED
    elif middle > limit:
        verdict = Verdict.MISSED
    elif target.stretch is not None and middle <= target.stretch:
        verdict = Verdict.STRETCH
    else:
        verdict = Verdict.MET
    other = None if target.other is None else taken[target.other]
    return Judged(target, middle, taken[target.ours], other, figures, limit, verdict)


def _compared(target: Target, taken: Round) -> float:
    ours = taken[target.ours]
    if target.kind is Kind.VALUE:
        return ours
    assert target.other is not None, f"{target.name} compares nothing"
    other = taken[target.other]
    return ours - other if target.kind is Kind.EXCESS else ours / other
