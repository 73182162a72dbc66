"""An operation refuses the same over REST and over the WebSocket, with the same code."""

import asyncio
import json
from typing import Any

import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.test_rest import post
from tests.integration.gateway.walk import EXAMPLES, ask
from tests.rig import Gateway
from tests.ws_client import connected

TASK, APPROVAL, SESSION = EXAMPLES["task_id"], EXAMPLES["approval_id"], EXAMPLES["session_id"]
LONG = "x" * 600_000

TASK_FIELDS: dict[str, list[dict[str, Any]]] = {
    "cancel": [{"reason": LONG}, {"reason": "x" * 501}],
    "pause": [{"reason": LONG}, {"reason": "x" * 501}],
    "retry": [],
    "resume": [],
    "answer": [
        {"option": LONG},
        {"option": ""},
        {"option": "a", "text": LONG},
        {"option": "a", "amount": 0},
        {"option": "a", "amount": 10**15 + 1},
        {"option": "a", "prompt_id": "x"},
    ],
    "events": [{"event": LONG}, {"event": "of course"}, {"event": "a", "key": "x" * 101}, {"event": "a", "data": 1}],
    "update": [{"text": LONG}, {"text": " "}, {"text": "a", "key": "x" * 101}],
}
SESSION_FIELDS: dict[str, list[dict[str, Any]]] = {
    "rename": [{"title": LONG}, {"title": "x" * 501}, {"title": " "}],
    "archive": [],
    "close": [],
}
APPROVAL_FIELDS: dict[str, list[dict[str, Any]]] = {
    "approve": [{"binds": LONG}, {"binds": "x"}, {"extent": "ever"}],
    "reject": [{"comment": LONG}, {"comment": "x" * 2001}],
    "renew": [],
}
ACTS = {"events": "tell"}
"""What the WebSocket calls an operation whose path ends otherwise."""


def twins() -> list[Any]:
    """Each wrong request twice: as a path with its body, and as a method with its parameters."""
    found: list[Any] = []

    def add(path: str, body: dict[str, Any], method: str, params: dict[str, Any]) -> None:
        wrong = ", ".join(f"{name}={str(value)[:9]}" for name, value in body.items())
        found.append(pytest.param(path, body, method, params, id=f"{method} {path.split('/')[1][:4]} {wrong}"))

    for act, bodies in TASK_FIELDS.items():
        method = f"task.{ACTS.get(act, act)}"
        for body in bodies:
            add(f"tasks/{TASK}/{act}", body, method, {"task_id": TASK, **body})
        valid = {"answer": {"option": "a"}, "events": {"event": "a"}, "update": {"text": "a"}}.get(act, {})
        for task_id in ("none", LONG[:2000], TASK):
            add(f"tasks/{task_id}/{act}", valid, method, {"task_id": task_id, **valid})
    for act, bodies in SESSION_FIELDS.items():
        for body in bodies:
            add(f"sessions/{SESSION}/{act}", body, f"session.{act}", {"session_id": SESSION, **body})
        valid = {"title": "a"} if act == "rename" else {}
        for session_id in ("none", SESSION):
            add(f"sessions/{session_id}/{act}", valid, f"session.{act}", {"session_id": session_id, **valid})
    for act, bodies in APPROVAL_FIELDS.items():
        for body in bodies:
            params = {"approval_id": APPROVAL, "answer": act, **body}
            add(f"approvals/{APPROVAL}/{act}", body, "approval.answer", params)
        for approval_id in ("none", APPROVAL):
            add(f"approvals/{approval_id}/{act}", {}, "approval.answer", {"approval_id": approval_id, "answer": act})
    return found


@pytest.mark.parametrize(("path", "body", "method", "params"), twins())
async def test_what_rest_refuses_the_websocket_refuses_by_the_same_code(
    shared_gateway: Gateway, path: str, body: dict[str, Any], method: str, params: dict[str, Any]
) -> None:
    asked = (shared_gateway, "POST", f"{PREFIX}/{path}")
    status, refusal = await asyncio.to_thread(ask, *asked, token=shared_gateway.token, body=json.dumps(body))
    async with connected(shared_gateway) as client:
        answer = await client.request(method, **params)

    assert (400 <= status < 500, answer["ok"]) == (True, False), answer
    assert answer["error"]["code"] == refusal["code"]


async def test_methods_that_rest_does_not_have_are_bound_too(shared_gateway: Gateway) -> None:
    session_id = post(shared_gateway, "sessions", name="bounds")["id"]
    async with connected(shared_gateway) as client:
        for method, params in (
            ("session.open", {"session_name": LONG}),
            ("session.find", {"text": LONG}),
            ("session.earlier", {"cell_id": LONG}),
            ("session.list", {"limit": 501}),
            ("message.send", {"content": "hello", "model": LONG}),
            ("message.send", {"content": "hello", "cell_id": LONG}),
            ("model.choose", {"model": LONG}),
            ("model.choose", {"model": "offline", "base_url": LONG}),
            ("complete", {"text": LONG}),
            ("inspect", {"text": LONG}),
            ("notebook.opened", {"path": LONG, "root": "/"}),
        ):
            answer = await client.request(method, **{"session_id": session_id, **params})
            assert answer.get("error", {}).get("code") == "input.shape", (method, params.keys())
