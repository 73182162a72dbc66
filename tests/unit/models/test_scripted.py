"""The scripted driver plays what it was given, and tells what became of it."""

import asyncio

import pytest

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.errors import Bug
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.models.driver import (
    ChatMessage,
    Finished,
    ModelChoice,
    ModelError,
    ModelRequest,
    TextDelta,
)
from ozzie_server_ext.models.scripted import End, Fail, Say, ScriptedDriver, Use, Wait

REQUEST = ModelRequest(
    call_id=CallId("call"),
    choice=ModelChoice(alias="main", provider="scripted", driver="scripted", model="m"),
    messages=(ChatMessage(role="user", content="hello"),),
)


async def test_tool_uses_come_with_the_end_and_have_ids_of_their_own() -> None:
    driver = ScriptedDriver([[Use("a", {"x": 1}), Use("b", "no json"), End(usage=Usage(input_tokens=5), cost=7)]])
    [last] = [event async for event in driver.generate(REQUEST)]
    assert isinstance(last, Finished)
    assert [(use.call_id, use.name, use.arguments) for use in last.tool_uses] == [
        ("call_1", "a", '{"x":1}'),
        ("call_2", "b", "no json"),
    ]
    assert (last.finish, last.cost, last.usage.input_tokens, last.ttft_ms) == ("tool_calls", 7, 5, None)
    assert driver.requests == [REQUEST]


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_failure_says_whether_text_had_come(streamed: bool) -> None:
    driver = ScriptedDriver([[*([Say("a")] if streamed else []), Fail("provider.server")]])
    with pytest.raises(ModelError) as caught:
        [event async for event in driver.generate(REQUEST)]
    assert caught.value.streamed is streamed


async def test_a_wait_holds_the_stream_until_it_is_let_go() -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    stream = ScriptedDriver([[Wait(gate, reached), Say("a")]]).generate(REQUEST)
    first = asyncio.ensure_future(anext(stream))
    await asyncio.wait_for(reached.wait(), 5)
    assert not first.done()
    gate.set()
    assert await asyncio.wait_for(first, 5) == TextDelta("a")
    await stream.aclose()


async def test_calls_that_were_cut_off_are_listed() -> None:
    driver = ScriptedDriver([[Say("a"), Say("b")]])
    stream = driver.generate(REQUEST)
    await anext(stream)
    await stream.aclose()
    assert driver.aborted == ["call"]


async def test_one_call_too_many_is_a_bug_of_the_test() -> None:
    with pytest.raises(Bug, match="one more"):
        await anext(ScriptedDriver([]).generate(REQUEST))
