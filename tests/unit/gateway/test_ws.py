"""The connection's own limit on requests, without a socket."""

import json
from typing import Any, cast

import pytest

from ozzie_server_ext.gateway.ws import MAX_REQUESTS, WsHandler


class Busy:
    """A connection with so many requests under way; keeps what it would send and what it would begin."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._outbox = self
        self._upstream = None
        self.sent: list[dict[str, Any]] = []
        self.begun = 0

    async def put(self, item: str) -> None:
        self.sent.append(json.loads(item))

    def _answer(self, asked: object) -> None: ...

    def _answered(self, task: object) -> None: ...

    def _spawn(self, work: object) -> "Busy":
        self.begun += 1
        return self

    def add_done_callback(self, callback: object) -> None: ...


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"req","id":"r","method":"session.open","params":{}}',
        '{"type":"event","event":"user.message","payload":{"content":"hi"}}',
    ],
)
async def test_one_request_too_many_is_refused_with_what_to_do_whatever_its_kind(frame: str) -> None:
    full, nearly = Busy(MAX_REQUESTS), Busy(MAX_REQUESTS - 1)

    for connection in (full, nearly):
        await WsHandler.on_message(cast(WsHandler, connection), frame)

    assert (full.begun, nearly.begun, nearly.sent) == (0, 1, [])
    assert "without an answer" in full.sent[0]["error"]["message"]
    assert full.sent[0]["error"]["hint"] == "Wait for answers before sending more."
