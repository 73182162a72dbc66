"""The port of a model: it takes a request, and streams deltas of text, then exactly one Finished."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import msgspec

from ozzie_server_ext.domain.budget import TokenPrices, Usage
from ozzie_server_ext.domain.errors import InputError, Unavailable
from ozzie_server_ext.domain.events import Finish, ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.messages import Picture
from ozzie_server_ext.domain.toolmeta import ToolSpec
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, canonical_parts
from ozzie_server_ext.protocol.worker import ClientCredentials

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the conversation that a model reads. `tool_uses` belongs to an assistant's message; `tool_call_id`
    and `name` to a tool's, whose content is JSON text; `pictures` to a user's message."""

    role: Role
    content: str
    tool_uses: tuple[ToolUse, ...] = ()
    tool_call_id: str = ""
    name: str = ""
    pictures: tuple[Picture, ...] = ()

    def to_json(self) -> JsonObject:
        """Return the message without its empty fields."""
        found: JsonObject = {"role": self.role, "content": self.content}
        if self.tool_uses:
            found["tool_uses"] = [encode(use) for use in self.tool_uses]
        if self.tool_call_id:
            found["tool_call_id"] = self.tool_call_id
        if self.name:
            found["name"] = self.name
        if self.pictures:
            found["pictures"] = [
                {"path": picture.path, "ref": picture.ref, "media_type": picture.media_type}
                for picture in self.pictures
            ]
        return found


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The model that answers: `alias` as it was requested, `provider` its name in the configuration (or `offline`,
    `scripted`), `driver` the kind of provider (openai, anthropic, gemini, ollama, …), `model` the provider's name.
    `takes_tools`: whether tools may be offered; `sees`: whether it accepts pictures; `structured`: whether it is known
    to enforce a JSON Schema. `in_chain`: whether others may answer under the same alias. `max_tokens` is the
    configuration's limit of one answer, `max_output` the model's own, `context` that of a conversation; these and
    `prices` are None if unknown."""

    alias: str
    provider: str
    driver: str
    model: str
    max_tokens: int | None = None
    takes_tools: bool = True
    sees: bool = True
    structured: bool = False
    in_chain: bool = False
    max_output: int | None = None
    context: int | None = None
    prices: TokenPrices | None = None

    @property
    def longest_answer(self) -> int | None:
        """The limit of an answer in tokens; None if unknown."""
        return min((limit for limit in (self.max_tokens, self.max_output) if limit is not None), default=None)

    @property
    def label(self) -> str:
        """Its name within a sentence: the provider's if the alias stands for several."""
        return self.provider if self.in_chain else self.alias


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model. `schema`: the JSON Schema that the provider has to enforce."""

    call_id: CallId
    choice: ModelChoice
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: JsonObject | None = None

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of all messages, each content once."""
        shown = {picture.ref: picture for message in self.messages for picture in message.pictures}
        return tuple(shown.values())

    def to_json(self) -> JsonObject:
        """Return the exact request, recorded by content address: without secrets and without `call_id`, so that the
        same request has the same address and a replay finds it."""
        return {
            "alias": self.choice.alias,
            "provider": self.choice.provider,
            "driver": self.choice.driver,
            "model": self.choice.model,
            "max_tokens": self.choice.max_tokens,
            "messages": [message.to_json() for message in self.messages],
            "tools": [_tool_json(tool) for tool in self.tools],
            **({} if self.schema is None else {"schema": self.schema}),
        }

    def to_parts(self) -> list[bytes]:
        """Return the canonical JSON of the exact request in parts: what comes before the messages, each message (with a
        long text by itself), what comes after them, and the tools, which are the last by name. Raises InvalidJson."""
        fields = self.to_json()
        del fields["tools"]
        *parts, end = canonical_parts(fields, "messages", text="content", write=_message_bytes)
        return [*parts, end[:-1], _tools_part(self.tools)]


_SORTED = msgspec.json.Encoder(order="sorted")


def _message_bytes(message: Json) -> bytes:
    """Return the canonical JSON of a message, all of which each request has: msgspec takes a tenth of the time. It
    writes some numbers otherwise, but a message has only texts. Raises InvalidJson."""
    try:
        return _SORTED.encode(message)
    except UnicodeEncodeError:  # a lone surrogate: say it in the same words
        return canonical_bytes(message)


def _tool_json(tool: ToolSpec) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


_MOST_SETS = 64
_known_parts: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], bytes]] = {}
"""The part with a set of tools, by the identities of the objects that are kept with it: most requests have the same
one, and all that are kept in memory share it."""


def _tools_part(tools: tuple[ToolSpec, ...]) -> bytes:
    key = tuple(map(id, tools))
    known = _known_parts.get(key)
    if known is None:
        if len(_known_parts) >= _MOST_SETS:
            _known_parts.clear()
        part = b',"tools":' + canonical_bytes([_tool_json(tool) for tool in tools]) + b"}"
        known = _known_parts[key] = tools, part
    return known[1]


class TextDelta(msgspec.Struct, frozen=True):
    """The next piece of the answer's text; never empty."""

    text: str


