"""OpenAI's chat completions as bytes: server-sent events, whole answers, errors."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fakes.openai_replies import Answer, Refusal

CREATED = 1_760_000_000


def sse(event: Mapping[str, Any] | str) -> bytes:
    text = event if isinstance(event, str) else json.dumps(event)
    return f"data: {text}\n\n".encode()


def stream_parts(answer: Answer, model: str, *, wants_usage: bool) -> Iterator[tuple[bytes, bool]]:
    """The events of a streamed answer, each with whether it is one that the answer's pacing applies to."""

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return sse({**_head(model), "choices": [choice], **({"usage": None} if wants_usage else {})})

    yield chunk({"role": "assistant", "content": "", "refusal": None}), False
    for piece in answer.pieces:
        yield chunk({"content": piece}), True
    count = 0
    while answer.endless:
        count += 1
        yield chunk({"content": f"{count} "}), True
    for index, call in enumerate(answer.tool_calls):
        function = {"name": call.name, "arguments": ""}
        head = {"index": index, "id": call.id or f"call_fake_{index}", "type": "function", "function": function}
        yield chunk({"tool_calls": [head]}), True
        arguments = json.dumps(call.arguments)
        for at in range(0, len(arguments), 5):
            piece = {"index": index, "function": {"arguments": arguments[at : at + 5]}}
            yield chunk({"tool_calls": [piece]}), False
    if answer.breaks or answer.cut:
        return
    yield chunk({}, finish_of(answer)), False
    if wants_usage:
        yield sse({**_head(model), "choices": [], "usage": usage_of(answer)}), False
    yield sse("[DONE]"), False


def whole(answer: Answer, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.pieces), "refusal": None}
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id or f"call_fake_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for index, call in enumerate(answer.tool_calls)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_of(answer)}
    return {**_head(model), "object": "chat.completion", "choices": [choice], "usage": usage_of(answer)}


def error_body(refusal: Refusal) -> dict[str, Any]:
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}}


def finish_of(answer: Answer) -> str:
    return answer.finish or ("tool_calls" if answer.tool_calls else "stop")


def usage_of(answer: Answer) -> dict[str, Any]:
    prompt, completion = answer.usage or (11, len(answer.pieces))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _head(model: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }
