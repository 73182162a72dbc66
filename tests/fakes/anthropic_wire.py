"""Anthropic's messages on the wire: what it takes, server-sent events, whole answers, errors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.fakes.pictures import seen
from tests.fakes.provider_server import Elsewhere, Misread, Recorded, sse
from tests.fakes.replies import Answer, Asked, Behaviour, Refusal, ToolCall

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_SCHEMA_TOOL = "json_tool_call"
"""litellm's name for the one tool that a model is made to call, so that it is held to a schema."""
_REASONS = {"content_filter": "refusal", "length": "max_tokens", "": "end_turn"}


class AnthropicWire:
    """`POST /v1/messages`."""

    base_path = ""
    stream_type = "text/event-stream; charset=utf-8"
    garbage = b"event: content_block_delta\ndata: {this is no json}\n\n"

    def key(self, request: Recorded) -> str:
        return request.headers.get("x-api-key", "")

    def listing(self, request: Recorded) -> Mapping[str, Any] | None:
        return None

    def read(self, request: Recorded) -> Asked:
        if (request.method, request.path) != ("POST", "/v1/messages"):
            raise Elsewhere
        if request.headers.get("anthropic-version") != "2023-06-01":
            raise Misread("anthropic-version: header is required")
        body = request.body
        if body["max_tokens"] < 1:
            raise Misread("max_tokens: must be greater than or equal to 1")
        for tool in body.get("tools") or ():
            if tool["input_schema"]["type"] != "object" or not tool["name"]:
                raise Misread("tools: input_schema is required")
        messages: list[Mapping[str, Any]] = body["messages"]
        _check(messages)
        blocks = [block for message in messages for block in _blocks(message)] if messages else []
        last = _blocks(messages[-1])
        results = [_text(block["content"]) for block in last if block["type"] == "tool_result"]
        texts = [block["text"] for block in blocks if block["type"] == "text" and block["role"] == "user"]
        sources = [block["source"] for block in blocks if block["type"] == "image"]
        if any(source["type"] != "base64" for source in sources):
            raise Misread("messages: image.source.type: this test has no other pictures")
        return Asked(
            model=str(body["model"]),
            key=self.key(request),
            text=texts[-1] if texts else "",
            results=results,
            pictures=[seen(source["media_type"], source["data"]) for source in sources],
            schema=_schema(body),
            stream=bool(body.get("stream")),
        )

    def parts(self, answer: Answer, asked: Asked) -> Iterator[tuple[bytes, bool]]:
        def event(name: str, **fields: Any) -> bytes:
            return sse({"type": name, **fields}, name)

        def delta(index: int, kind: str, **fields: str) -> bytes:
            return event("content_block_delta", index=index, delta={"type": kind, **fields})

        if asked.schema is not None:
            call = ToolCall(_SCHEMA_TOOL, json.loads("".join(answer.pieces)))
            answer = replace(answer, pieces=(), tool_calls=[call])
        prompt, completion = answer.usage or (11, max(1, len(answer.pieces)))
        if not answer.stops_early or answer.pieces:
            usage = {"input_tokens": prompt, "output_tokens": 1, "cache_read_input_tokens": 0}
            head = {**_head(asked.model), "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
            yield event("message_start", message=head), False
            yield event("ping"), False
        index = 0
        if answer.reasoning:
            block = {"type": "thinking", "thinking": "", "signature": ""}
            yield event("content_block_start", index=index, content_block=block), False
            for piece in answer.reasoning:
                yield delta(index, "thinking_delta", thinking=piece), True
            yield delta(index, "signature_delta", signature="c2lnbmVk"), False
            yield event("content_block_stop", index=index), False
            index += 1
        if answer.pieces or answer.endless:
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""}), False
            for piece in answer.pieces:
                yield delta(index, "text_delta", text=piece), True
            count = 0
            while answer.endless:
                count += 1
                yield delta(index, "text_delta", text=f"{count} "), True
            if not answer.stops_early:
                yield event("content_block_stop", index=index), False
            index += 1
        for number, call in enumerate(answer.tool_calls):
            block = {"type": "tool_use", "id": call.id or f"toolu_fake_{number}", "name": call.name, "input": {}}
            yield event("content_block_start", index=index, content_block=block), True
            yield delta(index, "input_json_delta", partial_json=""), False
            arguments = json.dumps(call.arguments)
            for at in range(0, len(arguments), 5):
                yield delta(index, "input_json_delta", partial_json=arguments[at : at + 5]), False
            yield event("content_block_stop", index=index), False
            index += 1
        if answer.error:
            yield event("error", error={"type": "overloaded_error", "message": "Overloaded"}), False
        if answer.stops_early:
            return
        ended = {"stop_reason": _reason(answer), "stop_sequence": None}
        yield event("message_delta", delta=ended, usage={"output_tokens": completion}), False
        yield event("message_stop"), False

    def whole(self, answer: Answer, asked: Asked) -> Mapping[str, Any]:
        prompt, completion = answer.usage or (11, max(1, len(answer.pieces)))
        content: list[Mapping[str, Any]] = [{"type": "text", "text": "".join(answer.pieces)}] if answer.pieces else []
        for number, call in enumerate(answer.tool_calls):
            block = {"type": "tool_use", "id": call.id or f"toolu_fake_{number}", "name": call.name}
            content.append({**block, "input": call.arguments})
        usage = {"input_tokens": prompt, "output_tokens": completion}
        ended = {"stop_reason": _reason(answer), "stop_sequence": None}
        return {**_head(asked.model), "content": content, **ended, "usage": usage}

    def refusal(self, refusal: Refusal) -> tuple[int, Mapping[str, str], Mapping[str, Any]]:
        headers = {"request-id": "req_fake"}
        if refusal.retry_s is not None:
            headers |= {"retry-after": str(refusal.retry_s), "anthropic-ratelimit-requests-remaining": "0"}
        error = {"type": _KINDS.get(refusal.status, "api_error"), "message": refusal.message}
        return refusal.status, headers, {"type": "error", "error": error, "request_id": "req_fake"}

    def too_long(self) -> Behaviour:
        return Refusal(status=400, message="prompt is too long: 208310 tokens > 200000 maximum")

    def blocked(self) -> Behaviour:
        return Refusal(status=400, message="Output blocked by content filtering policy")


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if (body.get("tool_choice") or {}).get("name") != _SCHEMA_TOOL:
        return None
    return next(tool["input_schema"] for tool in body["tools"] if tool["name"] == _SCHEMA_TOOL)


def _reason(answer: Answer) -> str:
    return "tool_use" if answer.tool_calls else _REASONS[answer.finish]


def _head(model: str) -> dict[str, Any]:
    return {"id": "msg_fake", "type": "message", "role": "assistant", "model": model}


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [{**block, "role": message["role"]} for block in blocks]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def _check(messages: Sequence[Mapping[str, Any]]) -> None:
    """Anthropic's own rules for a conversation."""
    if not messages or messages[0]["role"] != "user":
        raise Misread("messages: first message must use the user role")
    waiting: set[str] = set()
    for message in messages:
        if message["role"] not in ("user", "assistant"):
            raise Misread(f'messages: unexpected role "{message["role"]}"')
        blocks = _blocks(message)
        answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if answered != waiting:
            raise Misread("messages: tool_use ids were found without tool_result blocks immediately after")
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            raise Misread("messages: text content blocks must contain non-whitespace text")
        waiting = {block["id"] for block in blocks if block["type"] == "tool_use" and isinstance(block["input"], dict)}
    if waiting:
        raise Misread("messages: the last tool_use has no result")
