"""The channel over a real socket pair: routing, limits, backpressure, abort, death."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.planes import channel as channel_module
from ozzie_server_ext.planes.channel import CallDropped, Channel, ChannelLost
from ozzie_server_ext.protocol.ndjson import LineTooLong

ABORT: JsonObject = {"type": "abort", "session_id": "s", "id": "1"}
WAIT_S = 10


class Peer:
    """The other end, played by the test."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.events: list[JsonObject | str] = []
        self.lost: list[str] = []
        self.killed = asyncio.Event()
        self.has_event = asyncio.Event()
        self._received = bytearray()

    def on_event(self, message: JsonObject | str) -> None:
        self.events.append(message)
        self.has_event.set()

    async def say(self, *messages: Any) -> None:
        wire = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(self.theirs, wire), WAIT_S)

    async def hear(self) -> JsonObject:
        while b"\n" not in self._received:
            data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.theirs, 65536), WAIT_S)
            assert data, "The channel closed the connection."
            self._received += data
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        return json.loads(line)

    async def hear_after_the_start(self, calls: int = 1) -> JsonObject:
        """What comes after so many calls were begun."""
        for _ in range(calls):
            assert (await self.hear())["type"] == "generate"
        return await self.hear()


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    peer.theirs.setblocking(False)
    peer.ours.setblocking(False)
    yield peer
    peer.theirs.close()


@pytest.fixture
async def channel(peer: Peer) -> AsyncIterator[Channel]:
    channel = await Channel.open(
        peer.ours, on_event=peer.on_event, on_lost=peer.lost.append, kill=peer.killed.set, stall_s=0.2
    )
    yield channel
    channel.close()


def opened(channel: Channel, call_id: str) -> channel_module.Inbox:
    return channel.open_call(call_id, start={"type": "generate", "id": call_id}, abort=ABORT)


async def get(inbox: channel_module.Inbox) -> JsonObject:
    return await asyncio.wait_for(inbox.get(), WAIT_S)


async def test_messages_come_to_the_call_that_they_name(peer: Peer, channel: Channel) -> None:
    one, two = opened(channel, "1"), opened(channel, "2")
    await peer.say(
        {"type": "token", "id": "2", "text": "b"},
        {"type": "tokens", "texts": {"1": "a", "2": "c", "3": "nobody"}},
        {"type": "stop", "id": "1"},
    )
    assert (await get(one))["text"] == "a"
    assert (await get(one))["type"] == "stop"
    assert [(await get(two))["text"] for _ in range(2)] == ["b", "c"]


async def test_what_belongs_to_no_call_is_an_event(peer: Peer, channel: Channel) -> None:
    await peer.say({"type": "heartbeat"})
    await asyncio.wait_for(peer.has_event.wait(), WAIT_S)
    assert peer.events == [{"type": "heartbeat"}]


async def test_the_end_of_the_other_side_fails_every_call_after_what_had_come(peer: Peer, channel: Channel) -> None:
    inbox = opened(channel, "1")
    await peer.say({"type": "token", "id": "1", "text": "a"})
    peer.theirs.close()
    assert (await get(inbox))["text"] == "a"
    with pytest.raises(ChannelLost):
        await get(inbox)
    with pytest.raises(ChannelLost):
        opened(channel, "2")
    with pytest.raises(ChannelLost):
        await channel.send({"type": "status"})
    assert len(peer.lost) == 1


async def test_a_line_over_the_limit_ends_the_channel(peer: Peer, channel: Channel) -> None:
    inbox = opened(channel, "1")
    with pytest.raises((ConnectionError, TimeoutError)):
        await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(peer.theirs, b"x" * (8 << 20)), WAIT_S)
    with pytest.raises(ChannelLost, match="longer than 1,048,576 bytes"):
        await get(inbox)


async def test_a_reader_that_comes_back_gets_everything_however_full_its_inbox_was(peer: Peer) -> None:
    channel = await Channel.open(
        peer.ours, on_event=peer.on_event, on_lost=peer.lost.append, kill=peer.killed.set, stall_s=60
    )
    inbox = opened(channel, "1")
    flood = [{"type": "token", "id": "1", "text": "x" * 10_000}] * 500
    saying = asyncio.create_task(peer.say(*flood))
    for _ in range(100_000):
        if channel.stalled:
            break
        await asyncio.sleep(0)
    assert channel.stalled
    assert not saying.done()
    assert [len(str((await get(inbox))["text"])) for _ in range(500)] == [10_000] * 500
    await saying
    assert not channel.stalled
    channel.close()


async def test_a_call_that_nobody_reads_is_given_up_so_that_the_others_go_on(peer: Peer, channel: Channel) -> None:
    unread, read = opened(channel, "1"), opened(channel, "2")
    flood = [{"type": "token", "id": "1", "text": "x" * 10_000}] * 200
    saying = asyncio.create_task(peer.say(*flood, {"type": "token", "id": "2", "text": "through"}))
    assert (await get(read))["text"] == "through"
    await saying
    assert await peer.hear_after_the_start(2) == ABORT

    async def drain() -> None:
        while True:
            await unread.get()

    with pytest.raises(CallDropped):
        await asyncio.wait_for(drain(), WAIT_S)


async def test_an_abort_is_repeated_and_then_the_child_is_killed(
    peer: Peer, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "ABORT_AGAIN_S", 0.02)
    monkeypatch.setattr(channel_module, "ABORT_KILL_S", 0.06)
    channel.close_call(opened(channel, "1"))
    assert [await peer.hear_after_the_start(), await peer.hear()] == [ABORT, ABORT]
    await asyncio.wait_for(peer.killed.wait(), WAIT_S)


async def test_an_abort_that_is_obeyed_kills_nobody(peer: Peer, channel: Channel) -> None:
    channel.close_call(opened(channel, "1"))
    assert await peer.hear_after_the_start() == ABORT
    await peer.say({"type": "stop", "id": "1", "finish": "cancelled"}, {"type": "heartbeat"})
    await asyncio.wait_for(peer.has_event.wait(), WAIT_S)
    await asyncio.sleep(0)
    assert channel.aborting == 0
    assert not peer.killed.is_set()


async def test_a_call_that_has_ended_is_closed_without_an_abort(peer: Peer, channel: Channel) -> None:
    inbox = opened(channel, "1")
    await peer.say({"type": "stop", "id": "1"})
    await get(inbox)
    channel.close_call(inbox)
    await channel.send({"type": "status"})
    assert await peer.hear_after_the_start() == {"type": "status"}


@pytest.mark.parametrize(
    "line", [b"plain text\n", b"[1,2]\n", b'{"type":"tokens","texts":7}\n', b'{"id":7}\n', b"{}\n"]
)
async def test_lines_of_another_shape_leave_the_channel_working(peer: Peer, channel: Channel, line: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(peer.theirs, line)
    inbox = opened(channel, "1")
    await peer.say({"type": "token", "id": "1", "text": "a"})
    assert (await get(inbox))["text"] == "a"


async def test_a_call_that_can_not_be_written_leaves_nothing_open_and_nothing_to_abort(
    peer: Peer, channel: Channel
) -> None:
    with pytest.raises(LineTooLong):
        channel.open_call("1", start={"type": "generate", "prompt": "x" * (64 << 20)}, abort=ABORT)
    assert (channel.open_calls, channel.aborting) == (0, 0)
    await channel.send({"type": "status"})
    assert await peer.hear() == {"type": "status"}
