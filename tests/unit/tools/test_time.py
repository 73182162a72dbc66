"""The date and time, in any zone there is."""

from typing import Any

import pytest

from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin.time import TOOLS
from tests.unit.tools.test_base import carried_out

(NOW,) = TOOLS


async def now(context: ToolContext, **args: Any) -> Any:
    return (await carried_out(NOW, args, context)).data


async def test_without_a_zone_it_is_utc(context: ToolContext) -> None:
    assert await now(context) == {"time": "2026-01-01T00:00:00+00:00", "weekday": "Thursday", "timezone": "UTC"}


@pytest.mark.parametrize(
    ("zone", "time", "weekday"),
    [
        ("Europe/Zurich", "2026-01-01T01:00:00+01:00", "Thursday"),
        ("America/New_York", "2025-12-31T19:00:00-05:00", "Wednesday"),
        ("Asia/Kolkata", "2026-01-01T05:30:00+05:30", "Thursday"),
    ],
)
async def test_a_zone_moves_time_and_day(context: ToolContext, zone: str, time: str, weekday: str) -> None:
    assert await now(context, timezone=zone) == {"time": time, "weekday": weekday, "timezone": zone}


@pytest.mark.parametrize("zone", ["Mars/Base", "", "Europe", "../../etc/passwd", "/etc/localtime", "a\0b", "."])
async def test_a_zone_that_there_is_not_is_said_so(context: ToolContext, zone: str) -> None:
    with pytest.raises(ToolFailed, match="There is no time zone"):
        await now(context, timezone=zone)
