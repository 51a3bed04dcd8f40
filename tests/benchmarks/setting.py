"""What a run of the benchmark was told: how much to do, and which other implementations are at hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from tests.benchmarks.frame import Figures, Side

_T = TypeVar("_T")


class Driver(Protocol):
    """Runs one workload of another implementation in a process of its own."""

    def run(self, workload: str, *arguments: object) -> Figures:
        """Return its figures."""


def driven(driver: Driver, workload: str, *arguments: object) -> Side:
    """Return the side whose samples ``driver`` takes."""
    return lambda: driver.run(workload, *arguments)


@dataclass(frozen=True, slots=True)
class Setting:
    """Read by every row."""

    folder: Path
    """For stores and logs; it lies on the disk that is measured, and is removed at the end."""
    is_quick: bool = False
    reference: Driver | None = None
    """The reference implementation on Node, if it was asked for."""
    apscheduler: Driver | None = None
    """APScheduler in its own environment, if it was asked for."""

    def size(self, full: _T, quick: _T) -> _T:
        """Return the size of a workload."""
        return quick if self.is_quick else full
