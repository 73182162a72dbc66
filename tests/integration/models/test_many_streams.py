"""Fifty answers at once through one worker: what goes over the wire, line by line."""

import asyncio
from collections import Counter

import pytest

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.driver import TextDelta
from tests.integration.models.rig import WAIT_S, Rig, read, request, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

STREAMS, PIECES = 50, 40


async def lines_of(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[JsonObject | str]:
    """Grows by each line that the worker sends, as it came."""
    channel = await rig.plane.channel()
    lines: list[JsonObject | str] = []
    route = channel._route

    def record(message: JsonObject | str, size: int) -> None:
        lines.append(message)
        route(message, size)

    monkeypatch.setattr(channel, "_route", record)
    return lines


async def test_the_first_piece_of_each_answer_goes_alone_and_the_rest_of_all_together(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = await lines_of(rig, monkeypatch)
    answers = await asyncio.gather(*(read(rig, request(f"paced-0-5-{PIECES}")) for _ in range(STREAMS)))
    assert {text_of(events) for events in answers} == {"".join(f"w{n} " for n in range(PIECES))}

    # What an earlier test aborted may still be on its way.
    whole = {str(line["id"]) for line in lines if isinstance(line, dict) and line.get("finish") == "stop"}
    alone: Counter[str] = Counter()
    together = 0
    for line in lines:
        match line:
            case {"type": "token", "id": str(call_id), "text": text} if call_id in whole:
                assert text == "w0 ", "The first piece as it came, and nothing that would have had to be waited for."
                alone[call_id] += 1
            case {"type": "tokens", "texts": dict(texts)}:
                together += 1
                assert set(texts) & whole <= set(alone), "What follows never comes before the first piece."
            case _:
                pass
    assert len(alone) == STREAMS
    assert set(alone.values()) == {1}
    assert together < STREAMS * (PIECES - 1) / 4


async def test_the_first_piece_of_each_answer_waits_for_no_other(rig: Rig) -> None:
    streams = [rig.driver.generate(request("silence-within")) for _ in range(STREAMS)]
    try:
        firsts = await asyncio.wait_for(asyncio.gather(*(anext(stream) for stream in streams)), WAIT_S)
    finally:
        await asyncio.gather(*(stream.aclose() for stream in streams))
    assert firsts == [TextDelta("It ")] * STREAMS
    await asyncio.to_thread(rig.server.wait_for, lambda server: len(server.disconnects) == STREAMS)
