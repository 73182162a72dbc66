"""The real worker with the real litellm, against a provider on loopback that is faithful on the wire."""

import asyncio
import json
import re
from typing import Any

import pytest

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.toolmeta import ToolSpec
from ozzie_server_ext.models.driver import ChatMessage
from tests.fakes.replies import Answer, Raw, ToolCall
from tests.integration.models.rig import HEADER, KEY, Rig, failure, finished, read, request, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

CALCULATOR = ToolSpec(
    name="calculator",
    description="Works out a sum.",
    parameters={"type": "object", "properties": {"expr": {"type": "string"}}, "required": ["expr"]},
)


# --- answers ------------------------------------------------------------------------------------------


async def test_text_streams_and_usage_and_the_providers_own_names_are_told(rig: Rig) -> None:
    rig.server.queue(Answer(pieces=["hello ", "big ", "wide ", "world"], gap_s=0.05, usage=(21, 4)))
    events = await read(rig, request("gpt-x"))
    last = finished(events)
    assert text_of(events) == "hello big wide world"
    assert len(events) == 5
    assert (last.finish, last.usage) == ("stop", Usage(input_tokens=21, output_tokens=4))
    provider = last.response["provider"]
    assert isinstance(provider, dict)
    assert (provider["model"], provider["id"]) == ("gpt-x", "chatcmpl-fake")
    assert last.cost is None, "Nobody knows the price behind somebody's own URL."


async def test_an_answer_that_says_the_same_again_and_again_comes_whole(rig: Rig) -> None:
    rig.server.queue(Answer(pieces=["----"] * 300))
    assert text_of(await read(rig, request("gpt-x"))) == "----" * 300


async def test_the_provider_gets_the_key_the_headers_and_the_exact_conversation(rig: Rig) -> None:
    use = ToolUse(call_id=CallId("call_7"), name="calculator", arguments='{"expr":"1+1"}')
    await read(
        rig,
        request(
            "echo",
            ChatMessage(role="system", content="You are a program."),
            ChatMessage(role="user", content="1+1?"),
            ChatMessage(role="assistant", content="", tool_uses=(use,)),
            ChatMessage(role="tool", content='{"value":"2"}', tool_call_id="call_7", name="calculator"),
            tools=(CALCULATOR,),
            max_tokens=99,
        ),
    )
    [recorded] = rig.server.requests
    assert recorded.headers["authorization"] == f"Bearer {KEY}"
    assert recorded.headers["x-team"] == HEADER
    body = recorded.body
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert body["messages"][2]["tool_calls"] == [
        {"id": "call_7", "type": "function", "function": {"name": "calculator", "arguments": '{"expr":"1+1"}'}}
    ]
    assert body["messages"][3]["tool_call_id"] == "call_7"
    assert body["messages"][3]["content"] == '{"value":"2"}'
    assert body["tools"][0]["function"] == {
        "name": "calculator",
        "description": "Works out a sum.",
        "parameters": CALCULATOR.parameters,
    }
    assert body["max_tokens"] == 99
    assert body["stream_options"] == {"include_usage": True}


async def test_a_provider_without_a_key_is_asked_all_the_same(rig: Rig) -> None:
    assert text_of(await read(rig, request("echo", provider="keyless"))) == "hello big wide world"
    assert "sk-" not in rig.server.requests[0].headers["authorization"]


async def test_tool_calls_come_whole_with_the_end_several_at_once_too(rig: Rig) -> None:
    events = await read(rig, request("parallel", tools=(CALCULATOR,)))
    last = finished(events)
    assert text_of(events) == "Two at once."
    assert last.finish == "tool_calls"
    assert [(use.call_id, use.name, use.arguments) for use in last.tool_uses] == [
        ("call_fake_0", "calculator", '{"expr": "6*7"}'),
        ("call_fake_1", "current_time", '{"timezone": "UTC"}'),
    ]
    results = [
        ChatMessage(role="tool", content=content, tool_call_id=use.call_id, name=use.name)
        for use, content in zip(last.tool_uses, ("42", "noon"), strict=True)
    ]
    said = ChatMessage(role="assistant", content=text_of(events), tool_uses=last.tool_uses)
    events = await read(rig, request("parallel", ChatMessage(role="user", content="both"), said, *results))
    assert text_of(events) == "The tools gave: 42; noon"


async def test_a_tool_call_alone_has_no_time_to_first_text(rig: Rig) -> None:
    last = finished(await read(rig, request("tools", tools=(CALCULATOR,))))
    assert last.ttft_ms is None
    assert last.tool_uses[0].arguments == '{"expr": "17.5/100*2480"}'


def raw_stream(*deltas: dict[str, Any], finish: str) -> Raw:
    choices = [*({"index": 0, "delta": delta, "finish_reason": None} for delta in deltas)]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    lines = [f"data: {json.dumps({**head, 'choices': [choice]})}\n\n" for choice in choices]
    return Raw(body="".join([*lines, "data: [DONE]\n\n"]).encode(), content_type="text/event-stream")


