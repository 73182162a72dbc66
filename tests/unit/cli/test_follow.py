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


def test_of_a_whole_session_it_ends_with_the_one_task_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(task_id: str, position: int) -> str:
        ended = EventFrame(event="e", canonical="task.succeeded", position=position, payload={}, task_id=task_id)
        return encode_frame(ended)

    async def connect() -> Any:
        return Connection(of("step", 5), of("t", 6), of("other", 7))

    monkeypatch.setattr(module, "_connect", connect)
    shown: list[int] = []

    follow(4, {"session_id": "s"}, lambda event: shown.append(event["position"]), print, until_end_of="t")

    assert shown == [5, 6]


def test_the_time_that_it_may_take_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect() -> Any:
        return None

    monkeypatch.setattr(module, "_connect", connect)

    with pytest.raises(TimeoutError):
        follow(4, {"task_id": "t"}, print, lambda sentence: None, within_s=0.01)
