"""`ozzie sessions` and `ozzie tasks`: read, go on, put away."""

import json

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.integration.gateway.walk import ask
from tests.rig import Gateway, GatewayHome, ozzie, start_gateway


def listed(home: GatewayHome, *words: str) -> list[dict[str, object]]:
    return json.loads(ozzie(home, *words, "--json").stdout)


def test_a_session_is_read_as_it_was(gateway: Gateway) -> None:
    ozzie(gateway.home, "ask", "What is 17.5 % of 2,480? Use the calculator.", "--session", "sums")
    ozzie(gateway.home, "ask", "Say hello.", "--session", "sums")

    said = ozzie(gateway.home, "sessions", "show", "sums").stdout
    last = ozzie(gateway.home, "sessions", "show", "SUMS", "--limit", "1").stdout
    whole = json.loads(ozzie(gateway.home, "sessions", "show", "sums", "--json").stdout)

    assert (
        said.index("> What is 17.5 %") < said.index("calculator") < said.index("**434**") < said.index("> Say hello.")
    )
    assert said.count("[done]") == 2
    assert "$0.00" in said
    assert f" in {gateway.home.project}\n" in said
    assert max(len(line) for line in said.splitlines() if not line.startswith("sess_")) <= 80
    assert "Say hello" in last
    assert "17.5" not in last
    assert [message["role"] for message in whole["messages"]] == ["user", "assistant"] * 2
    assert whole["title"] == "sums"


def test_the_next_ask_goes_on_in_a_resumed_session(gateway: Gateway) -> None:
    ozzie(gateway.home, "ask", "The first one.", "--session", "older")
    older = listed(gateway.home, "sessions", "list")[0]

    resumed = ozzie(gateway.home, "sessions", "resume", str(older["id"])[-6:])
    ozzie(gateway.home, "ask", "And the next.")
    at_once = ozzie(gateway.home, "sessions", "resume", "older", "And one more.")

    (session,) = listed(gateway.home, "sessions", "list")
    assert resumed.returncode == at_once.returncode == 0
    assert "ozzie ask" in resumed.stdout
    assert "[done]" in at_once.stdout
    assert (session["id"], session["name"], session["message_count"]) == (older["id"], "cli:cli", 6)


def test_sessions_are_renamed_put_away_and_closed(gateway: Gateway) -> None:
    ozzie(gateway.home, "ask", "hello", "--session", "one")

    renamed = ozzie(gateway.home, "sessions", "rename", "one", "My \x1b[31msession")
    shown = ozzie(gateway.home, "sessions", "list").stdout
    id_ = str(listed(gateway.home, "sessions", "list")[0]["id"])
    archived = ozzie(gateway.home, "sessions", "archive", id_, "--json")
    left = listed(gateway.home, "sessions", "list")
    away = listed(gateway.home, "sessions", "list", "--archived")
    closed = ozzie(gateway.home, "sessions", "close", id_)
    refused = ozzie(gateway.home, "ask", "hello again", "--session", "one")

    assert (renamed.returncode, archived.returncode, closed.returncode) == (0, 0, 0)
    assert "My \\u001b[31msession" in shown
    assert "\x1b" not in shown + renamed.stdout
    assert (left, [session["status"] for session in away]) == ([], ["archived"])
    assert refused.returncode == 1
    assert "This session is closed." in refused.stderr


def test_a_name_that_fits_several_sessions_or_none_is_told(gateway: Gateway) -> None:
    for name in ("one", "two"):
        ozzie(gateway.home, "ask", "hello", "--session", name)
        ozzie(gateway.home, "sessions", "rename", name, "The same")

    several = ozzie(gateway.home, "sessions", "show", "the same")
    none = ozzie(gateway.home, "sessions", "archive", "nonesuch", "--json")

    assert several.returncode == none.returncode == 1
    assert several.stderr.startswith('ozzie: 2 sessions are called "the same".')
    assert several.stderr.count("sess_") == 2
    assert json.loads(none.stderr)["message"] == 'There is no session "nonesuch".'


def test_a_task_is_shown_with_its_steps_and_what_it_used(gateway: Gateway) -> None:
    ozzie(gateway.home, "ask", "What is 17.5 % of 2,480? Use the calculator.")
    (task,) = listed(gateway.home, "tasks", "list")

    said = ozzie(gateway.home, "tasks", "show", str(task["task_id"]))
    whole = json.loads(ozzie(gateway.home, "tasks", "show", str(task["task_id"]), "--json").stdout)

    assert said.returncode == 0
    assert said.stdout.startswith("Done  What is 17.5 %")
    assert [line.split()[:3] for line in said.stdout.splitlines() if line.startswith(("  model", "  tool"))] == [
        ["model", "offline", "completed"],
        ["tool", "calculator", "completed"],
        ["model", "offline", "completed"],
    ]
    assert "2 rounds, 0 tokens, $0.00" in said.stdout
    assert [step["kind"] for step in whole["steps"]] == ["model", "tool", "model"]
    assert whole["steps"][1]["summary"] == "434"


def test_a_task_that_failed_says_why_and_what_to_do(gateway: Gateway) -> None:
    ozzie(gateway.home, "ask", "hello", "--model", "nonesuch")
    (task,) = listed(gateway.home, "tasks", "list")

    said = ozzie(gateway.home, "tasks", "show", str(task["task_id"])).stdout

    assert said.startswith("Failed  hello")
    assert 'There is no model "nonesuch".' in said
    assert "--model" in said
    assert said.splitlines()[-1] == "  cause    the model (model.unknown)"


def test_open_tasks_are_listed_apart(home: GatewayHome, fake_openai: FakeOpenAI) -> None:
    home.use_provider(fake_openai.url, "endless")
    with start_gateway(home) as gateway:
        ozzie(home, "ask", "hello", "--model", "offline")
        sent = post_message(gateway, {"content": "for ever", "session_name": "cli:cli"})
        open_ = listed(home, "tasks", "list", "--open")
        of_session = listed(home, "tasks", "list", "--session", "cli")
        ozzie(home, "tasks", "cancel", str(sent["task_id"]))

    assert [task["title"] for task in open_] == ["for ever"]
    assert [task["title"] for task in of_session] == ["for ever", "hello"]


@pytest.mark.parametrize("words", [("sessions", "list"), ("tasks", "list")])
def test_where_there_is_nothing_yet_it_says_how_to_begin(gateway: Gateway, words: tuple[str, ...]) -> None:
    assert "ozzie ask hello" in ozzie(gateway.home, *words).stdout
    assert listed(gateway.home, *words) == []


def post_message(gateway: Gateway, body: dict[str, object]) -> dict[str, object]:
    status, answer = ask(gateway, "POST", "/ozzie/api/message", token=gateway.token, body=json.dumps(body))
    assert status == 202, answer
    return answer
