"""What a fake provider does with a request, in no provider's words: chosen by the model's name, or queued by a test."""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """Streamed in pieces where the provider does so: the name first, then the arguments a few characters at a time."""

    name: str
    arguments: Mapping[str, Any]
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A streamed answer: the first piece after `first_s`, each further one `gap_s` later; endless ones never finish.
    `reasoning` is streamed before all that, as the provider does it. Nothing comes before `held` is set.

    `breaks`: after the pieces the connection drops in the middle of a chunk. `cut`: the stream ends in good order, but
    without saying that the answer is whole. `garbage`: after the pieces comes what is no JSON. `error`: after the
    pieces comes the provider's own event for an overload. `finish` in the words of OpenAI.
    """

    pieces: Sequence[str] = ()
    tool_calls: Sequence[ToolCall] = ()
    reasoning: Sequence[str] = ()
    held: threading.Event | None = None
    first_s: float = 0.0
    gap_s: float = 0.0
    endless: bool = False
    breaks: bool = False
    cut: bool = False
    garbage: bool = False
    error: bool = False
    finish: str = ""
    usage: tuple[int, int] | None = None

    @property
    def stops_early(self) -> bool:
        return self.breaks or self.cut or self.garbage or self.error


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An HTTP error with the provider's body. `code` is OpenAI's name for it, `retry_s` how long to wait."""

    status: int
    message: str = "The fake refuses."
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_s: int | None = None


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Status 200 and whatever body."""

    body: bytes
    content_type: str = "text/html"


@dataclass(frozen=True)
class Silence:
    """Takes the request and never answers."""


@dataclass(frozen=True)
class TooLong:
    """The conversation is longer than the model reads, as this provider says it."""


@dataclass(frozen=True)
class Blocked:
    """The provider does not take the content, as it says it before any answer."""


Behaviour = Answer | Refusal | Raw | Silence | TooLong | Blocked


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a provider read out of a request. `results`: what tools gave since the last message of the user; `pictures`:
    all that the request shows; `schema`: what the provider holds the answer to."""

    model: str
    key: str = ""
    text: str = ""
    results: Sequence[str] = ()
    pictures: Sequence[bytes] = ()
    schema: Mapping[str, Any] | None = None
    stream: bool = True
    wants_usage: bool = True


_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
HOTEL = b"<html><body>Welcome to the hotel network</body></html>"


def pieces_of(text: str) -> list[str]:
    """`text` in tokens about as a model would cut it; joined they are `text` again."""
    return re.findall(r"\s*\S{1,6}|\s+$", text) or [text]


def example(schema: Mapping[str, Any] | None) -> Any:
    """A value that fits a simple schema, as a provider makes a model write one."""
    kind = (schema or {}).get("type", "string")
    if isinstance(kind, str) and kind.lower() == "object":
        return {name: example(each) for name, each in (schema or {}).get("properties", {}).items()}
    return {"string": "Rome", "integer": 7, "number": 7.5, "boolean": True, "array": []}[str(kind).lower()]


def behaviour_of(asked: Asked) -> Behaviour:
    """What a model of this name does. Names with numbers: `paced-<ms to first>-<ms between>-<tokens>`, `status-<n>`."""
    if match := re.fullmatch(r"paced-(\d+)-(\d+)-(\d+)", asked.model):
        first, gap, count = (int(number) for number in match.groups())
        return Answer(pieces=[f"w{i} " for i in range(count)], first_s=first / 1000, gap_s=gap / 1000)
    if match := re.fullmatch(r"status-(\d{3})", asked.model):
        status = int(match[1])
        # A provider that repeats the key is the worst case for whoever shows its message.
        message = f"Incorrect API key provided: {asked.key}." if status == 401 else "The fake refuses."
        retry_s = 7 if status == 429 else None
        return Refusal(status=status, message=message, code=_CODES.get(status), retry_s=retry_s)
    match asked.model:
        case "tools" if not asked.results:
            return Answer(tool_calls=[ToolCall("calculator", {"expr": "17.5/100*2480"})])
        case "parallel" if not asked.results:
            calls = [ToolCall("calculator", {"expr": "6*7"}), ToolCall("current_time", {"timezone": "UTC"})]
            return Answer(pieces=["Two ", "at once."], tool_calls=calls)
        case "tools" | "parallel":
            return Answer(pieces=pieces_of(f"The tools gave: {'; '.join(asked.results)}"))
        case "eyes":
            return Answer(pieces=pieces_of(f"Seen: {', '.join(f'{len(each)} bytes' for each in asked.pictures)}"))
        case "shape" | "gemini-2.5-shape":
            held = asked.schema is not None
            return Answer(pieces=pieces_of(json.dumps(example(asked.schema)) if held else "I would rather talk."))
        case "no-schema" if asked.schema is not None:
            return Refusal(status=400, message="This response_format type is unavailable now")
        case "endless":
            return Answer(endless=True, gap_s=0.01)
        case "broken":
            return Answer(pieces=["It ", "begins"], breaks=True)
        case "broken-at-once":
            return Answer(breaks=True)
        case "cut":
            return Answer(pieces=["It ", "begins"], cut=True)
        case "filtered":
            return Answer(pieces=["It "], finish="content_filter")
        case "long-answer":
            return Answer(pieces=["It ", "begins"], finish="length")
        case "empty":
            return Answer()
        case "too-long":
            return TooLong()
        case "blocked":
            return Blocked()
        case "garbage":
            return Raw(body=HOTEL)
        case "garbage-json":
            return Raw(body=b'{"detail": "Not what was asked for"}', content_type="application/json")
        case "garbage-at-once":
            return Answer(garbage=True)
        case "garbage-within":
            return Answer(pieces=["It ", "begins"], garbage=True)
        case "overloaded-at-once":
            return Answer(error=True)
        case "overloaded-within":
            return Answer(pieces=["It ", "begins"], error=True)
        case "silence":
            return Silence()
        case "silence-within":
            return Answer(pieces=["It ", "begins ", "never"], gap_s=600.0)
        case _:
            return Answer(pieces=pieces_of(asked.text))
