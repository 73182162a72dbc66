"""OpenAI's chat completions on the wire: what it takes, server-sent events, whole answers, errors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.fakes.pictures import seen_in_parts
from tests.fakes.provider_server import Elsewhere, Misread, Recorded, sse
from tests.fakes.replies import Answer, Asked, Behaviour, Refusal

CREATED = 1_760_000_000
MODELS = ("echo", "tools", "parallel", "endless", "broken", "cut", "garbage", "silence", "paced-300-20-200")


class OpenAIWire:
    """`POST /v1/chat/completions`, `GET /v1/models`."""

    base_path = "/v1"
    stream_type = "text/event-stream; charset=utf-8"
    garbage = b"data: {this is no json}\n\n"

    def key(self, request: Recorded) -> str:
        return request.headers.get("authorization", "").removeprefix("Bearer ")

    def listing(self, request: Recorded) -> Mapping[str, Any] | None:
        if (request.method, request.path) != ("GET", "/v1/models"):
            return None
        models = [{"id": name, "object": "model", "created": 0, "owned_by": "fake"} for name in MODELS]
        return {"object": "list", "data": models}

    def read(self, request: Recorded) -> Asked:
        if (request.method, request.path) != ("POST", "/v1/chat/completions"):
            raise Elsewhere
        body = request.body
        messages: list[Mapping[str, Any]] = body["messages"]
        for tool in body.get("tools") or ():
            if tool["type"] != "function" or tool["function"]["parameters"]["type"] != "object":
                raise Misread("a tool is none")
        _check_results(messages)
        results = [str(message["content"]) for message in _after_last_user(messages) if message["role"] == "tool"]
        return Asked(
            model=str(body["model"]),
            key=self.key(request),
            text=last_user_text(messages),
            results=results,
            pictures=seen_in_parts(messages),
            schema=_schema(body.get("response_format")),
            stream=bool(body.get("stream")),
            wants_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        )

    def parts(self, answer: Answer, asked: Asked) -> Iterator[tuple[bytes, bool]]:
        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return sse({**_head(asked.model), "choices": [choice], **({"usage": None} if asked.wants_usage else {})})

        if not answer.stops_early or answer.pieces:
            yield chunk({"role": "assistant", "content": "", "refusal": None}), False
        for piece in answer.reasoning:
            # OpenAI itself does not tell; DeepSeek, vLLM and others that speak its format do, by this name.
            yield chunk({"content": None, "reasoning_content": piece}), True
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
        if answer.error:
            message = "The server is currently overloaded with other requests. Sorry about that!"
            yield sse({"error": {"message": message, "type": "server_error", "param": None, "code": None}}), False
        if answer.stops_early:
            return
        yield chunk({}, finish_of(answer)), False
        if asked.wants_usage:
            yield sse({**_head(asked.model), "choices": [], "usage": usage_of(answer)}), False
        yield sse("[DONE]"), False

    def whole(self, answer: Answer, asked: Asked) -> Mapping[str, Any]:
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
        return {
            **_head(asked.model),
            "object": "chat.completion",
            "choices": [choice],
            "usage": usage_of(answer),
        }

    def refusal(self, refusal: Refusal) -> tuple[int, Mapping[str, str], Mapping[str, Any]]:
        kind = "invalid_request_error" if refusal.status < 500 else "server_error"
        headers = {} if refusal.retry_s is None else {"retry-after": str(refusal.retry_s)}
        error = {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}
        return refusal.status, headers, {"error": error}

    def too_long(self) -> Behaviour:
        message = "This model's maximum context length is 8192 tokens. However, your messages are longer."
        return Refusal(status=400, message=message, code="context_length_exceeded")

    def blocked(self) -> Behaviour:
        message = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
        return Refusal(status=400, message=message, code="content_policy_violation")


def _schema(asked: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if asked is None:
        return None
    named = asked["json_schema"]
    if asked["type"] != "json_schema" or not named["name"]:
        raise Misread("Invalid value: 'response_format.type'")
    schema: Mapping[str, Any] = named["schema"]
    if named.get("strict") and (schema.get("additionalProperties") is not False or "required" not in schema):
        raise Misread("Invalid schema for response_format 'answer': 'additionalProperties' is required to be supplied")
    return schema


def last_user_text(messages: Sequence[Mapping[str, Any]]) -> str:
    content = next((message["content"] for message in reversed(messages) if message["role"] == "user"), "")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


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


def _check_results(messages: Sequence[Mapping[str, Any]]) -> None:
    """Every result follows a call with its id, and every call has one, as OpenAI insists."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise Misread("a result without a call")
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            raise Misread("a call without a result")
        for call in message.get("tool_calls") or ():
            json.loads(call["function"]["arguments"])
            waiting.add(call["id"])


def _after_last_user(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    start = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=-1)
    return messages[start + 1 :]


def _head(model: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }
