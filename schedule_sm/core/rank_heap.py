"""A heap of reminders by rank, earliest target first; what no longer belongs is dropped late.

It goes when it comes first, or with all the rest of its kind once it is more than half: amortised O(log n).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

Rank: TypeAlias = tuple[int, int, str]
"""Target (epoch ms), place among the session's creates, id: earliest target first, ties in create order."""

_COMPACT_AT: Final = 64
"""Fewer dead ranks than so many are not worth compacting."""


class RankHeap:
    """Ranks of reminders, of which only those that ``belongs`` says are still there count."""

    __slots__ = ("_belongs", "_heap")

    def __init__(self, belongs: Callable[[str], bool]) -> None:
        """Start empty; ``belongs`` tells by the id whether a reminder still counts."""
        self._belongs = belongs
        self._heap: list[Rank] = []

    def __len__(self) -> int:
        """How many ranks are kept, those that no longer count too."""
        return len(self._heap)

    def push(self, rank: Rank) -> None:
        """Add ``rank``."""
        heappush(self._heap, rank)

    def first(self) -> Rank | None:
        """Return the lowest rank that counts."""
        heap = self._heap
        while heap and not self._belongs(heap[0][2]):
            heappop(heap)
        return heap[0] if heap else None

    def pop(self, until_ms: int | None = None) -> Rank | None:
        """Remove and return the lowest rank that counts, if its target does not lie behind ``until_ms``."""
        first = self.first()
        if first is None or (until_ms is not None and first[0] > until_ms):
            return None
        return heappop(self._heap)

    def take_after(self, now_ms: int) -> list[Rank]:
        """Remove and return, in order, the ranks whose target lies behind ``now_ms``; O(n)."""
        counting = sorted(rank for rank in self._heap if self._belongs(rank[2]))
        self._heap = [rank for rank in counting if rank[0] <= now_ms]
        return counting[len(self._heap) :]

    def compact(self, most: int) -> None:
        """Drop what no longer counts if that is more than half; at ``most`` so many ranks can count."""
        if len(self._heap) > 2 * most + _COMPACT_AT:
            self._heap = [rank for rank in self._heap if self._belongs(rank[2])]
            heapify(self._heap)

    def clear(self) -> None:
        """Drop everything."""
        self._heap.clear()
