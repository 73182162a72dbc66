"""What the REST interface does, asked as a program would."""

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import psutil
import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.fakes.openai_server import FakeOpenAI
from tests.integration.gateway.walk import ask
from tests.rig import JUPYTER_TOKEN, START_S, Gateway, GatewayHome, start_gateway

SUM = "What is 17.5 % of 2,480? Use the calculator."


def get(gateway: Gateway, path: str) -> dict[str, Any]:
    status, answer = ask(gateway, "GET", f"{PREFIX}/{path}", token=gateway.token)
    assert status == 200, answer
    return answer


def post(gateway: Gateway, path: str, expected: int = 200, **body: Any) -> dict[str, Any]:
    status, answer = ask(gateway, "POST", f"{PREFIX}/{path}", token=gateway.token, body=json.dumps(body))
    assert status == expected, answer
    return answer


def pages(gateway: Gateway, path: str) -> Iterator[list[dict[str, Any]]]:
    """The items of each page of a list."""
    cursor: str | None = ""
    while cursor is not None:
        page = get(gateway, f"{path}{'&cursor=' + cursor if cursor else ''}")
        yield page["items"]
        cursor = page["next"]


def until(holds: Callable[[], object]) -> None:
    """Wait until it is so. Raises TimeoutError."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if holds():
                return
        time.sleep(0.05)
    raise TimeoutError


def test_a_message_is_taken_in_at_once_and_its_task_can_be_asked_for(gateway: Gateway) -> None:
    sent = post(gateway, "message", 202, content="hello", session_name="mine")
    again = post(gateway, "message", 202, content="hello again", session_name="mine")
    events = get(gateway, f"events?after={sent['position'] - 1}&task_id={sent['task_id']}&limit=1")

    assert again["session_id"] == sent["session_id"]
    assert events["items"][0]["payload"]["message_id"] == sent["message_id"]
    assert get(gateway, f"tasks/{sent['task_id']}")["content"] == "hello"


def test_who_waits_gets_the_whole_turn(gateway: Gateway) -> None:
    turn = post(gateway, "message", content=SUM, wait=True)

    assert turn["status"] == "SUCCEEDED"
    assert turn["text"].endswith("**434**")
    assert [(step["kind"], step["name"], step["status"]) for step in turn["steps"]] == [
        ("model", "offline", "completed"),
        ("tool", "calculator", "completed"),
        ("model", "offline", "completed"),
    ]
    assert turn["steps"][1]["arguments"] == {"expr": "17.5/100*2480"}
    assert (turn["cost"], turn["error"]) == (0, None)
    assert get(gateway, f"sessions/{turn['session_id']}")["title"] == SUM


def test_who_waits_for_a_turn_that_fails_gets_its_error(gateway: Gateway) -> None:
    turn = post(gateway, "message", content="hello", model="nonesuch", wait=True)

    assert (turn["status"], turn["error"]["code"]) == ("FAILED", "model.unknown")
    assert "%model" in turn["error"]["hint"]


def test_a_turn_goes_on_when_its_client_is_gone(home: GatewayHome, fake_openai: FakeOpenAI) -> None:
    home.use_provider(fake_openai.url, "endless")
    with start_gateway(home) as gateway:
        address = urlsplit(gateway.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
        headers = {"Authorization": f"token {gateway.token}", "Content-Type": "application/json"}
        body = json.dumps({"content": "for ever", "session_name": "mine", "wait": True})
        connection.request("POST", f"{PREFIX}/message", body=body, headers=headers)
        until(lambda: get(gateway, "tasks?status=RUNNING")["items"])
        running = get(gateway, "tasks?status=RUNNING")["items"]
        connection.close()
        after = get(gateway, f"tasks/{running[0]['task_id']}")
        post(gateway, f"tasks/{running[0]['task_id']}/cancel", reason="enough")
        ended = post(gateway, "message", content="hello", session_name="mine", model="offline", wait=True)
        stopped = get(gateway, f"tasks/{running[0]['task_id']}")

    assert after["status"] == "RUNNING"
    assert (stopped["status"], stopped["reason"]) == ("CANCELLED", "enough")
    assert ended["status"] == "SUCCEEDED"


def test_a_gateway_that_stops_tells_who_waits(home: GatewayHome, fake_openai: FakeOpenAI) -> None:
    home.use_provider(fake_openai.url, "endless")
    with start_gateway(home) as gateway:
        address = urlsplit(gateway.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)
        headers = {"Authorization": f"token {gateway.token}", "Content-Type": "application/json"}
        connection.request(
            "POST", f"{PREFIX}/message", body=json.dumps({"content": "for ever", "wait": True}), headers=headers
        )
        until(lambda: get(gateway, "tasks?status=RUNNING")["items"])
        psutil.Process(gateway.process.pid).terminate()
        response = connection.getresponse()
        error = json.loads(response.read())
        connection.close()

    assert response.status == 503
    assert "goes on as soon as a gateway runs" in error["hint"]


def test_what_was_done_is_recorded_with_who_did_it(gateway: Gateway) -> None:
    user = psutil.Process().username()
    turn = post(gateway, "message", content="hello", wait=True)
    as_jupyters = ask(
        gateway, "POST", f"{PREFIX}/message", token=JUPYTER_TOKEN, body=json.dumps({"content": "hi", "wait": True})
    )[1]
    (received,) = get(gateway, f"events?task_id={turn['task_id']}&type=message.received")["items"]

    assert (turn["sender_id"], turn["channel"]) == (user, "rest")
    assert received["payload"]["origin"]["sender_name"] == user
    assert (received["actor"], received["session_id"]) == ("user", turn["session_id"])
    # Jupyter makes up an identity for each token of its own.
    assert as_jupyters["sender_id"] not in ("", user)


def test_lists_come_in_pages_without_gap_or_double_while_they_grow(gateway: Gateway) -> None:
    for number in range(5):
        post(gateway, "message", content=f"m{number}", session_name=f"s{number}", wait=True)

    found: dict[str, list[Any]] = {"tasks": [], "sessions": [], "events": []}
    for page in pages(gateway, "tasks?limit=2"):
        found["tasks"] += [task["title"] for task in page]
        post(gateway, "message", content="later", wait=True)
    for page in pages(gateway, "sessions?limit=2&channel=rest"):
        found["sessions"] += [session["id"] for session in page]
    for page in pages(gateway, "events?limit=7&type=task.created&type=task.succeeded"):
        found["events"] += [event["position"] for event in page]

    assert found["tasks"] == ["m4", "m3", "m2", "m1", "m0"]
    assert len(found["sessions"]) == len(set(found["sessions"])) == 8
    assert found["events"] == sorted(set(found["events"]))
    assert len(found["events"]) == 16


def test_a_sessions_messages_are_read_backwards_in_pages(gateway: Gateway) -> None:
    for number in range(3):
        post(gateway, "message", content=f"m{number}", session_name="mine", wait=True)
    (session,) = get(gateway, "sessions")["items"]

    last = get(gateway, f"sessions/{session['id']}?limit=2")
    before = get(gateway, f"sessions/{session['id']}?limit=4&cursor={last['next']}")

    assert [message["role"] for message in last["messages"]] == ["user", "assistant"]
    assert last["messages"][0]["content"] == "m2"
    assert [message["content"] for message in before["messages"][::2]] == ["m0", "m1"]
    assert before["next"] is None


def test_a_session_lives_through_all_its_states(gateway: Gateway) -> None:
    session = post(gateway, "sessions", name="mine", title="My own")
    path = f"sessions/{session['id']}"

    assert post(gateway, "sessions", name="mine") == session
    assert post(gateway, f"{path}/rename", title="  Better \n now ")["title"] == "Better now"
    assert post(gateway, f"{path}/archive")["status"] == "archived"
    assert get(gateway, "sessions")["items"] == []
    assert [found["id"] for found in get(gateway, "sessions?status=archived")["items"]] == [session["id"]]
    assert post(gateway, f"{path}/close")["status"] == "closed"
    refused = post(gateway, "message", 409, content="hello", session_id=session["id"])
    assert (refused["code"], session["id"] in refused["hint"]) == ("session.closed", True)
    resumed = post(gateway, f"{path}/resume", name="other")
    assert (resumed["status"], resumed["name"]) == ("active", "other")
    assert post(gateway, "sessions", name="other")["id"] == session["id"]


def test_sessions_are_found_by_what_a_person_says(gateway: Gateway) -> None:
    one = post(gateway, "sessions", title="Größe & mehr")
    post(gateway, "sessions", title="Another")

    for text in (one["id"], one["id"][-6:], "größe & MEHR"):
        assert [found["id"] for found in get(gateway, f"sessions?named={quote(text)}")["items"]] == [one["id"]]
    assert get(gateway, "sessions?named=nonesuch")["items"] == []


def test_events_are_found_by_their_time(gateway: Gateway) -> None:
    post(gateway, "message", content="hello", wait=True)
    now = datetime.now(UTC)
    hour_ago, in_an_hour = ((now + timedelta(hours=hours)).isoformat() for hours in (-1, 1))
    today, tomorrow = (str((now + timedelta(days=days)).date()) for days in (-1, 2))

    everything = get(gateway, "events?limit=500")["items"]
    assert get(gateway, f"events?limit=500&since={quote(hour_ago)}&until={quote(in_an_hour)}")["items"] == everything
    assert get(gateway, f"events?limit=500&since={today}&until={tomorrow}")["items"] == everything
    assert get(gateway, f"events?until={quote(hour_ago)}")["items"] == []
    assert get(gateway, f"events?since={quote(in_an_hour)}")["items"] == []
    newest = get(gateway, "events?limit=500&newest_first=true")["items"]
    assert newest == everything[::-1]


def test_events_are_found_by_the_names_that_frames_show(shared_gateway: Gateway) -> None:
    turn = post(shared_gateway, "message", content=SUM, wait=True)

    found = get(shared_gateway, f"events?task_id={turn['task_id']}&type=tool.call.result&type=task.succeeded")["items"]

    assert [event["type"] for event in found] == ["tool.call.completed", "task.succeeded"]


def test_a_type_of_events_that_is_unknown_is_refused(shared_gateway: Gateway) -> None:
    path = f"{PREFIX}/events?type=task.succeeded&type=tool.call.resul"
    status, error = ask(shared_gateway, "GET", path, token=shared_gateway.token)

    assert status == 400
    assert error["message"] == "type must be the name of an event, such as task.created."


@pytest.mark.parametrize("moment", ["2026-02-30", "now", "2026-01-01T00:00:00", "2026-01-01T00:00:00%2B99:00", ""])
def test_a_time_that_is_none_is_refused(shared_gateway: Gateway, moment: str) -> None:
    status, error = ask(shared_gateway, "GET", f"{PREFIX}/events?since={moment}", token=shared_gateway.token)

    assert status == 400
    assert error["message"].startswith("since must be a day such as")


def test_usage_is_summed_up_and_an_unknown_price_is_no_price(home: GatewayHome, fake_openai: FakeOpenAI) -> None:
    home.use_provider(fake_openai.url, "echo")
    with start_gateway(home) as gateway:
        first = post(gateway, "message", content="one", session_name="a", wait=True)
        post(gateway, "message", content="two", session_name="a", wait=True)
        post(gateway, "message", content="three", session_name="b", model="offline", wait=True)
        total = get(gateway, "usage")
        by_model = {row["model"]: row for row in get(gateway, "usage?by=model")["items"]}
        by_session = {row["session_id"]: row for row in get(gateway, "usage?by=session&by=day")["items"]}
        of_one = get(gateway, f"usage?session_id={first['session_id']}")["total"]
        paged = [row for page in pages(gateway, "usage?by=session&limit=1") for row in page]
        none = get(gateway, "usage?until=2001-01-01")["total"]
        today = get(gateway, "usage/today")
        session = get(gateway, f"sessions/{first['session_id']}")

    assert total["items"] == []
    assert (total["total"]["calls"], total["total"]["cost"]) == (3, None)
    assert total["total"]["unknown_price_calls"] == 2
    assert (by_model["echo"]["calls"], by_model["echo"]["cost"], by_model["script"]["cost"]) == (2, None, 0)
    assert by_session[first["session_id"]]["day"] == datetime.now(UTC).date().isoformat()
    assert of_one["input_tokens"] == session["token_usage"]["input"] > 0
    assert session["cost"] is None
    assert sorted(row["calls"] for row in paged) == [1, 2]
    assert none["calls"] == 0
    assert {name: today[name] for name in ("calls", "unknown_price_calls", "cost", "input_tokens")} == {
        name: total["total"][name] for name in ("calls", "unknown_price_calls", "cost", "input_tokens")
    }
    assert today["day"] == datetime.now().astimezone().date().isoformat()


def test_the_models_are_told_with_the_default(home: GatewayHome, fake_openai: FakeOpenAI) -> None:
    home.use_provider(fake_openai.url, "echo")
    with start_gateway(home) as gateway:
        models = get(gateway, "models")
        shown = get(gateway, "models/show")
        status, refusal = ask(gateway, "GET", f"{PREFIX}/models/show?name=nonesuch", token=gateway.token)

    assert models["default"] == "echo"
    assert [model["name"] for model in models["items"]] == ["echo", "offline"]
    assert (shown["name"], shown["capabilities"]["tools"]) == ("echo", {"value": None, "source": "unknown"})
    assert (status, refusal["code"]) == (404, "model.unknown")


def test_a_server_in_which_ozzie_can_not_start_says_why_everywhere(home: GatewayHome) -> None:
    (home.home / "data").mkdir()
    (home.home / "data" / "ozzie.db").write_bytes(b"this is no database" * 100)
    settings = ("--no-browser", "--allow-root", "--port=0", "--ServerApp.jpserver_extensions=ozzie_server_ext=True")
    with (home.home.parent / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *settings],
            cwd=home.project,
            env={**home.env, "JUPYTER_TOKEN": JUPYTER_TOKEN},
            stdout=log,
            stderr=log,
        )
    try:
        address = home.runtime / f"jpserver-{process.pid}.json"
        until(lambda: address.is_file() and address.read_text() != "")
        server = Gateway(home, process, json.loads(address.read_text())["url"], JUPYTER_TOKEN)
        until(lambda: ask(server, "GET", "/api/status", token=JUPYTER_TOKEN)[0] == 200)
        # Jupyter answers while its extensions still start, and Ozzie says so until it has tried.
        health = f"{PREFIX}/health"
        until(lambda: "is starting" not in ask(server, "GET", health, token=JUPYTER_TOKEN)[1]["message"])
        found = [ask(server, "GET", f"{PREFIX}/{path}", token=JUPYTER_TOKEN) for path in ("health", "sessions", "ws")]
    finally:
        process.terminate()
        process.wait(20)

    assert {status for status, _ in found} == {503}
    for _, error in found:
        assert "database" in error["message"]
        assert error["hint"]
