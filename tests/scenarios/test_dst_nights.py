"""Nights when local clocks change: nothing changes here, for all is UTC."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.scenarios.stage import TIMER_MS, Stage

# POSIX rules instead of names: no time zone database is needed, and no legislator changes them.
NEW_YORK = "EST5EDT,M3.2.0,M11.1.0"
BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
DUBLIN = "IST-1GMT0,M10.5.0,M3.5.0/1"  # winter time is the exception
ST_JOHNS = "NST3:30NDT,M3.2.0,M11.1.0"
LORD_HOWE = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"  # by half an hour

NIGHTS = [
    pytest.param(zone, datetime(*change, tzinfo=UTC) - timedelta(hours=2), id=name)
    for name, zone, change in [
        ("new-york-spring", NEW_YORK, (2030, 3, 10, 7)),
        ("new-york-autumn", NEW_YORK, (2030, 11, 3, 6)),
        ("berlin-spring", BERLIN, (2030, 3, 31, 1)),
        ("berlin-autumn", BERLIN, (2030, 10, 27, 1)),
        ("dublin-autumn", DUBLIN, (2030, 10, 27, 1)),
        ("st-johns-spring", ST_JOHNS, (2030, 3, 10, 5, 30)),
        ("lord-howe-autumn", LORD_HOWE, (2030, 4, 6, 15)),
        ("lord-howe-spring", LORD_HOWE, (2030, 10, 5, 15, 30)),
        ("utc", "UTC0", (2030, 3, 31, 1)),
    ]
]


@pytest.fixture
def local_zone(request):
    """Set the process's time zone."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows has no tzset")
@pytest.mark.asyncio
@pytest.mark.parametrize(("local_zone", "travel_start"), NIGHTS, indirect=True)
async def test_night_of_a_clock_change_is_like_any_other(travel, local_zone):
    evening_offset_s = time.localtime().tm_gmtoff
    async with Stage(travel) as stage:
        for half_hours in range(1, 10):
            await stage.create(half_hours * 1_800)
        await travel(5 * 3_600)
        stage.check_all_came(late_ms=TIMER_MS)
        waited_ms = [at_ms - stage.arrivals[0][1] for _, at_ms in stage.arrivals]
        assert waited_ms == pytest.approx([n * 1_800_000 for n in range(9)], abs=TIMER_MS)
    assert (time.localtime().tm_gmtoff != evening_offset_s) == (local_zone != "UTC0"), "the clocks did change"
