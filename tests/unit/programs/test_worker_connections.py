"""The rest of a response's body, once its last event has come."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from ozzie_server_ext.programs import worker_connections
from ozzie_server_ext.programs.worker_connections import MOST_BYTES, WholeBody

DONE = b"data: [DONE]\n\n"
STOPPED = b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
TEXT = b'data: {"text": "\\ndata: [DONE]\\n\\n"}\n\n'


class Body(httpx.AsyncByteStream):
    """Gives its pieces, then fails or hangs if told to. `read` are those that were taken."""

    def __init__(self, *pieces: bytes, fails: bool = False, hangs: bool = False) -> None:
        self.pieces, self.fails, self.hangs = pieces, fails, hangs
        self.read: list[bytes] = []
        self.closed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            self.read.append(piece)
            yield piece
        if self.fails:
            raise httpx.ReadError("the provider hung up")
        if self.hangs:
            await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.closed.set()


async def read_to(last: bytes, body: Body) -> list[bytes]:
    """Read as clients do: up to the last event, and close."""
    whole, got = WholeBody(body), list[bytes]()
    async for piece in whole:
        got.append(piece)
        if piece.endswith(last):
            break
    await whole.aclose()
    return got


@pytest.mark.parametrize("last", [DONE, STOPPED])
async def test_the_rest_is_read_before_the_connection_is_given_back(last: bytes) -> None:
    body = Body(b"data: {}\n\n", last, b"event: message_stop\n\n")
    assert await read_to(last, body) == [b"data: {}\n\n", last]
    await asyncio.wait_for(body.closed.wait(), 10)
    assert body.read == [*body.pieces]


async def test_an_event_that_comes_in_pieces_is_seen_too() -> None:
    body = Body(b"data: [DO", b"NE]\n", b"\n", b"more")
    assert await read_to(b"NE]\n", body) == [b"data: [DO", b"NE]\n"]
    await asyncio.wait_for(body.closed.wait(), 10)
    assert body.read == [*body.pieces]


async def test_who_reads_on_gets_all_of_it() -> None:
    body = Body(TEXT, DONE, b": one more\n\n")
    assert [piece async for piece in WholeBody(body)] == [TEXT, DONE, b": one more\n\n"]


@pytest.mark.parametrize("said", [TEXT, b'event: message_delta\ndata: {"delta":{"stop_reason":null}}\n\n'])
async def test_an_answer_that_is_broken_off_closes_its_connection_at_once(said: bytes) -> None:
    body = Body(said, b"data: {}\n\n")
    assert await read_to(said, body) == [said]
    assert body.closed.is_set()
    assert body.read == [said]


async def test_a_body_that_does_not_end_is_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_connections, "MOST_S", 0.01)
    body = Body(DONE, hangs=True)
    assert await read_to(DONE, body) == [DONE]
    await asyncio.wait_for(body.closed.wait(), 10)


async def test_a_body_that_goes_on_is_closed() -> None:
    body = Body(DONE, *[b"x" * MOST_BYTES] * 5)
    assert await read_to(DONE, body) == [DONE]
    await asyncio.wait_for(body.closed.wait(), 10)
    assert len(body.read) == 3


async def test_a_failure_after_the_last_event_is_none_of_the_answer() -> None:
    body = Body(DONE, fails=True)
    assert [piece async for piece in WholeBody(body)] == [DONE]
    assert body.closed.is_set()
