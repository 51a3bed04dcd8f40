"""Pictures and tables of the charts, generated from their declaration; nothing is drawn by hand or listed twice."""

from __future__ import annotations

from schedule_sm.diagram.generate import check, outputs, write

__all__ = ["check", "outputs", "write"]
