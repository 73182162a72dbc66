"""kill -9 while a gateway applies what a command changed: the next one knows of none and of all of it; where a part is
done, a person is asked, and the rest can be (ADR 33)."""

from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.integration.crashes.dying_gateway import DIES_AFTER, LAST
from tests.integration.gateway.asked import asked, ended
from tests.integration.gateway.test_rest import get, post, until
from tests.integration.tasks.test_applied_changes import AFTER, ASKED, BEFORE, COMMAND, expect_sandbox
from tests.rig import Gateway, GatewayHome, ozzie, start_gateway


def files(project: Path) -> dict[str, str]:
    return {
        str(path.relative_to(project)): path.read_text()
        for path in sorted(project.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(project).parts)
    }


def pending(gateway: Gateway) -> list[dict[str, Any]]:
    return get(gateway, "approvals?status=pending")["items"]


@pytest.fixture
async def laid_out(home: GatewayHome) -> GatewayHome:
    await expect_sandbox()
    home.project.chmod(0o755)  # as root, a command is another user
    (home.project / "notes" / "deep").mkdir(parents=True)
    for path, text in BEFORE.items():
        (home.project / path).write_text(text)
    return home


@pytest.mark.timeout(120)
@pytest.mark.parametrize("written", range(LAST + 1))
def test_what_was_cut_off_is_done_once_and_whole(laid_out: GatewayHome, written: int) -> None:
    home = laid_out
    dying = replace(home, env={**home.env, DIES_AFTER: str(written)})
    with start_gateway(dying, program="tests.integration.crashes.dying_gateway") as gateway:
        approval = asked(gateway, f"Run `{COMMAND}` changing `notes`.")
        task_id = approval["task_id"]
        assert approval["sentence"] == ASKED
        with suppress(OSError, HTTPException):  # it may die before it has answered
            post(gateway, f"approvals/{approval['approval_id']}/approve")
        assert gateway.process.wait(40) == -9

    there = files(home.project)
    assert (there == BEFORE, there == AFTER) == (written == 0, written == LAST)
    with start_gateway(home) as gateway:
        if 0 < written < LAST:
            until(lambda: get(gateway, f"tasks/{task_id}")["status"] == "WAITING_INPUT")
            assert files(home.project) == there, "nothing is done by itself"
            post(gateway, f"tasks/{task_id}/answer", option="again")
            until(lambda: pending(gateway))
            (rest,) = pending(gateway)
            assert rest["sentence"] != ASKED
            post(gateway, f"approvals/{rest['approval_id']}/approve")
        task = ended(gateway, task_id)

    assert task["status"] == "SUCCEEDED"
    assert files(home.project) == AFTER
    assert ozzie(home, "trash", "list").stdout.count("notes/old.md") == 1
    assert ozzie(home, "events", "verify").returncode == 0
