"""Which chart class is meant: every spelling that ``--chart-cov`` and a file of exemptions take."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from schedule_sm.core import cursor
from schedule_sm.testing.chart_graph import chart_name, read_graph


def full_name(spec: str) -> str:
    """Return ``module:Class`` for any spelling."""
    ours = cursor.chart_classes().get(spec)
    if ours is not None:
        return chart_name(ours)
    return spec if ":" in spec else ":".join(spec.rpartition(".")[::2])


def find_chart(spec: str, option: str = "--chart-cov") -> type[Any]:
    """Return the chart class that ``spec`` names: ``module:Class``, ``module.Class`` or a class name of ours.

    Raises:
        pytest.UsageError: if there is none; it begins with ``option``.
    """
    module_name, _, path = full_name(spec).partition(":")
    try:
        chart: Any = import_module(module_name)
        for part in path.split("."):
            chart = getattr(chart, part)
        read_graph(chart)
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(
            f"{option}: {spec!r} names no chart ({error}). Write package.module:Class (after --chart-cov with `=`),"
            f" or one of {', '.join(cursor.chart_classes())}"
        ) from error
    return chart  # type: ignore[no-any-return]  # looked up by name