class Reasoning(msgspec.Struct, frozen=True):
    """The model reasons before it answers. Sent at most once, and before any text."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The answer is complete. `cost` in 1e-9 USD, None if the price is unknown; `response` holds all that a replay
    needs (see `finished`); `ttft_ms` is None if no text came.

    An id in `tool_uses` is the model's own, unique only in this response: it is sent back unchanged.
    """

    finish: Finish
    tool_uses: tuple[ToolUse, ...]
    usage: Usage
    cost: int | None
    response: JsonObject
    ttft_ms: float | None


ModelEvent: TypeAlias = TextDelta | Reasoning | Finished

ModelErrorCode: TypeAlias = Literal[
    "provider.auth",
    "provider.token_refused",
    "provider.token_unavailable",
    "provider.forbidden",
    "provider.quota",
    "provider.not_found",
    "provider.rate_limited",
    "provider.server",
    "provider.bad_request",
    "provider.context_length",
    "provider.content_filter",
    "provider.sees_nothing",
    "picture.lost",
    "provider.unreachable",
    "provider.unknown_host",
    "provider.no_tls",
    "provider.certificate",
    "provider.timeout",
    "provider.broken_stream",
    "provider.garbage",
    "worker.refused",
    "worker.stranger",
    "worker.denied",
    "worker.lost",
    "worker.unavailable",
]


MAX_DETAIL_CHARS = 2000
"""The longest `detail` of a failure that is recorded."""


class ModelError(Unavailable):
    """The call gave no complete answer. Created by `failures.model_error`, which has the texts.

    `streamed`: text had already come, so the call is not repeated automatically, unless its worker died (ADR 12).
    `begun`: something had come, so the provider may charge for it. `after_s`: how long the provider asks to wait.
    `detail`: the provider's own message, bounded and without keys, for the folded Details of an error.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str,
        code: ModelErrorCode,
        streamed: bool = False,
        begun: bool = False,
        after_s: float | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.streamed = streamed
        self.begun = begun or streamed
        self.after_s = after_s
        self.detail = detail


class ModelDriver(Protocol):
    """Calls models of one kind."""

    def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the answer: perhaps a Reasoning, any number of TextDelta, then one Finished, then the end.

        Closing the iterator (`aclose`) or cancelling its reader aborts the call upstream; a reader that stops early
        must do one of the two. Raises ModelError.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAccess:
    """How a configured provider is reached. `key_name` is what a person checks when the key is refused, `key_place`
    where it was found; the key itself is left out of the repr. `socket` is the path of a worker's socket, for the
    driver `worker` only. `first_s`, `next_s`: how long the provider may be silent before the first piece of its answer
    and between two. With `oauth2` the worker gets the key itself. `prices` are those of the configuration; without them
    the worker's count."""

    driver: str
    base_url: str = ""
    socket: str = ""
    api_key: str = field(default="", repr=False)
    key_name: str = ""
    key_place: Literal["", "vault", "environment", "Claude Code"] = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    oauth2: ClientCredentials | None = None
    first_s: float = 120.0
    next_s: float = 120.0
    prices: TokenPrices | None = None


AccessOf: TypeAlias = Callable[[ModelChoice], ProviderAccess]
"""Returns how the provider of a choice is reached, at the moment of a call. Raises Unavailable."""


def finished(
    *,
    text: str,
    finish: Finish,
    tool_uses: tuple[ToolUse, ...] = (),
    usage: Usage,
    cost: int | None,
    ttft_ms: float | None,
    provider: JsonObject | None = None,
    reasoning: str = "",
) -> Finished:
    """Return the end of an answer, with what is recorded of it by content address. `provider` is what it said of
    itself, such as its model's exact name and its id of the response; `reasoning` is recorded only if not empty."""
    response: JsonObject = {
        "text": text,
        "finish": finish,
        "tool_uses": [encode(use) for use in tool_uses],
        "usage": encode(usage),
        "cost": cost,
        "provider": provider or {},
        **({"reasoning": reasoning} if reasoning else {}),
    }
    return Finished(finish=finish, tool_uses=tool_uses, usage=usage, cost=cost, response=response, ttft_ms=ttft_ms)


OFFLINE = "offline"
FOREIGN = "worker"
SCRIPTED = "scripted"


def answers_in_worker(choice: ModelChoice) -> bool:
    """Whether this choice needs the model worker."""
    return choice.driver not in (OFFLINE, FOREIGN, SCRIPTED)


class Models:
    """All models behind one port: `offline` and `scripted` answer in this process, a foreign `worker` at its socket,
    all others in the model worker."""

    def __init__(
        self,
        *,
        offline: ModelDriver,
        worker: ModelDriver | None = None,
        foreign: ModelDriver | None = None,
        scripted: ModelDriver | None = None,
    ) -> None:
        self._worker = worker
        self._named = {OFFLINE: offline, FOREIGN: foreign, SCRIPTED: scripted}

    def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See ModelDriver. Raises InputError for a driver that does not exist."""
        return self._driver(request.choice.driver).generate(request)

    def _driver(self, name: str) -> ModelDriver:
        found = self._named.get(name, self._worker)
        if found is None:
            raise InputError(
                f'There is no model driver "{name}" here.',
                hint="Choose another model with %model.",
                code="model.driver",
            )
        return found
