"""`ozzie events tail` and `ozzie models`: what happens, and what can answer."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.fakes.openai_server import FakeOpenAI
from tests.rig import Gateway, GatewayHome, ozzie, start_gateway
from tests.warm import WarmPopen


@contextmanager
def following(home: GatewayHome, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """`ozzie events tail --follow`, ended at the end."""
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", "events", "tail", "--follow", *words]
    pipe = subprocess.PIPE
    process = WarmPopen(command, env=dict(home.env), cwd=home.project, stdout=pipe, stderr=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def until(process: "subprocess.Popen[str]", kind: str) -> list[dict[str, Any]]:
    """The objects that are printed up to one of this kind."""
    assert process.stdout is not None
    found: list[dict[str, Any]] = []
    for line in process.stdout:
        found.append(json.loads(line))
        if found[-1]["type"] == kind:
            return found
    raise AssertionError(f"it ended before {kind}")


def test_the_newest_events_are_printed_oldest_first(gateway: Gateway) -> None:
    ozzie(gateway.home, "ask", "What is 17.5 % of 2,480? Use the calculator.")

    said = ozzie(gateway.home, "events", "tail", "--limit", "3")
    records = json.loads(ozzie(gateway.home, "events", "tail", "--limit", "3", "--json").stdout)
    calls = json.loads(ozzie(gateway.home, "events", "tail", "--type", "tool.call.completed", "--json").stdout)

    assert [record["type"] for record in records] == ["model.call.completed", "message.completed", "task.succeeded"]
    assert [line.split()[3] for line in said.stdout.splitlines()] == [record["type"] for record in records]
    assert max(map(len, said.stdout.splitlines())) <= 80
    assert [call["payload"]["summary"] for call in calls] == ["434"]


def test_an_event_that_there_is_not_is_refused(shared_gateway: Gateway) -> None:
    done = ozzie(shared_gateway.home, "events", "tail", "--type", "nonesuch")

    assert done.returncode == 1
    assert "type must be the name of an event" in done.stderr


def test_following_goes_on_behind_a_restart_without_gap_or_double(home: GatewayHome) -> None:
    with start_gateway(home):
        ozzie(home, "ask", "before")
        with following(home, "--json", "--limit", "1") as process:
            first = until(process, "task.succeeded")
            ozzie(home, "ask", "between")
            first += until(process, "task.succeeded")
            home.stop_gateways()
            assert process.stderr is not None
            told = process.stderr.readline()
            with start_gateway(home):
                ozzie(home, "ask", "after")
                last = until(process, "task.succeeded")

    positions = [record["position"] for record in first + last]
    assert positions == list(range(positions[0], positions[-1] + 1))
    assert "Events are shown once one runs." in told
    assert [r["payload"]["text"] for r in first + last if r["type"] == "message.received"] == ["between", "after"]


def test_following_a_task_ends_with_it(gateway: Gateway) -> None:
    ozzie(gateway.home, "ask", "hello")
    (task,) = json.loads(ozzie(gateway.home, "tasks", "list", "--json").stdout)

    done = ozzie(gateway.home, "events", "tail", "--follow", "--limit", "500", "--task", task["task_id"])

    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].split()[3] == "task.succeeded"
    assert {line.split()[2] for line in done.stdout.splitlines()} == {task["task_id"][-6:]}


def test_the_models_are_listed_with_what_keeps_them_from_answering(home: GatewayHome) -> None:
    providers = {"mine": {"driver": "openai", "model": "gpt", "auth": {"type": "api_key", "env": "NO_SUCH_KEY"}}}
    home.configure({"models": {"default": "offline", "providers": providers}})
    with start_gateway(home):
        said = ozzie(home, "models", "list").stdout
        models = json.loads(ozzie(home, "models", "list", "--json").stdout)

    assert "* offline" in said
    assert "openai/gpt" in said
    assert "NO_SUCH_KEY is not set" in said
    assert {model["name"]: model["is_default"] for model in models} == {"mine": False, "offline": True}


def test_a_model_is_tried_with_one_real_turn_that_is_recorded(home: GatewayHome, fake_openai: FakeOpenAI) -> None:
    home.use_provider(fake_openai.url, "echo")
    with start_gateway(home):
        said = ozzie(home, "models", "test", "echo")
        found = json.loads(ozzie(home, "models", "test", "echo", "--json").stdout)
        failed = ozzie(home, "models", "test", "nonesuch")
        failure = json.loads(ozzie(home, "models", "test", "nonesuch", "--json").stdout)
        tasks = json.loads(ozzie(home, "tasks", "list", "--json").stdout)

    assert said.returncode == 0
    assert said.stdout.startswith("echo  echo/echo\nfirst token after ")
    assert (found["ok"], found["provider"], found["error"]) == (True, "echo", None)
    assert found["ttft_ms"] > 0
    assert found["token_usage"]["output"] > 0
    assert failed.returncode == 1
    assert 'There is no model "nonesuch".' in failed.stdout
    assert (failure["ok"], failure["error"]["code"]) == (False, "model.unknown")
    assert [task["status"] for task in tasks] == ["FAILED", "FAILED", "SUCCEEDED", "SUCCEEDED"]


def test_a_log_that_can_not_be_opened_is_told_in_a_sentence(home: GatewayHome) -> None:
    """SQLite takes no path of more than 512 bytes."""
    deep = home.home / ("x" * 200) / ("y" * 200) / ("z" * 200)
    (deep / "data").mkdir(parents=True)
    (deep / "data" / "ozzie.db").touch()

    done = ozzie(dataclasses.replace(home, env={**home.env, "OZZIE_PATH": str(deep)}), "events", "verify")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ozzie: The event log can't be used: unable to open database file.\n")
    assert "Traceback" not in done.stderr
