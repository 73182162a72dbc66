"""What a tool says while it runs: the last lines, often enough and not oftener, without secrets."""

import asyncio
from typing import Any

import pytest

from ozzie_server_ext.domain.events import ToolCallCompleted, ToolCallFailed, Transient
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.redaction import redact_text
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.tools import live
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from ozzie_server_ext.tools.live import Kind, LiveCall
from tests.unit.tools.test_broker import KNOWN, Bench, probe

WAIT_S = 10
KEY = "AKIAIOSFODNN7EXAMPLE"


class Page:
    """Sees what one call shows."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[tuple[Kind, JsonObject]] = asyncio.Queue()
        self.call = LiveCall(CallId("c1"), lambda kind, payload: self.seen.put_nowait((kind, payload)), redact_text)

    async def next(self) -> tuple[Kind, JsonObject]:
        return await asyncio.wait_for(self.seen.get(), WAIT_S)

    async def lines(self) -> Any:
        kind, payload = await self.next()
        assert kind == "tool.output"
        return payload["lines"]


@pytest.fixture
async def page() -> Page:
    return Page()


async def test_the_first_line_is_shown_at_once_and_the_next_ones_together(page: Page) -> None:
    page.call.output("one\n")
    assert page.seen.qsize() == 1

    for word in ("two", "three", "four"):
        page.call.output(f"{word}\n")

    assert page.seen.qsize() == 1, "they wait for each other"
    assert await page.next() == ("tool.output", {"call_id": "c1", "lines": ["one"], "count": 1})
    shown = {"call_id": "c1", "lines": ["one", "two", "three", "four"], "count": 4}
    assert await page.next() == ("tool.output", shown)


async def test_only_the_last_lines_are_shown_and_all_are_counted(page: Page) -> None:
    page.call.output("".join(f"{number}\n" for number in range(1, 1001)))

    _, payload = await page.next()

    assert payload == {"call_id": "c1", "lines": [str(number) for number in range(989, 1001)], "count": 1000}


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        (["on", "e\ntw", "o\n"], ["one", "two"]),
        (["one\r\ntwo\r\n"], ["one", "two"]),
        (["10 %\r20 %\r100 %\n"], ["10 %", "20 %", "100 %"]),
        (["\n\n"], ["", ""]),
        (["half"], None),
        (["x" * 2001 + "\nshort\n"], ["(a very long line)", "short"]),
        ([*["x"] * 3000, "\nshort\n"], ["(a very long line)", "short"]),
    ],
)
async def test_a_line_is_shown_once_it_is_whole(
    page: Page, monkeypatch: pytest.MonkeyPatch, pieces: list[str], lines: list[str] | None
) -> None:
    for piece in pieces:
        page.call.output(piece)

    if lines is None:
        assert page.seen.empty()
        return
    while (shown := await page.lines()) != lines:
        assert len(shown) < len(lines)


async def test_no_secret_is_shown_whatever_pieces_it_came_in(page: Page) -> None:
    key = f"aws_access_key_id = {KEY}\n"
    for character in key:
        page.call.output(character)
    page.call.output("-----BEGIN PRIVATE KEY-----\n")
    for number in range(30):
        page.call.output(f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ{number:02}\n")
    page.call.progress(f"with {KEY}")

    seen: list[Any] = []
    while len(seen) < 3:
        seen.append(await page.next())
    assert KEY not in repr(seen)
    assert "MIIE" not in repr(seen)


async def test_a_flood_costs_no_more_than_its_end(page: Page) -> None:
    page.call.output(("x" * 99 + "\n") * 1_000_000)

    _, payload = await page.next()

    assert payload["count"] == 1_000_000
    assert payload["lines"] == ["x" * 99] * 12
    assert len(page.call._lines) <= 212


async def test_after_its_end_nothing_is_shown(page: Page) -> None:
    page.call.output("one\n")
    page.call.output("two\n")
    page.call.close()
    page.call.output("three\n")
    page.call.progress("3 of 3")

    assert await page.lines() == ["one"]
    await asyncio.sleep(0)
    assert page.seen.empty()


async def test_how_far_it_is_is_shown_on_one_line(page: Page) -> None:
    page.call.progress("3 of\n8 files\u202e")

    assert await page.next() == ("tool.call.progressed", {"call_id": "c1", "summary": "3 of 8 files\\u202e"})


async def test_the_broker_shows_it_under_the_calls_own_id_and_records_none_of_it(context: ToolContext) -> None:
    bench, shown = Bench(context), list[Transient]()

    async def talk(context: ToolContext, text: str) -> ToolResult:
        context.live.progress("1 of 2")
        context.live.output(f"the secret is {KNOWN}\n")
        return ToolResult(ok=True, data="done")

    bench.publish = shown.append
    recorded = await bench.call(probe(lambda context, text: talk(context, text)))

    *_, completed = recorded
    assert isinstance(completed, ToolCallCompleted)
    assert [each.type for each in shown] == ["tool.call.progressed"]
    assert shown[0].task_id == bench.recorder.task_id
    assert shown[0].payload == {"call_id": completed.call_id, "summary": "1 of 2"}
    assert KNOWN not in repr((shown, recorded))


async def test_a_tool_that_talks_and_fails_is_told_by_its_failure_alone(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "INTERVAL_S", 0.0)
    bench, shown = Bench(context), list[Transient]()
    calls: list[Any] = []

    async def fail(context: ToolContext, text: str) -> ToolResult:
        calls.append(context.live)
        raise ToolFailed("The line broke.")

    bench.publish = shown.append
    *_, failed = await bench.call(probe(lambda context, text: fail(context, text)))
    calls[0].output("too late\n")

    assert isinstance(failed, ToolCallFailed)
    assert shown == []