def tool_delta(call_id: str | None, arguments: str) -> dict[str, Any]:
    call = {"index": 0, "id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "tool_calls": [call]}


async def test_calls_that_share_an_index_are_told_apart_by_their_ids(rig: Rig) -> None:
    rig.server.queue(
        raw_stream(tool_delta("a", '{"x":1}'), tool_delta("b", '{"x":'), tool_delta("b", "2}"), finish="stop")
    )
    last = finished(await read(rig, request("m")))
    assert [(use.call_id, use.arguments) for use in last.tool_uses] == [("a", '{"x":1}'), ("b", '{"x":2}')]
    assert last.finish == "tool_calls"


async def test_a_call_without_an_id_gets_one_that_every_provider_takes(rig: Rig) -> None:
    rig.server.queue(raw_stream(tool_delta(None, "{}"), finish="tool_calls"))
    [use] = finished(await read(rig, request("m"))).tool_uses
    assert re.fullmatch(r"[A-Za-z0-9_-]+", use.call_id)


async def test_arguments_that_were_cut_for_length_are_not_taken_for_whole(rig: Rig) -> None:
    rig.server.queue(raw_stream(tool_delta("a", '{"x":'), finish="length"))
    assert finished(await read(rig, request("m"))).finish == "length"


@pytest.mark.parametrize(("said", "finish"), [("length", "length"), ("content_filter", "content_filter")])
async def test_an_answer_that_the_provider_cut_says_so(rig: Rig, said: str, finish: str) -> None:
    rig.server.queue(Answer(pieces=["It "], finish=said))
    assert finished(await read(rig, request("m"))).finish == finish


async def test_text_with_signs_that_end_lines_elsewhere_comes_through_unharmed(rig: Rig) -> None:
    nasty = 'a\u2028b\x85c\x1cd\r\ne\x00"\\😀'
    rig.server.queue(Answer(pieces=[nasty, nasty]))
    assert text_of(await read(rig, request("m"))) == nasty * 2


async def test_a_lone_surrogate_in_an_answer_is_repaired_and_the_rest_kept(rig: Rig) -> None:
    rig.server.queue(Answer(pieces=["a\ud800b", "c"], tool_calls=[ToolCall("t", {"x": "\udfff"})]))
    last = finished(await read(rig, request("m")))
    assert last.response["text"] == "a\ufffdbc"
    assert "\udfff" not in last.tool_uses[0].arguments


async def test_a_piece_larger_than_a_line_may_be_arrives_in_parts(rig: Rig) -> None:
    rig.server.queue(Answer(pieces=["x", "\x01" * 600_000]))
    assert text_of(await read(rig, request("m"))) == "x" + "\x01" * 600_000


async def test_many_calls_at_once_keep_their_own_text(rig: Rig) -> None:
    asked = [request("echo", ChatMessage(role="user", content=f"caller {n} " * 20)) for n in range(12)]
    answers = await asyncio.gather(*(read(rig, one) for one in asked))
    assert [text_of(events) for events in answers] == [one.messages[0].content for one in asked]


# --- failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("status-400", "provider.bad_request"),
        ("status-401", "provider.auth"),
        ("status-403", "provider.forbidden"),
        ("status-404", "provider.not_found"),
        ("status-429", "provider.rate_limited"),
        ("status-500", "provider.server"),
        ("status-503", "provider.server"),
        ("too-long", "provider.context_length"),
        ("garbage", "provider.garbage"),
        ("garbage-at-once", "provider.garbage"),
    ],
)
async def test_a_failing_provider_is_told_by_code_and_asked_once(rig: Rig, model: str, code: str) -> None:
    error, text = await failure(rig, request(model))
    assert (error.code, error.streamed, text) == (code, False, "")
    assert len(rig.server.requests) == 1


async def test_a_refused_key_names_its_variable_and_never_the_key(rig: Rig) -> None:
    error, _ = await failure(rig, request("status-401"))
    assert "TEST_KEY" in error.hint
    assert error.detail == "Incorrect API key provided: [key]."


async def test_a_busy_provider_says_how_long(rig: Rig) -> None:
    error, _ = await failure(rig, request("status-429"))
    assert error.after_s == 7.0


async def test_a_provider_that_is_not_there_is_unreachable(rig: Rig) -> None:
    error, _ = await failure(rig, request("m", provider="unreachable"))
    assert error.code == "provider.unreachable"


@pytest.mark.parametrize("model", ["broken", "cut"])
async def test_a_stream_that_breaks_off_keeps_what_came(rig: Rig, model: str) -> None:
    error, text = await failure(rig, request(model))
    assert (error.code, error.streamed, text) == ("provider.broken_stream", True, "It begins")


async def test_an_error_in_mid_stream_is_told_after_the_text(rig: Rig) -> None:
    chunk = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
    good = chunk + b'"delta":{"role":"assistant","content":"so far"},"finish_reason":null}]}\n\n'
    rig.server.queue(Raw(body=good + b"data: {nonsense}\n\n", content_type="text/event-stream"))
    error, text = await failure(rig, request("m"))
    assert (error.code, error.streamed, text) == ("provider.garbage", True, "so far")


@pytest.mark.parametrize(("model", "streamed"), [("silence", False), ("paced-0-60000-2", True)])
async def test_a_silent_provider_runs_into_the_time_out_and_is_hung_up_on(rig: Rig, model: str, streamed: bool) -> None:
    error, text = await failure(rig, request(model, provider="fake-hasty-within" if streamed else "fake-hasty"))
    assert (error.code, error.streamed, bool(text)) == ("provider.timeout", streamed, streamed)
    await asyncio.to_thread(rig.server.wait_for, lambda server: server.disconnects == [model])


# --- abort --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["endless", "silence"])
async def test_an_abort_closes_the_connection_to_the_provider(rig: Rig, model: str) -> None:
    reading = asyncio.create_task(read(rig, request(model)))
    await asyncio.to_thread(rig.server.wait_for, lambda server: bool(server.requests))
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.to_thread(rig.server.wait_for, lambda server: server.disconnects == [model])
    assert text_of(await read(rig, request("echo"))) == "hello big wide world"
    assert rig.lost == []
