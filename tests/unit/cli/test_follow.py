"""Following the feed, where connections end in every moment that they can."""

from typing import Any

import pytest
from tornado.websocket import WebSocketClosedError

from ozzie_server_ext.cli import follow as module
from ozzie_server_ext.cli.follow import follow
from ozzie_server_ext.protocol.frames import EventFrame, decode_request, encode_frame


class Connection:
    """One that ends before it is asked, or after these messages."""

    def __init__(self, *messages: str, gone: bool = False) -> None:
        self.messages = [*messages]
        self.gone = gone
        self.asked: list[Any] = []

    async def write_message(self, text: str) -> None:
        if self.gone:
            raise WebSocketClosedError
        self.asked.append(decode_request(text))

    async def read_message(self) -> str | None:
        return self.messages.pop(0) if self.messages else None

    def close(self) -> None:
        self.gone = True


def frame(position: int, canonical: str) -> str:
    return encode_frame(EventFrame(event=canonical, canonical=canonical, position=position, payload={}))


def test_a_gateway_that_goes_in_any_moment_is_followed_on_the_next_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = [
        Connection(gone=True),
        Connection(frame(5, "task.created")),
        Connection(),
        Connection(frame(6, "task.succeeded")),
    ]
    left = iter(connections)

    async def connect() -> Any:
        return next(left)

    monkeypatch.setattr(module, "_connect", connect)
    monkeypatch.setattr(module, "POLL_S", 0.0)
    shown: list[int] = []

    follow(4, {"task_id": "t"}, lambda event: shown.append(event["position"]), lambda sentence: None)

    assert shown == [5, 6]
    assert [asked.params["from_position"] for found in connections for asked in found.asked] == [4, 5, 5]
