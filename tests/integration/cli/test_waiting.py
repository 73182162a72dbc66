"""`ozzie tasks wait`: how a task ended, and meanwhile what it waits for."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pexpect
import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer
from tests.integration.cli.test_task_control import ORDER, waiting
from tests.integration.gateway.asked import asked, ended, write
from tests.integration.gateway.test_rest import get, post, until
from tests.rig import START_S, Gateway, GatewayHome, new_home, ozzie, start_gateway
from tests.warm import WarmPopen

SHOP = {"name": "shop", "type": "workflow", "vars": {}, "steps": [{"id": "sale", "skill": "order", "with": {}}]}
GATED = {
    "name": "gated",
    "type": "workflow",
    "vars": {},
    "steps": [{"id": "gate", "title": "Go?", "approve": {"question": "Go on?"}}],
}
BESIDE = {
    "name": "beside",
    "type": "workflow",
    "triggers": {"keywords": ["publish it"]},
    "steps": [
        {"id": "gate", "title": "Publish", "approve": {"question": "Go on?"}},
        {"id": "slow", "instruction": "Take your time.", "model": "slow"},
    ],
}
WHICH = "Ask me whether I want tea or coffee."


def begin(home: GatewayHome) -> None:
    (home.home / "skills").mkdir(mode=0o700)
    order = {**ORDER, "vars": {}}
    for skill in (order, SHOP, GATED, BESIDE):
        (home.home / "skills" / f"{skill['name']}.jsonc").write_text(json.dumps(skill))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, fake_openai_server: FakeOpenAI) -> Iterator[Gateway]:
    home = new_home(tmp_path_factory.mktemp("waiting"))
    begin(home)
    slow = {"driver": "openai", "model": "m", "base_url": f"{fake_openai_server.url}/v1", "auth": {"type": "none"}}
    home.configure({"models": {"default": "offline", "providers": {"slow": slow}}})
    with start_gateway(home) as running:
        yield running


@contextmanager
def follower(home: GatewayHome, task_id: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """`ozzie tasks wait`, ended at the end."""
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", "tasks", "wait", task_id, *words]
    pipe = subprocess.PIPE
    process = WarmPopen(command, env=dict(home.env), cwd=home.project, stdout=pipe, stderr=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


@contextmanager
def an_order(server: Gateway) -> Iterator[str]:
    """A run that waits to be told that it was paid; what comes next in its session does not wait for it."""
    with waiting(server) as task_id:
        try:
            yield task_id
        finally:
            if server.process.poll() is None and get(server, f"tasks/{task_id}")["finished_at"] is None:
                post(server, f"tasks/{task_id}/cancel")
                ended(server, task_id)


def told(process: "subprocess.Popen[str]") -> str:
    """The next that it says on standard error."""
    assert process.stderr is not None
    return process.stderr.readline().removesuffix("\n")


def test_a_task_that_had_ended_is_told_at_once(server: Gateway) -> None:
    turn = post(server, "message", content="hello", session_name="over", wait=True)
    done = ozzie(server.home, "tasks", "wait", turn["task_id"])
    in_full = ozzie(server.home, "tasks", "wait", turn["task_id"], "--json")

    assert (done.returncode, done.stdout, done.stderr) == (0, "Done  hello\n", "")
    assert ozzie(server.home, "tasks", "show", turn["task_id"]).stdout.startswith(done.stdout)
    assert json.loads(in_full.stdout) == get(server, f"tasks/{turn['task_id']}")
    assert (in_full.returncode, in_full.stderr) == (0, "")


def test_it_says_what_the_task_waits_for_and_ends_with_it(server: Gateway) -> None:
    with an_order(server) as task_id, follower(server.home, task_id) as process:
        assert told(process) == f'ozzie: It waits for the event "paid": ozzie tasks signal {task_id} paid'
        post(server, f"tasks/{task_id}/events", event="paid", data={"expr": "6*7"})
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "Done  %run order\n", "")


def test_a_task_that_failed_or_was_stopped_has_a_status_of_its_own(server: Gateway) -> None:
    with an_order(server) as task_id, follower(server.home, task_id) as process:
        told(process)
        post(server, f"tasks/{task_id}/events", event="paid", data={"expr": "1/0"})
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (3, "")
        assert out.startswith("Failed  %run order  order failed. sum: ")
        assert out.count("\n") == 1
    with an_order(server) as task_id, follower(server.home, task_id) as process:
        told(process)
        post(server, f"tasks/{task_id}/cancel")
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (3, "Stopped  %run order\n")


def test_the_time_that_ran_out_has_another_one_and_leaves_the_task_alone(server: Gateway) -> None:
    with an_order(server) as task_id:
        late = ozzie(server.home, "tasks", "wait", task_id, "--timeout", "0.2")
        at_once = ozzie(server.home, "tasks", "wait", task_id, "--timeout", "0", "--json")

        assert (late.returncode, late.stdout) == (4, "Waiting  %run order\n")
        assert late.stderr.splitlines()[-1] == "ozzie: The task has not ended within 0.2 s, and goes on."
        assert (at_once.returncode, json.loads(at_once.stdout)["status"]) == (4, "WAITING_INPUT")
        assert get(server, f"tasks/{task_id}")["status"] == "WAITING_INPUT"


def test_an_interrupt_ends_the_waiting_and_leaves_the_task_alone(server: Gateway) -> None:
    with an_order(server) as task_id, follower(server.home, task_id) as process:
        told(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (130, "", "")
        assert get(server, f"tasks/{task_id}")["status"] == "WAITING_INPUT"


def test_a_yes_and_an_answer_are_told_with_the_command_for_them(server: Gateway) -> None:
    approval = asked(server, write("w.md"), session="yes")
    with follower(server.home, approval["task_id"]) as process:
        command = f"ozzie approvals show {approval['approval_id']}"
        assert told(process) == f"ozzie: It waits for your approval: {approval['sentence']} {command}"
        ozzie(server.home, "approvals", "reject", approval["approval_id"])
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
    turn = post(server, "message", content=WHICH, session_name="which", wait=True)
    with follower(server.home, turn["task_id"], "--json") as process:
        command = f"ozzie tasks answer {turn['task_id']}"
        assert told(process) == f"ozzie: It waits for your answer: Tea or coffee? {command}"
        post(server, f"tasks/{turn['task_id']}/answer", option="1")
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, json.loads(out)["status"]) == (0, "SUCCEEDED")


def test_what_the_parts_of_a_run_wait_for_is_told_too(server: Gateway) -> None:
    environment = os.environ | server.home.env
    run = [sys.executable, "-m", "ozzie_server_ext.cli.main", "skills", "run"]
    shop = pexpect.spawn(run[0], [*run[1:], "shop"], env=environment, cwd=str(server.home.project), encoding="utf-8")
    (task,) = newest(server, "%run shop")
    with follower(server.home, task) as process:
        said = told(process)
        nested = said.split()[-2]
        assert said == f'ozzie: It waits for the event "paid": ozzie tasks signal {nested} paid'
        assert nested != task
        post(server, f"tasks/{task}/events", event="paid", data={"expr": "1"})
        process.communicate(timeout=60)
        assert process.returncode == 0
    shop.close(force=True)
    gated = pexpect.spawn(run[0], [*run[1:], "gated"], env=environment, cwd=str(server.home.project), encoding="utf-8")
    (task,) = newest(server, "%run gated")
    until(lambda: get(server, f"tasks/{task}")["status"] == "WAITING_APPROVAL")
    with follower(server.home, task) as process:
        assert told(process).startswith('ozzie: It waits for your approval (the step "gated: Go?"): Go on?')
        (approval,) = get(server, "approvals?status=pending")["items"]
        ozzie(server.home, "approvals", "approve", approval["approval_id"])
        process.communicate(timeout=60)
        assert process.returncode == 0
    gated.close(force=True)


def test_what_one_step_waits_for_is_reported_once_while_another_one_works(
    server: Gateway, fake_openai: FakeOpenAI
) -> None:
    go_on = threading.Event()
    fake_openai.queue(Answer(pieces=["Well."], held=go_on))
    task_id = post(server, "message", 202, content="publish it", session_name="beside")["task_id"]
    try:
        fake_openai.wait_for(lambda fake: bool(fake.requests), seconds=START_S)
        until(lambda: get(server, f"tasks/{task_id}")["waiting"])
        assert get(server, f"tasks/{task_id}")["status"] == "RUNNING"
        with follower(server.home, task_id) as process:
            (approval,) = get(server, "approvals?status=pending")["items"]
            command = f"ozzie approvals show {approval['approval_id']}"
            expected = (
                f'ozzie: It waits for your approval (the step "beside: Publish"): {approval["sentence"]} {command}'
            )
            assert told(process) == expected
            go_on.set()
            until(lambda: get(server, f"tasks/{task_id}")["status"] == "WAITING_APPROVAL")
            post(server, f"approvals/{approval['approval_id']}/approve")
            _, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (0, "")
    finally:
        go_on.set()


def newest(server: Gateway, title: str) -> list[str]:
    found: list[str] = []

    def has_begun() -> bool:
        found[:] = [task["task_id"] for task in get(server, "tasks?limit=50")["items"] if task["title"] == title]
        return bool(found)

    until(has_begun)
    return found


def test_it_goes_on_behind_a_restart(home: GatewayHome) -> None:
    begin(home)
    with start_gateway(home) as first, an_order(first) as task_id, follower(home, task_id) as process:
        told(process)
        post(first, f"tasks/{task_id}/pause")
        assert told(process) == f"ozzie: It is paused: ozzie tasks resume {task_id}"
        home.stop_gateways()
        assert "No gateway is running." in told(process)
        with start_gateway(home) as second:
            post(second, f"tasks/{task_id}/resume")
            assert "It waits for the event" in told(process)
            post(second, f"tasks/{task_id}/events", event="paid", data={"expr": "2"})
            out, _ = process.communicate(timeout=60)
            assert (process.returncode, out) == (0, "Done  %run order\n")
            ended(second, task_id)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["nonesuch"], 1, "There is no task nonesuch."),
        (["01M8748X7PEP8XGBYQA3CV1VT0"], 1, "no task"),
        (["01M8748X7PEP8XGBYQA3CV1VT0", "--timeout", "-1"], 1, "--timeout is a number of seconds from 0 on."),
        (["01M8748X7PEP8XGBYQA3CV1VT0", "--timeout", "soon"], 2, "invalid float value"),
    ],
)
def test_what_can_not_be_waited_for_is_refused(server: Gateway, words: list[str], status: int, said: str) -> None:
    done = ozzie(server.home, "tasks", "wait", *words)

    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
