"""A gateway that is killed while it writes leaves a log that verifies and keeps every promise it made."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.verified import verify_file

_ROOT = Path(__file__).parents[3]
_CHILD = Path(__file__).parent / "appending_child.py"


def append_until_killed(path: Path, seed: int, acknowledged: int) -> list[tuple[int, str]]:
    """What the child was told is recorded before it was killed."""
    child = subprocess.Popen(
        [sys.executable, str(_CHILD), str(path), str(seed)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
        text=True,
    )
    with child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(acknowledged)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
    assert child.returncode == -signal.SIGKILL
    whole = [line.split() for line in lines if line.endswith("\n") and len(line.split()) == 2]
    return [(int(position), hash_) for position, hash_ in whole if len(hash_) == 64]


async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "ozzie.db"
    chance = random.Random(1)
    acknowledged: dict[int, str] = {}
    for seed in range(4):
        acknowledged |= append_until_killed(path, seed, chance.randint(1, 300))
        assert verify_file(path).ok
    assert len(acknowledged) >= 4

    clock = SystemClock()
    log = await SqliteEventLog.open(path, clock=clock, ids=UlidSource(clock))
    recorded = {event.position: event.hash for event in await log.read(limit=1_000_000)}
    assert acknowledged.items() <= recorded.items()
    assert sorted(recorded) == list(range(1, len(recorded) + 1))
    assert await log.dump() == await log.rebuild()
    await log.close()
