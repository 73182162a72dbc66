"""What the fake provider does with a request: chosen by the model's name, or queued by a test."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """Streamed in pieces, as OpenAI does: the name first, then the arguments a few characters at a time."""

    name: str
    arguments: Mapping[str, Any]
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A streamed answer: the first piece after `first_s`, each further one `gap_s` later; endless ones never finish.

    `breaks`: after the pieces the connection drops in the middle of a chunk. `cut`: the stream ends in good order, but
    without finish_reason and [DONE].
    """

    pieces: Sequence[str] = ()
    tool_calls: Sequence[ToolCall] = ()
    first_s: float = 0.0
    gap_s: float = 0.0
    endless: bool = False
    breaks: bool = False
    cut: bool = False
    finish: str = ""
    usage: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An HTTP error with OpenAI's body."""

    status: int
    message: str = "The fake refuses."
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Status 200 and whatever body."""

    body: bytes
    content_type: str = "text/html"


@dataclass(frozen=True)
class Silence:
    """Takes the request and never answers."""


Behaviour = Answer | Refusal | Raw | Silence

_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


def pieces_of(text: str) -> list[str]:
    """`text` in tokens about as a model would cut it; joined they are `text` again."""
    return re.findall(r"\s*\S{1,6}|\s+$", text) or [text]


def behaviour_of(model: str, body: Mapping[str, Any], key: str) -> Behaviour:
    """What a model of this name does. Names with numbers: `paced-<ms to first>-<ms between>-<tokens>`, `status-<n>`."""
    messages: list[Mapping[str, Any]] = body.get("messages", [])
    if match := re.fullmatch(r"paced-(\d+)-(\d+)-(\d+)", model):
        first, gap, count = (int(number) for number in match.groups())
        return Answer(pieces=[f"w{i} " for i in range(count)], first_s=first / 1000, gap_s=gap / 1000)
    if match := re.fullmatch(r"status-(\d{3})", model):
        status = int(match[1])
        headers = {"retry-after": "7"} if status == 429 else {}
        # A provider that repeats the key is the worst case for whoever shows its message.
        message = f"Incorrect API key provided: {key}." if status == 401 else "The fake refuses."
        return Refusal(status=status, message=message, code=_CODES.get(status), headers=headers)
    results = [str(message.get("content")) for message in _after_last_user(messages) if message.get("role") == "tool"]
    match model:
        case "tools" if not results:
            return Answer(tool_calls=[ToolCall("calculator", {"expr": "17.5/100*2480"})])
        case "parallel" if not results:
            calls = [ToolCall("calculator", {"expr": "6*7"}), ToolCall("current_time", {"timezone": "UTC"})]
            return Answer(pieces=["Two ", "at once."], tool_calls=calls)
        case "tools" | "parallel":
            return Answer(pieces=pieces_of(f"The tools gave: {'; '.join(results)}"))
        case "endless":
            return Answer(endless=True, gap_s=0.01)
        case "broken":
            return Answer(pieces=["It ", "begins"], breaks=True)
        case "cut":
            return Answer(pieces=["It ", "begins"], cut=True)
        case "filtered":
            return Answer(pieces=["It "], finish="content_filter")
        case "too-long":
            message = "This model's maximum context length is 8192 tokens. However, your messages are longer."
            return Refusal(status=400, message=message, code="context_length_exceeded")
        case "garbage":
            return Raw(body=b"<html><body>Welcome to the hotel network</body></html>")
        case "garbage-stream":
            return Raw(body=b"data: {this is no json}\n\n", content_type="text/event-stream")
        case "silence":
            return Silence()
        case _:
            return Answer(pieces=pieces_of(last_user_text(messages)))


def last_user_text(messages: Sequence[Mapping[str, Any]]) -> str:
    content = next((message["content"] for message in reversed(messages) if message.get("role") == "user"), "")
    return content if isinstance(content, str) else json.dumps(content)


def _after_last_user(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    start = max((i for i, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    return messages[start + 1 :]
