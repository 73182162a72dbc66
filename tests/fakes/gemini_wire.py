"""Gemini's generateContent on the wire: what it takes, server-sent events, whole answers, errors."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.fakes.pictures import seen
from tests.fakes.provider_server import Elsewhere, Misread, Recorded
from tests.fakes.replies import Answer, Asked, Behaviour, Raw, Refusal

_PATH = re.compile(r"/v1beta/models/(?P<model>[^/:]+):(?P<method>streamGenerateContent\?alt=sse|generateContent)")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_REASONS = {"content_filter": "SAFETY", "length": "MAX_TOKENS", "": "STOP"}
_TYPES = "type.googleapis.com/google.rpc"


class GeminiWire:
    """`POST /v1beta/models/NAME:streamGenerateContent?alt=sse`."""

    base_path = "/v1beta"
    stream_type = "text/event-stream"
    garbage = b"data: {this is no json}\r\n\r\n"

    def key(self, request: Recorded) -> str:
        return request.headers.get("x-goog-api-key", "")

    def listing(self, request: Recorded) -> Mapping[str, Any] | None:
        return None

    def read(self, request: Recorded) -> Asked:
        found = _PATH.fullmatch(request.path)
        if request.method != "POST" or found is None:
            raise Elsewhere
        body = request.body
        for tool in body.get("tools") or ():
            for function in _either(tool, "function_declarations", "functionDeclarations"):
                if function["parameters"]["type"].lower() != "object" or not function["name"]:
                    raise Misread("GenerateContentRequest.tools[0].function_declarations[0].name: is missing")
        contents: list[Mapping[str, Any]] = body["contents"]
        _check(contents)
        texts = [part["text"] for content in contents if content["role"] == "user" for part in _texts(content)]
        given = [_either(part, "inline_data", "inlineData") for content in contents for part in content["parts"]]
        return Asked(
            model=found["model"],
            key=self.key(request),
            text=texts[-1] if texts else "",
            results=[json.dumps(result["response"]) for result in _results(contents[-1])],
            schema=_schema(body),
            pictures=[seen(_either(each, "mime_type", "mimeType"), each["data"]) for each in given if each],
            stream=found["method"].startswith("stream"),
        )

    def parts(self, answer: Answer, asked: Asked) -> Iterator[tuple[bytes, bool]]:
        for piece in answer.reasoning:
            yield _chunk(asked.model, {"text": piece, "thought": True}), True
        for piece in answer.pieces:
            yield _chunk(asked.model, {"text": piece}), True
        count = 0
        while answer.endless:
            count += 1
            yield _chunk(asked.model, {"text": f"{count} "}), True
        for call in answer.tool_calls:
            yield _chunk(asked.model, {"functionCall": {"name": call.name, "args": call.arguments}}), True
        if answer.error:
            message = "The model is overloaded. Please try again later."
            yield _sse({"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}}), False
        if answer.stops_early:
            return
        yield _sse(self._end(answer, asked)), False

    def whole(self, answer: Answer, asked: Asked) -> Mapping[str, Any]:
        end = self._end(answer, asked)
        calls = [{"functionCall": {"name": call.name, "args": call.arguments}} for call in answer.tool_calls]
        end["candidates"][0]["content"]["parts"] = [{"text": "".join(answer.pieces)}, *calls]
        return end

    def refusal(self, refusal: Refusal) -> tuple[int, Mapping[str, str], Mapping[str, Any]]:
        status, details = refusal.status, []
        if status == 401:
            # A wrong key is a bad request to Gemini, and only the details tell.
            status = 400
            info = {"@type": f"{_TYPES}.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
            details = [info, {"@type": f"{_TYPES}.LocalizedMessage", "locale": "en-US", "message": refusal.message}]
        if refusal.retry_s is not None:
            # There is no header retry-after.
            details = [{"@type": f"{_TYPES}.RetryInfo", "retryDelay": f"{refusal.retry_s}s"}]
        error = {"code": status, "message": refusal.message, "status": _STATUS.get(status, "UNKNOWN")}
        return status, {}, {"error": {**error, **({"details": details} if details else {})}}

    def too_long(self) -> Behaviour:
        message = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
        return Refusal(status=400, message=message)

    def blocked(self) -> Behaviour:
        body = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 11}}
        return Raw(body=_sse({**body, "modelVersion": "gemini-fake"}), content_type="text/event-stream")

    def _end(self, answer: Answer, asked: Asked) -> dict[str, Any]:
        prompt, completion = answer.usage or (11, len(answer.pieces))
        usage = {
            "promptTokenCount": prompt,
            "candidatesTokenCount": completion,
            "totalTokenCount": prompt + completion,
        }
        content = {"role": "model", "parts": [{"text": ""}]}
        candidate = {"content": content, "finishReason": _REASONS[answer.finish], "index": 0}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": asked.model, "responseId": "fake"}


def _chunk(model: str, part: Mapping[str, Any]) -> bytes:
    candidate = {"content": {"role": "model", "parts": [part]}, "index": 0}
    return _sse({"candidates": [candidate], "modelVersion": model, "responseId": "fake"})


def _sse(event: Mapping[str, Any]) -> bytes:
    """As Google ends its lines."""
    return f"data: {json.dumps(event)}\r\n\r\n".encode()


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    config = _either(body, "generation_config", "generationConfig") or {}
    schema = _either(config, "response_schema", "responseSchema") or _either(
        config, "response_json_schema", "responseJsonSchema"
    )
    if not schema:
        return None
    if _either(config, "response_mime_type", "responseMimeType") != "application/json":
        raise Misread("response_schema is only supported with response_mime_type application/json")
    if body.get("tools"):
        raise Misread("Function calling with a response mime type: 'application/json' is unsupported")
    return schema


def _either(found: Mapping[str, Any], snake: str, camel: str) -> Any:
    """Protocol buffers take both spellings."""
    return found[snake] if snake in found else found.get(camel) or ()


def _texts(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for part in content["parts"] if "text" in part]


def _results(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [_either(part, "function_response", "functionResponse") for part in content["parts"]]
    return [result for result in found if result]


def _calls(content: Mapping[str, Any]) -> list[str]:
    found = [_either(part, "function_call", "functionCall") for part in content["parts"]]
    return [call["name"] for call in found if call and isinstance(call["args"], dict)]


def _check(contents: Sequence[Mapping[str, Any]]) -> None:
    """Gemini's own rules for a conversation."""
    if not contents or contents[0]["role"] != "user":
        raise Misread("Please ensure that function call turn comes immediately after a user turn.")
    waiting: list[str] = []
    for content in contents:
        if content["role"] not in ("user", "model", "function"):
            raise Misread("Please use a valid role: user, model.")
        if [result["name"] for result in _results(content)] != waiting:
            raise Misread("The number of function response parts is not equal to the number of function calls.")
        waiting = _calls(content)
