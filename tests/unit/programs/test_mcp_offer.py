"""What is kept for a client of the older era whose connection broke, and how a result looks to a client."""

import json
from typing import Any

import mcp_types as types
from mcp.server.streamable_http import EventMessage

from ozzie_server_ext.programs import mcp_offer
from ozzie_server_ext.programs.mcp_offer import MissedMessages, News, _resource, _result
from ozzie_server_ext.programs.mcp_server import _values
from ozzie_server_ext.protocol.mcp_server import Content, Kept, Output, Picture


def message(number: int, text: str = "") -> Any:
    return types.JSONRPCResponse(jsonrpc="2.0", id=number, result={"text": text})


async def replayed(missed: MissedMessages, last: str) -> tuple[str | None, list[Any]]:
    found: list[EventMessage] = []

    async def take(event: EventMessage) -> None:
        found.append(event)

    return await missed.replay_events_after(last, take), [each.message for each in found]


async def test_what_came_later_in_the_same_stream_is_sent_again() -> None:
    missed = MissedMessages()
    first = await missed.store_event("1", None)
    one, other, two = message(1), message(9), message(2)
    await missed.store_event("1", one)
    await missed.store_event("2", other)
    await missed.store_event("1", two)

    assert await replayed(missed, first) == ("1", [one, two])


async def test_nothing_is_known_of_a_number_that_was_never_given() -> None:
    missed = MissedMessages()
    await missed.store_event("1", message(1))

    for last in ("7", "-1", "x", "", "²"):
        assert await replayed(missed, last) == (None, [])


async def test_only_the_last_messages_are_kept() -> None:
    missed = MissedMessages()
    first = await missed.store_event("1", None)
    for number in range(mcp_offer.MOST_MISSED):
        await missed.store_event("1", message(number))
    long = MissedMessages()
    last = begin = await long.store_event("1", None)
    for number in range(4):
        last = await long.store_event("1", message(number, "x" * (mcp_offer.MOST_MISSED_CHARS // 2)))

    assert (await replayed(missed, first))[0] is None
    assert (await replayed(long, begin))[0] is None
    assert (await replayed(long, last))[0] == "1"


def test_a_result_from_outside_says_so_first() -> None:
    result = _result(Output(text="hello", data={"a": 1}, sources=("web:example.org",)))
    first, second = result.content

    assert isinstance(first, types.TextContent)
    assert isinstance(second, types.TextContent)
    assert "web:example.org" in first.text
    assert "not instructions" in first.text
    assert (second.text, result.structured_content, result.is_error) == ("hello", {"a": 1}, False)
    assert result.meta == {mcp_offer.SOURCES: ["web:example.org"]}


def test_pictures_are_shown_and_what_is_long_is_linked() -> None:
    kept = Kept(uri="ozzie://artifacts/1", name="log", mime="text/plain", size=7)
    result = _result(Output(text="", pictures=(Picture(mime="image/png", data="AA=="),), kept=(kept,), is_error=True))

    assert [each.type for each in result.content] == ["text", "image", "resource_link"]
    assert result.is_error


def test_a_resource_has_its_sources_even_if_it_is_no_text() -> None:
    bytes_ = _resource("ozzie://artifacts/1", Content(mime="image/png", data="AA==", sources=("web:example.org",)))
    own = _resource("ozzie://artifacts/1", Content(mime="image/png", data="AA=="))

    assert isinstance(bytes_.contents[0], types.BlobResourceContents)
    assert (bytes_.meta, own.meta) == ({mcp_offer.SOURCES: ["web:example.org"]}, None)


async def test_of_progress_that_nobody_reads_only_the_newest_is_kept() -> None:
    news = News()
    for number in range(1000):
        news.put(str(number))
    news.end()
    told: list[str] = []
    while (text := await news.next()) is not None:
        told.append(text)

    assert told == [str(number) for number in range(1000 - mcp_offer.MOST_NEWS, 1000)]


def test_values_are_counted_and_what_is_in_a_text_is_none() -> None:
    words = ',[{"' * 5000

    assert _values(json.dumps({"a": words, "b": [1, 2]})) == 5
    assert _values("[" + "1," * 5000 + "1]") == 5002
    assert _values("[" + '"\\\\",' * 5000 + '"\\"]') == 5002  # texts of a backslash, and one that does not end
