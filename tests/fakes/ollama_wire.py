"""Ollama's chat on the wire: what it takes, a line of JSON for each piece, errors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.fakes.pictures import seen
from tests.fakes.provider_server import Elsewhere, Misread, Recorded
from tests.fakes.replies import Answer, Asked, Behaviour, Refusal

MODELS = ("echo:latest", "llama3.2:latest")
TOOLLESS = "gemma2:latest"
_AT = "2026-01-01T00:00:00.000000Z"


class OllamaWire:
    """`POST /api/chat`, `GET /api/tags`, `POST /api/show`.

    Ollama itself knows no key; a proxy in front of one takes a bearer token."""

    base_path = ""
    stream_type = "application/x-ndjson"
    garbage = b"{this is no json}\n"

    def key(self, request: Recorded) -> str:
        return request.headers.get("authorization", "").removeprefix("Bearer ")

    def listing(self, request: Recorded) -> Mapping[str, Any] | None:
        if (request.method, request.path) == ("POST", "/api/show"):
            abilities = ["completion"] if request.body["model"] == TOOLLESS else ["completion", "tools"]
            return {"capabilities": abilities, "model_info": {"llama.context_length": 131072}, "modified_at": _AT}
        if (request.method, request.path) != ("GET", "/api/tags"):
            return None
        details = {"format": "gguf", "family": "llama", "parameter_size": "3.2B", "quantization_level": "Q4_K_M"}
        more = {"modified_at": _AT, "size": 2_019_393_189, "digest": "a80c4f17acd5", "details": details}
        return {"models": [{"name": name, "model": name, **more} for name in MODELS]}

    def read(self, request: Recorded) -> Asked:
        if (request.method, request.path) != ("POST", "/api/chat"):
            raise Elsewhere
        body = request.body
        for tool in body.get("tools") or ():
            if body["model"] == TOOLLESS:
                raise Misread(f"registry.ollama.ai/library/{TOOLLESS} does not support tools")
            if tool["type"] != "function" or tool["function"]["parameters"]["type"] != "object":
                raise Misread("invalid tool")
        messages: list[Mapping[str, Any]] = body["messages"]
        _check(messages)
        # Here a picture is bare base64 beside the text, and its kind is found out.
        pictures = [seen("image/png", each) for message in messages for each in message.get("images") or ()]
        start = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
        return Asked(
            model=str(body["model"]),
            key=self.key(request),
            text=str(messages[start]["content"]) if start >= 0 else "",
            results=[str(message["content"]) for message in messages[start + 1 :] if message["role"] == "tool"],
            pictures=pictures,
            schema=body.get("format"),
            # It streams unless it is told not to.
            stream=bool(body.get("stream", True)),
        )

    def parts(self, answer: Answer, asked: Asked) -> Iterator[tuple[bytes, bool]]:
        for piece in answer.reasoning:
            yield _line(asked.model, {"content": "", "thinking": piece}), True
        for piece in answer.pieces:
            yield _line(asked.model, {"content": piece}), True
        count = 0
        while answer.endless:
            count += 1
            yield _line(asked.model, {"content": f"{count} "}), True
        for call in answer.tool_calls:
            function = {"name": call.name, "arguments": call.arguments}
            yield _line(asked.model, {"content": "", "tool_calls": [{"function": function}]}), True
        if answer.error:
            message = "an error was encountered while running the model: CUDA error: out of memory"
            yield f"{json.dumps({'error': message})}\n".encode(), False
        if answer.stops_early:
            return
        yield _line(asked.model, {"content": ""}, **_end(answer)), False

    def whole(self, answer: Answer, asked: Asked) -> Mapping[str, Any]:
        calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in answer.tool_calls]
        message = {"content": "".join(answer.pieces), **({"tool_calls": calls} if calls else {})}
        return json.loads(_line(asked.model, message, **_end(answer)))

    def refusal(self, refusal: Refusal) -> tuple[int, Mapping[str, str], Mapping[str, Any]]:
        headers = {} if refusal.retry_s is None else {"retry-after": str(refusal.retry_s)}
        return refusal.status, headers, {"error": refusal.message}

    def too_long(self) -> Behaviour:
        return Refusal(status=400, message="the input length exceeds the context length")

    def blocked(self) -> Behaviour:
        # Ollama has no filter; a proxy in front of it may.
        return Refusal(status=400, message="blocked by content filtering policy")


def _line(model: str, message: Mapping[str, Any], **more: Any) -> bytes:
    whole = {"model": model, "created_at": _AT, "message": {"role": "assistant", **message}, "done": False, **more}
    return f"{json.dumps(whole)}\n".encode()


def _end(answer: Answer) -> dict[str, Any]:
    prompt, completion = answer.usage or (11, len(answer.pieces))
    reason = "length" if answer.finish == "length" else "stop"
    counts = {"prompt_eval_count": prompt, "eval_count": completion, "total_duration": 1_000_000}
    return {"done": True, "done_reason": reason, **counts}


def _check(messages: Sequence[Mapping[str, Any]]) -> None:
    """Arguments are objects here, not text, and a result follows a call."""
    waiting = 0
    for message in messages:
        if not isinstance(message.get("content", ""), str):
            raise Misread("json: cannot unmarshal array into Go struct field ChatRequest.messages.content")
        for call in message.get("tool_calls") or ():
            if not isinstance(call["function"]["arguments"], dict):
                raise Misread("json: cannot unmarshal string into Go struct field ToolCallFunction.arguments")
            waiting += 1
        if message["role"] == "tool":
            waiting -= 1
    if waiting:
        raise Misread("calls and results do not match")
