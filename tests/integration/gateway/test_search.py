"""Full-text search over REST: what it finds, in what, and what it refuses."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.test_rest import post
from tests.integration.gateway.walk import ask
from tests.rig import Gateway


def search(gateway: Gateway, text: str, expected: int = 200, **how: Any) -> dict[str, Any]:
    query = urlencode({"text": text, **how}, doseq=True)
    status, answer = ask(gateway, "GET", f"{PREFIX}/search?{query}", token=gateway.token)
    assert status == expected, answer
    return answer


def say(gateway: Gateway, text: str, session: str) -> dict[str, Any]:
    return post(gateway, "message", content=text, session_name=session, wait=True)


def test_last_weeks_conversation_is_found_by_what_was_said(gateway: Gateway) -> None:
    turn = say(gateway, "How did the quarterly revenue of Zubrowka develop?", "prices")
    say(gateway, "Something else.", "other")

    found = search(gateway, "revenues zubrowka", explain="true")

    (item,) = found["items"]
    assert (found["count"], found["capped"]) == (1, False)
    assert (item["kind"], item["session_id"], item["title"]) == ("message", turn["session_id"], "prices")
    assert item["snippet"] == "How did the quarterly revenue of Zubrowka develop?"
    assert [item["snippet"][start:end] for start, end in item["marks"]] == ["revenue", "Zubrowka"]
    assert item["labels"] == []
    assert [share["words"] for share in item["why"]] == ["revenues", "zubrowka"]
    assert sum(share["score"] for share in item["why"]) == pytest.approx(item["score"], abs=0.001)


def test_a_tool_call_and_its_result_are_found_as_such(gateway: Gateway) -> None:
    say(gateway, "What is 17.5 % of 2,480? Use the calculator.", "sums")

    kinds = {item["kind"] for item in search(gateway, "calculator", kind="tool")["items"]}

    assert kinds == {"tool"}
    assert search(gateway, "434", kind=["tool", "reply"])["count"] >= 2
    assert search(gateway, "434", kind="title")["items"] == []


def test_a_search_stays_in_its_session_and_project_and_days(gateway: Gateway) -> None:
    here = say(gateway, "A walrus here.", "here")
    say(gateway, "A walrus there.", "there")

    in_session = search(gateway, "walrus", session_id=here["session_id"], kind="message")
    assert [item["title"] for item in in_session["items"]] == ["here"]
    assert search(gateway, "walrus", kind="message", project=str(gateway.home.project))["count"] == 2
    assert search(gateway, "walrus", project="/")["count"] == 0
    assert search(gateway, "walrus", since="2020-01-01", kind="message")["count"] == 2
    assert search(gateway, "walrus", until="2020-01-01")["count"] == 0


def test_what_is_erased_is_found_no_more(gateway: Gateway) -> None:
    said = say(gateway, "The unmistakable word is xylophage.", "secretive")
    assert search(gateway, "xylophage")["count"] >= 1

    status, _ = ask(gateway, "DELETE", f"{PREFIX}/sessions/{said['session_id']}", token=gateway.token)

    assert status == 200
    assert search(gateway, "xylophage")["items"] == []


@pytest.mark.parametrize(
    ("text", "how", "code"),
    [
        ("", {}, "input.shape"),
        ("x" * 501, {}, "input.shape"),
        ("word", {"kind": "nonesuch"}, "input.shape"),
        ("word", {"limit": 0}, "input.shape"),
        ("word", {"limit": 101}, "input.shape"),
        ("word", {"since": "yesterday"}, "input.shape"),
    ],
)
def test_a_question_that_can_not_be_answered_is_refused_in_words(
    gateway: Gateway, text: str, how: dict[str, Any], code: str
) -> None:
    answer = search(gateway, text, 400, **how)

    assert answer["code"] == code, json.dumps(answer)
    assert answer["message"]


def test_words_of_every_text_are_left_out(gateway: Gateway) -> None:
    say(gateway, "The walrus and the carpenter", "poems")

    assert search(gateway, "the which of") == {"words": [], "items": [], "count": 0, "capped": False}
    assert search(gateway, "the Walrus", kind="message")["words"] == ["Walrus"]


def test_an_unknown_session_is_not_found(gateway: Gateway) -> None:
    assert search(gateway, "word", 404, session_id="sess_01AAAAAAAAAAAAAAAAAAAAAAAA")


@pytest.mark.parametrize("text", ['"', "*", "NEAR(", "a AND", "terms:x", "-x", "col : y", "x' OR 1", "\u202e\0x", "^x"])
def test_no_query_reaches_the_syntax_of_the_index(gateway: Gateway, text: str) -> None:
    query = urlencode({"text": text})
    status, _ = ask(gateway, "GET", f"{PREFIX}/search?{query}", token=gateway.token)

    assert status in (200, 400)
