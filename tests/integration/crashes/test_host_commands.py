"""kill -9 for a gateway while a command of the user's own runs: nothing of it goes on, and a person is asked what
became of it."""

import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.gateway.asked import asked, ended
from tests.integration.gateway.test_rest import get, post, until
from tests.rig import GatewayHome, ozzie, start_gateway

DEAF = """\
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""


def pids(project: Path) -> list[int]:
    path = project / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("answer", ["done", "again"])
def test_what_a_crash_cut_off_is_gone_and_asked_about_and_made_again_by_a_yes_alone(
    home: GatewayHome, answer: str
) -> None:
    (home.project / "deaf.py").write_text(DEAF)
    with start_gateway(home) as gateway:
        approval = asked(gateway, f"Run `{sys.executable} deaf.py` on this machine.")
        task_id = approval["task_id"]
        post(gateway, f"approvals/{approval['approval_id']}/approve")
        until(lambda: len(pids(home.project)) == 2)
        watcher = os.getpgid(pids(home.project)[0])
        gateway.kill()

    with start_gateway(home) as gateway:
        until(lambda: get(gateway, f"tasks/{task_id}")["status"] == "WAITING_INPUT")
        assert not any(is_alive(pid) for pid in (watcher, *pids(home.project))), (
            "they are waited for before it is asked"
        )
        (home.project / "deaf.py").write_text("print('short')\n")
        post(gateway, f"tasks/{task_id}/answer", option=answer)
        if answer == "again":
            until(lambda: pending(gateway))
            (again,) = pending(gateway)
            assert again["approval_id"] != approval["approval_id"]
            post(gateway, f"approvals/{again['approval_id']}/approve")
        task = ended(gateway, task_id)

    assert task["status"] == "SUCCEEDED"
    assert len(pids(home.project)) == 2, "it was not run again as it was"
    assert ozzie(home, "events", "verify").returncode == 0


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def pending(gateway: Any) -> list[dict[str, Any]]:
    return get(gateway, "approvals?status=pending")["items"]
