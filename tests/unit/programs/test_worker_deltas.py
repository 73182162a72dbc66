"""How text of many streams shares one tick."""

import asyncio
from collections.abc import Callable

import pytest

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.programs.model_worker import MAX_LINE_CHARS, DeltaBatch
from ozzie_server_ext.protocol.ndjson import MAX_LINE_TO_GATEWAY, encode_line


class Sent:
    """What a batch has sent, to be waited for."""

    def __init__(self) -> None:
        self.messages: list[JsonObject] = []
        self.changed = asyncio.Event()

    def __call__(self, message: JsonObject) -> None:
        self.messages.append(message)
        self.changed.set()


@pytest.fixture
async def sent() -> Sent:
    return Sent()


async def test_the_first_piece_of_each_stream_goes_at_once(sent: Sent) -> None:
    batch = DeltaBatch(sent, tick_s=60)
    batch.add("1", "a")
    batch.add("2", "b")
    assert sent.messages == [
        {"type": "token", "id": "1", "text": "a"},
        {"type": "token", "id": "2", "text": "b"},
    ]


async def test_what_follows_of_all_streams_goes_in_one_message_at_the_tick(sent: Sent) -> None:
    batch = DeltaBatch(sent, tick_s=0.01)
    for call_id in ("1", "2"):
        batch.add(call_id, "first ")
    for piece in ("x", "y"):
        for call_id in ("1", "2"):
            batch.add(call_id, piece + call_id)
    sent.changed.clear()
    await asyncio.wait_for(sent.changed.wait(), 5)
    assert sent.messages[2:] == [{"type": "tokens", "texts": {"1": "x1y1", "2": "x2y2"}}]


async def test_a_full_loop_does_not_hold_the_tick_up(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = DeltaBatch(sent, tick_s=0.02)
    now = asyncio.get_running_loop().time()
    batch.add("1", "a")
    batch.add("1", "b")
    # No timer has had its turn since; the time alone has passed.
    later: Callable[[], float] = lambda: now + 1  # noqa: E731
    monkeypatch.setattr(asyncio.get_running_loop(), "time", later)
    batch.add("1", "c")
    assert sent.messages[-1] == {"type": "tokens", "texts": {"1": "bc"}}


async def test_the_end_of_a_stream_sends_what_is_left_at_once(sent: Sent) -> None:
    batch = DeltaBatch(sent, tick_s=60)
    for piece in ("a", "b"):
        batch.add("1", piece)
    batch.end("1")
    assert sent.messages[-1] == {"type": "tokens", "texts": {"1": "b"}}
    batch.end("never begun")
    assert len(sent.messages) == 2


async def test_no_message_is_larger_than_a_line_whatever_it_holds(sent: Sent) -> None:
    batch = DeltaBatch(sent, tick_s=60)
    worst = "\x01" * (3 * MAX_LINE_CHARS)
    batch.add("1", worst)
    batch.add("2", worst)
    batch.flush()
    assert all(len(encode_line(message)) <= MAX_LINE_TO_GATEWAY for message in sent.messages)
    assert sum(str(message).count("\\x01") for message in sent.messages) == 2 * len(worst)


async def test_a_pair_of_surrogates_that_was_cut_in_two_is_one_character_again_on_whatever_side_of_a_tick(
    sent: Sent,
) -> None:
    batch = DeltaBatch(sent, tick_s=60)
    batch.add("1", "\ud83d")
    assert sent.messages == [], "Half a character can't be sent."
    batch.add("1", "\ude00 and ")
    assert sent.messages == [{"type": "token", "id": "1", "text": "😀 and "}]
    batch.add("1", "a\ud83d")
    batch.flush()
    batch.add("1", "\ude01")
    batch.end("1")
    assert sent.messages[1:] == [
        {"type": "tokens", "texts": {"1": "a"}},
        {"type": "tokens", "texts": {"1": "😁"}},
    ]


@pytest.mark.parametrize(
    ("before", "last"),
    [
        ("", {"type": "token", "id": "1", "text": "\ufffd"}),
        ("a", {"type": "tokens", "texts": {"1": "\ufffd"}}),
    ],
)
async def test_half_a_character_whose_other_half_never_comes_is_replaced(
    sent: Sent, before: str, last: JsonObject
) -> None:
    batch = DeltaBatch(sent, tick_s=60)
    for piece in (before, "\ud83d"):
        batch.add("1", piece)
    batch.end("1")
    assert sent.messages[-1] == last
    batch.add("1", "b")
    assert sent.messages[-1] == {"type": "token", "id": "1", "text": "b"}, "Nothing of it is left for another call."
