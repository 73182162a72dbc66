"""A change whose process is killed, before each of its system calls in turn, leaves the old state or the new one."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_a_kill_before_any_system_call_leaves_what_can_be_gone_on_from(
    tmp_path: Path, say: Callable[[str], None]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.dying", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    say(f"killed before each system call: { ({kind: sum(states.values()) for kind, states in found.items()}) }")
    assert set(found["Replacing"]) == {
        "old, nothing beside it",
        "old, part beside it",
        "old, ozzie beside it",
        "new, ozzie beside it",
        "new, nothing beside it",
    }
    assert set(found["Creating"]) >= {"none, nothing beside it", "none, ozzie beside it", "new, nothing beside it"}
    assert set(found["Applying"]) == {"0 of 3", "1 of 3", "2 of 3", "3 of 3"}
    assert set(found["Trashing"]) == set(found["Restoring"]) == {"in its place", "in the trash"}
