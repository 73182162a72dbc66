"""A recorded request in the words of litellm: the one place that knows how our drivers map to its providers."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ozzie_server_ext.agent.shape import holding
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object
from ozzie_server_ext.protocol.worker import Provider

_PREFIX = {
    "openai": "openai",
    "openai-compatible": "openai",
    "ollama": "ollama_chat",
    "vllm": "hosted_vllm",
    "litellm": "litellm_proxy",
}
"""Where our driver's name is not litellm's own; anthropic, gemini, deepseek and others are passed on as they are."""

_NO_KEY = "none"
_MAY_BE_KEYLESS = frozenset({"openai", "openai-compatible", "litellm"})
_NAME_LENGTH = 64
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def litellm_model(driver: str, model: str) -> str:
    return f"{_PREFIX.get(driver, driver)}/{model}"


def completion_arguments(
    request: JsonObject, provider: Provider, *, timeout_s: float, pictures: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Keyword arguments of `litellm.acompletion` for `request`, which has the shape of `ModelRequest.to_json`.
    `pictures`: their content in base64, by reference."""
    shown = pictures or {}
    arguments: dict[str, Any] = {
        "model": litellm_model(provider.driver, str(request.get("model", ""))),
        "messages": [_message(message, shown) for message in objects(request.get("messages"))],
        "stream": True,
        "stream_options": {"include_usage": True},
        # Whoever asks decides on trying again: it alone knows whether text has been shown and what it may cost.
        "num_retries": 0,
        "max_retries": 0,
        "timeout": timeout_s,
    }
    if tools := objects(request.get("tools")):
        arguments["tools"] = [{"type": "function", "function": tool} for tool in tools]
        # Tools are ours to run. Without this litellm looks for its own MCP gateway first, and fails where the package
        # mcp is not installed.
        arguments["_skip_mcp_handler"] = True
    if isinstance(schema := request.get("schema"), dict):
        named: dict[str, Any] = {"name": "answer", "schema": schema}
        if provider.driver == "openai":
            # What it can't hold to without exception it refuses as strict, and else follows as well as the model can.
            named["strict"] = holding(schema) == "closed"
        arguments["response_format"] = {"type": "json_schema", "json_schema": named}
    if request.get("max_tokens") is not None:
        arguments["max_tokens"] = request["max_tokens"]
    if provider.base_url:
        arguments["api_base"] = provider.base_url
    if provider.headers:
        arguments["extra_headers"] = dict(provider.headers)
    if provider.api_key:
        arguments["api_key"] = provider.api_key
    elif provider.base_url and provider.driver in _MAY_BE_KEYLESS:
        # The client insists on a key, a local server on none: it gets one that says so.
        arguments["api_key"] = _NO_KEY
    return arguments


def _message(message: JsonObject, shown: Mapping[str, str]) -> dict[str, Any]:
    """A message as every provider takes it. What a model made up (names, ids and arguments of its tool calls) is
    recorded as it came; sent back like that, it would make a strict provider refuse the session from then on."""
    found: dict[str, Any] = {"role": message["role"], "content": message["content"]}
    if pictures := objects(message.get("pictures")):
        found["content"] = list(_parts(str(message["content"]), pictures, shown))
    if uses := objects(message.get("tool_uses")):
        found["tool_calls"] = [
            {
                "id": _sendable_id(str(use["call_id"])),
                "type": "function",
                "function": {
                    "name": _sendable_name(str(use["name"])),
                    "arguments": _sendable_arguments(str(use["arguments"])),
                },
            }
            for use in uses
        ]
        # Several providers refuse empty text beside tool calls.
        found["content"] = message["content"] or None
    if message["role"] == "tool":
        found["tool_call_id"] = _sendable_id(str(message.get("tool_call_id", "")))
        found["name"] = _sendable_name(str(message.get("name", "")))
    return found


def _parts(text: str, pictures: Sequence[JsonObject], shown: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The text, then each picture behind its number and name, so that a model can tell which is which: also where the
    texts are joined and the pictures stand apart, as Ollama has them."""
    yield {"type": "text", "text": text}
    for number, picture in enumerate(pictures, start=1):
        yield {"type": "text", "text": f"\n\nPicture {number}, {picture['path']}:"}
        url = f"data:{picture['media_type']};base64,{shown[str(picture['ref'])]}"
        yield {"type": "image_url", "image_url": {"url": url}}


def _sendable_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_NAME_LENGTH] or "unnamed"


def _sendable_id(call_id: str) -> str:
    """The same for the same id, always: a call and its result must match, in this request and in later ones."""
    if _ID.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:32]}"


def _sendable_arguments(text: str) -> str:
    try:
        loads_object(text)
    except InvalidJson:
        return "{}"
    return text
