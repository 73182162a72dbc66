"""Erasing over REST: a session, and a message with its turn."""

import contextlib

import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.test_rest import get, post
from tests.integration.gateway.walk import KERNEL_ID, ask
from tests.rig import Gateway, GatewayHome, start_attached


def said(gateway: Gateway, name: str, *texts: str) -> str:
    """The session in which this was said."""
    for text in texts:
        post(gateway, "message", content=text, session_name=name, wait=True)
    (session,) = get(gateway, f"sessions?named={name}")["items"]
    return session["id"]


def contents_of(gateway: Gateway, session: str) -> list[str]:
    return [message["content"] for message in get(gateway, f"sessions/{session}")["messages"]]


@pytest.mark.parametrize("server", ["owner", "attached"])
def test_a_person_erases_a_session_and_its_place_says_so(home: GatewayHome, gateway: Gateway, server: str) -> None:
    session = said(gateway, server, "Say hello.")
    path = f"{PREFIX}/sessions/{session}"
    with start_attached(home) if server == "attached" else contextlib.nullcontext(gateway) as asked:
        assert ask(asked, "DELETE", path, token=asked.token) == (200, {"done": True})
        again, refused = ask(asked, "DELETE", path, token=asked.token)
        shown, gone = ask(asked, "GET", path, token=asked.token)

    assert (again, shown, refused["code"], gone["code"]) == (410, 410, "input.gone", "input.gone")
    assert gone["message"].startswith("This session was erased on 2")
    assert session not in [item["id"] for item in get(gateway, "sessions")["items"]]
    assert get(gateway, f"tasks?session_id={session}")["items"] == []
    (event,) = get(gateway, f"events?session_id={session}")["items"]
    assert event["type"] == "session.erased"


def test_a_message_goes_with_its_turn_and_the_others_stay(gateway: Gateway) -> None:
    session = said(gateway, "turns", "Say one.", "Say two.")
    first, _, second, last = get(gateway, f"sessions/{session}")["messages"]

    assert ask(gateway, "DELETE", f"{PREFIX}/messages/{last['message_id']}", token=gateway.token)[0] == 200

    assert contents_of(gateway, session)[0] == first["content"]
    assert len(contents_of(gateway, session)) == 2
    assert second["content"] not in str(get(gateway, f"events?session_id={session}"))
    assert ask(gateway, "DELETE", f"{PREFIX}/messages/{last['message_id']}", token=gateway.token)[0] == 404
    said(gateway, "turns", "Say three.")
    assert len(contents_of(gateway, session)) == 4


def test_only_a_person_erases(gateway: Gateway) -> None:
    session = said(gateway, "kept", "Say hello.")
    message = get(gateway, f"sessions/{session}")["messages"][0]["message_id"]
    granted = ask(gateway, "POST", f"{PREFIX}/kernels/{KERNEL_ID}/token", token=gateway.token)[1]

    for path in (f"{PREFIX}/sessions/{session}", f"{PREFIX}/messages/{message}"):
        assert ask(gateway, "DELETE", path, token=granted["token"])[0] == 403
        assert ask(gateway, "DELETE", path)[0] == 403
    assert contents_of(gateway, session)[0] == "Say hello."


def test_what_is_not_there_is_not_found(gateway: Gateway) -> None:
    for path in ("sessions/sess_01M800000000000000000000ZY", "messages/01M800000000000000000000ZY"):
        status, answer = ask(gateway, "DELETE", f"{PREFIX}/{path}", token=gateway.token)
        assert (status, answer["code"]) == (404, "input.not_found")
        assert "ozzie" in answer["hint"]
