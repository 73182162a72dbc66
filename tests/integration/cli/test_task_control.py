"""`ozzie tasks pause`, `resume`, `tell`, `update` and `retry`, and the same over REST."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.gateway.asked import ended
from tests.integration.gateway.test_rest import get, post, until
from tests.integration.gateway.test_run_graphs import begin, waits
from tests.rig import Gateway, new_home, ozzie, start_gateway
from tests.warm import WarmPopen
from tests.ws_client import connected

SUM = {"tool": "calculator", "args": {"expr": "{{steps.payment.output.expr}}"}}
ORDER = {
    "name": "order",
    "type": "workflow",
    "steps": [{"id": "payment", "wait": {"event": "paid"}}, {"id": "sum", "call": SUM, "needs": ["payment"]}],
}

TEA = {"name": "tea", "type": "workflow", "steps": [{"id": "which", "ask": {"question": "Which tea?"}}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = new_home(tmp_path_factory.mktemp("control"))
    (home.home / "skills").mkdir(mode=0o700)
    for skill in (ORDER, TEA):
        (home.home / "skills" / f"{skill['name']}.jsonc").write_text(json.dumps(skill))
    with start_gateway(home) as running:
        yield running


@contextmanager
def waiting(server: Gateway) -> Iterator[str]:
    """A run that waits to be told that it was paid; what `ozzie skills run` shows of it is not looked at."""
    before = {task["task_id"] for task in get(server, "tasks?limit=50")["items"]}
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", "skills", "run", "order"]
    quiet = subprocess.DEVNULL
    run = WarmPopen(command, env=dict(server.home.env), cwd=server.home.project, stdout=quiet, stderr=quiet)
    found: list[str] = []

    def has_begun() -> bool:
        new = {task["task_id"] for task in get(server, "tasks?limit=50")["items"]} - before
        found[:] = [task_id for task_id in new if get(server, f"tasks/{task_id}")["waits_for"]]
        return bool(found)

    try:
        until(has_begun)
    finally:  # it would start a gateway in the place of one that ends
        run.kill()
        run.wait(20)
    yield found[0]


def test_a_run_is_shown_with_what_it_waits_for_paused_told_and_tried_again(server: Gateway) -> None:
    with waiting(server) as task_id:
        shown = ozzie(server.home, "tasks", "show", task_id).stdout
        assert f"  waits    for paid: ozzie tasks signal {task_id} paid\n" in shown

        paused = ozzie(server.home, "tasks", "pause", task_id)
        assert paused.stdout.startswith("The task pauses at the end of its current step.\n"), paused.stderr
        until(lambda: get(server, f"tasks/{task_id}")["status"] == "PAUSED")
        assert ozzie(server.home, "tasks", "show", task_id).stdout.startswith("Paused by you  ")
        again = ozzie(server.home, "tasks", "pause", task_id)
        assert again.returncode != 0
        assert f"The task is paused already.\nLet it go on with: ozzie tasks resume {task_id}" in again.stderr

        early = ozzie(server.home, "tasks", "signal", task_id, "paid", "--data", '{"expr": "1/0"}', "--key", "k1")
        assert early.stdout == "The run goes on.\n", early.stderr
        assert ozzie(server.home, "tasks", "update", task_id, "Quickly.").returncode == 0
        assert "  added    Quickly.\n" in ozzie(server.home, "tasks", "show", task_id).stdout
        resumed = ozzie(server.home, "tasks", "resume", task_id)
        assert (resumed.returncode, resumed.stdout) == (0, "The task goes on.\n")

        failed = ended(server, task_id)
        assert failed["status"] == "FAILED"
        assert [(step["step_id"], step["error"]["kind"]) for step in failed["failed_steps"]] == [("sum", "tool")]
        assert failed["error"]["kind"] == "tool"
        in_words = ozzie(server.home, "tasks", "show", task_id).stdout
        assert f"Fix it, then run `ozzie tasks retry {task_id}`." in in_words
        assert "  cause    a tool (skill.failed)\n  step     sum\n" in in_words
        retried = ozzie(server.home, "tasks", "retry", task_id)
        assert "The task goes on as attempt 2.\nIt has left: 1 step.\n" in retried.stdout, retried.stderr
        until(lambda: get(server, f"tasks/{task_id}")["status"] == "FAILED")


async def test_what_is_to_be_held_says_so_until_it_is(server: Gateway) -> None:
    run_id = await begin(server, "tea")
    (step,) = waits(server, run_id)["waiting"]
    assert ozzie(server.home, "tasks", "pause", step["task_id"]).returncode == 0
    told = get(server, f"tasks/{step['task_id']}")
    assert (told["status"], told["pausing"]) == ("WAITING_INPUT", True)
    shown = ozzie(server.home, "tasks", "show", step["task_id"]).stdout
    assert (shown.startswith("Waiting for you  "), "  pauses   at the end of its current step\n" in shown) == (
        True,
        True,
    )

    assert ozzie(server.home, "tasks", "answer", step["task_id"], "skip").returncode == 0
    until(lambda: get(server, f"tasks/{step['task_id']}")["status"] == "PAUSED")
    shown = ozzie(server.home, "tasks", "show", step["task_id"]).stdout
    assert (shown.startswith("Paused by you  "), "  pauses " in shown) == (True, False)
    assert ozzie(server.home, "tasks", "resume", step["task_id"]).returncode == 0
    ended(server, run_id)


async def test_an_update_that_is_sent_again_with_its_key_counts_once_by_each_way_in(server: Gateway) -> None:
    with waiting(server) as task_id:
        for _ in range(2):
            assert ozzie(server.home, "tasks", "update", task_id, "Quickly.", "--key", "k").returncode == 0
            post(server, f"tasks/{task_id}/update", text="Quickly.", key="k")
            async with connected(server) as client:
                assert (await client.request("task.update", task_id=task_id, text="Quickly.", key="k"))["ok"]
        assert get(server, f"tasks/{task_id}")["updates"] == ["Quickly."]
        post(server, f"tasks/{task_id}/cancel")  # the next one of its session begins behind it
        ended(server, task_id)


async def test_a_question_that_wants_words_is_answered_with_them(server: Gateway) -> None:
    for words in (("Rome",), ("New", "York", "City"), ("text", "Oolong tea")):
        run_id = await begin(server, "tea")
        (step,) = waits(server, run_id)["waiting"]
        done = ozzie(server.home, "tasks", "answer", step["task_id"], *words)
        assert done.stdout == "The task goes on.\n", done.stderr
        assert ended(server, run_id)["text"] == " ".join(words).removeprefix("text ")


def test_what_can_not_be_is_refused_with_what_to_do(server: Gateway) -> None:
    with waiting(server) as task_id:
        wrong = ozzie(server.home, "tasks", "signal", task_id, "payd")
        assert (wrong.returncode != 0, 'Did you mean "paid"?' in wrong.stderr) == (True, True)
        by_its_former_name = ozzie(server.home, "tasks", "tell", task_id, "paid", "--data", "12")
        assert "--data is not a JSON object." in by_its_former_name.stderr
        assert post(server, f"tasks/{task_id}/retry", 409)["code"] == "task.open"
        assert post(server, f"tasks/{task_id}/resume", 409)["code"] == "task.not_paused"
        assert post(server, f"tasks/{task_id}/update", 400, text=" ")["code"] == "input.shape"
        told = post(server, f"tasks/{task_id}/events", event="paid", data={"expr": "6*7"})
        assert told == {"task_id": task_id, "event": "paid", "heard": True}
        assert ended(server, task_id)["status"] == "SUCCEEDED"
        for path, body in (("retry", {}), ("pause", {}), ("update", {"text": "more"}), ("events", {"event": "paid"})):
            post(server, f"tasks/{task_id}/{path}", 409, **body)
