"""Recorded streams always come to the same chain and the same projections.

If a change of the format or of a fold is meant, so is a change of the expected file, and it is to be read line by line.
"""

from pathlib import Path

import pytest

from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.golden import STREAMS, account, fixed_salt, play

_NAMES = sorted(path.name.removesuffix(".jsonl") for path in STREAMS.glob("*.jsonl"))


def recorded(name: str) -> tuple[list[str], str]:
    """The lines of a stream, and what they are to come to."""
    lines = (STREAMS / f"{name}.jsonl").read_text("utf-8").splitlines()
    return lines, (STREAMS / f"{name}.expected.txt").read_text("utf-8")


def test_there_are_golden_streams() -> None:
    assert "first_light" in _NAMES


@pytest.mark.parametrize("adapter", ["memory", "sqlite"])
@pytest.mark.parametrize("name", _NAMES)
async def test_a_golden_stream_comes_to_what_it_always_came_to(name: str, adapter: str, tmp_path: Path) -> None:
    lines, expected = recorded(name)
    clock, ids = FakeClock(), CountingIds()
    log: EventLog
    if adapter == "memory":
        log = InMemoryEventLog(clock, ids, salts=fixed_salt)
    else:
        log = await SqliteEventLog.open(tmp_path / "ozzie.db", clock=clock, ids=ids, salts=fixed_salt)
    await play(lines, log, clock)
    assert await account(log) == expected
    await log.rebuild()
    assert await account(log) == expected
    await log.close()
