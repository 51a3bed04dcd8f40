"""What an observer of edges builds on, and the first of them: a log record at each retry, disposal and fault edge.

No record carries a prompt. ``telemetry`` builds on this; the owner uses this module only, so that it never loads that.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol, runtime_checkable

from schedule_sm.core.cursor import DELIVERY, Observer, tables
from schedule_sm.core.deliveries import Deliveries
from schedule_sm.core.edges import Edge

_logger = logging.getLogger("schedule_sm.edges")
_TABLES: Final = tables()


@runtime_checkable
class OwnerObserver(Protocol):
    """An observer that has to know whose steps it sees: reminder ids are unique in one session only.

    Given to ``schedule_sm.plugin.apply``, it is asked for one observer per owner.
    """

    def for_owner(self, session_id: str, agent_id: str, deliveries: Deliveries) -> Observer:
        """Return the observer of one owner's steps; ``deliveries`` is to be read only."""


def edge_taken(chart: str, source: str, event: str) -> Edge | None:
    """Return the edge that an observer was told of; ``None`` for a chart that is not ours."""
    table = _TABLES.get(chart)
    return None if table is None else table.edge(source, event)


class EdgeLog:
    """Logs one owner's retry, disposal and fault edges at INFO on ``schedule_sm.edges``.

    Each record carries ``session_id``, ``agent_id``, ``reminder_id`` (``None`` for the owner's own edges), ``chart``,
    ``edge``, ``edge_kind`` and ``reason`` as attributes.
    """

    __slots__ = ("_agent_id", "_session_id")

    def __init__(self, session_id: str, agent_id: str) -> None:
        """Log the edges of the owner of that agent."""
        self._session_id = session_id
        self._agent_id = agent_id

    def __call__(self, chart: str, subject_id: str, source: str, event: str, target: str) -> None:
        """Log one such edge, if anybody listens; costs one look-up while nobody does."""
        if not _logger.isEnabledFor(logging.INFO):
            return
        edge = edge_taken(chart, source, event)
        if edge is None:
            return
        # %r: an id is any text, and a line break or a lone surrogate in it must not spoil the log
        _logger.info(
            "%s of %r: %s --%s--> %s: %s (session %r, agent %r)",
            edge.kind.value,
            subject_id,
            source,
            event,
            target,
            edge.why,
            self._session_id,
            self._agent_id,
            extra={
                "session_id": self._session_id,
                "agent_id": self._agent_id,
                "reminder_id": subject_id if chart == DELIVERY.name else None,
                "chart": chart,
                "edge": f"{source} --{event}--> {target}",
                "edge_kind": edge.kind.value,
                "reason": edge.why,
            },
        )
