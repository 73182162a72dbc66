"""Providers with a wire format of their own, played with recorded shapes of their streams."""

import json
from typing import Any

import pytest

from ozzie_server_ext.domain.usage import Usage
from tests.fakes.openai_replies import Raw
from tests.integration.models.rig import Rig, failure, finished, read, request, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


def sse(*events: tuple[str, dict[str, Any]]) -> Raw:
    body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    return Raw(body=body.encode(), content_type="text/event-stream")


def ndjson(*lines: dict[str, Any]) -> Raw:
    return Raw(body="".join(json.dumps(line) + "\n" for line in lines).encode(), content_type="application/x-ndjson")


ANTHROPIC_START: tuple[str, dict[str, Any]] = (
    "message_start",
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1},
        },
    },
)


def anthropic_block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    begin = {"type": "content_block_start", "index": index, "content_block": start}
    return [
        ("content_block_start", begin),
        *(("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas),
        ("content_block_stop", {"type": "content_block_stop", "index": index}),
    ]


def anthropic_end(reason: str) -> list[tuple[str, dict[str, Any]]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        ("message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}),
        ("message_stop", {"type": "message_stop"}),
    ]


async def test_anthropic_streams_text_and_a_tool_call(rig: Rig) -> None:
    text = [{"type": "text_delta", "text": piece} for piece in ("Let me ", "see.")]
    parts = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"expr":', ' "1+1"}')]
    tool = {"type": "tool_use", "id": "toolu_1", "name": "calculator", "input": {}}
    rig.server.queue(
        sse(
            ANTHROPIC_START,
            *anthropic_block(0, {"type": "text", "text": ""}, *text),
            *anthropic_block(1, tool, *parts),
            *anthropic_end("tool_use"),
        )
    )
    events = await read(rig, request("claude-x", provider="anthropic"))
    last = finished(events)
    assert text_of(events) == "Let me see."
    assert [(use.call_id, use.name, json.loads(use.arguments)) for use in last.tool_uses] == [
        ("toolu_1", "calculator", {"expr": "1+1"})
    ]
    assert (last.finish, last.usage) == ("tool_calls", Usage(input_tokens=10, output_tokens=7))
    assert rig.server.requests[0].path == "/v1/messages"
    assert rig.server.requests[0].headers["x-api-key"] == "sk-ant-0123456789"


async def test_anthropic_breaking_off_is_a_broken_stream(rig: Rig) -> None:
    block = anthropic_block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Let me"})
    rig.server.queue(sse(ANTHROPIC_START, *block))
    error, text = await failure(rig, request("claude-x", provider="anthropic"))
    assert (error.code, text) == ("provider.broken_stream", "Let me")


def ollama_line(content: str, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {"model": "llama3", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False, **more}


async def test_ollama_streams_text_without_a_key(rig: Rig) -> None:
    end = ollama_line("", done=True, done_reason="stop", prompt_eval_count=5, eval_count=2)
    rig.server.queue(ndjson(ollama_line("Hello "), ollama_line("there"), end))
    events = await read(rig, request("llama3", provider="ollama"))
    assert text_of(events) == "Hello there"
    assert finished(events).usage == Usage(input_tokens=5, output_tokens=2)
    assert rig.server.requests[0].path == "/api/chat"


async def test_gemini_streams_text(rig: Rig) -> None:
    def part(text: str, **more: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **more}]}

    usage = {"promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6}
    parts = [part("Hello "), {**part("there", finishReason="STOP"), "usageMetadata": usage}]
    body = "".join(f"data: {json.dumps(each)}\r\n\r\n" for each in parts)
    rig.server.queue(Raw(body=body.encode(), content_type="text/event-stream"))
    events = await read(rig, request("gemini-x", provider="gemini"))
    assert text_of(events) == "Hello there"
    assert finished(events).usage == Usage(input_tokens=4, output_tokens=2)
    assert rig.server.requests[0].headers["x-goog-api-key"] == "AIza0123456789"
