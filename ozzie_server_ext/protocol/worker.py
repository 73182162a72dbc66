"""The NDJSON worker protocol: that of S2 with more fields and events, so that foreign workers speak it too.

S2 defines create_session, generate, abort, close_session and status; answers `{ok, …}`; the events token, stop and
error. We add `id` (the call that an event belongs to), `request` and `model` of a generate, configure, describe, the
events tokens, reasoning, ready and heartbeat, and further fields of stop and error. A call to our own worker carries
its whole conversation; only workers of plain S2 have sessions.
"""

from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import msgspec

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import Finish, ToolUse
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode

T = TypeVar("T")

DEFAULT_SOCKET = "/run/fazai/gemma.sock"
"""Where a worker listens by default."""

# --- to the worker ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """How a worker gets access tokens for a provider (OAuth 2.0, RFC 6749 §4.4)."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How the worker reaches a provider. The key travels over the socket only and is left out of the repr. With
    `oauth2`, the worker gets the key itself."""

    driver: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    oauth2: ClientCredentials | None = None


class Configure(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces all providers that the worker knows; their names are those of the configuration."""

    providers: dict[str, Provider]


class CreateSession(msgspec.Struct, frozen=True, kw_only=True):
    """Begins a conversation that the worker keeps; answered with `{ok: true, session_id}`."""

    params: JsonObject


class CloseSession(msgspec.Struct, frozen=True, kw_only=True):
    """Ends a session and all its calls."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Requests an answer. S2's workers read `session_id` and `prompt`; ours reads `request`, the exact request that the
    gateway recorded, and puts `id` into every event. `pictures`: the base64 content of each picture reference in the
    request. `first_s`, `next_s`: how long the first piece and each further one may take."""

    session_id: str
    prompt: str
    stream: bool = True
    id: str = ""
    request: JsonObject = field(default_factory=dict[str, Json])
    pictures: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    first_s: float = 120.0
    next_s: float = 120.0


class Abort(msgspec.Struct, frozen=True, kw_only=True):
    """Ends one call (`id`), or all calls of a session without an id."""

    session_id: str
    id: str = ""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the worker's status; answered with `{ok: true, …}`."""

    id: str = ""


class ModelName(msgspec.Struct, frozen=True, kw_only=True):
    """A model as litellm's table names it: `driver` is the provider whose own model it is."""

    driver: str
    model: str


class Describe(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the facts in litellm's table about these models; answered with `{ok: true, models}`, see Described."""

    id: str
    models: tuple[ModelName, ...]


Command: TypeAlias = Configure | CreateSession | Generate | Abort | CloseSession | Status | Describe

_COMMANDS: dict[str, type[Command]] = {
    "configure": Configure,
    "create_session": CreateSession,
    "close_session": CloseSession,
    "generate": Generate,
    "abort": Abort,
    "status": Status,
    "describe": Describe,
}
_COMMAND_NAMES = {kind: name for name, kind in _COMMANDS.items()}

# --- from the worker ----------------------------------------------------------------------------------


class Token(msgspec.Struct, frozen=True, kw_only=True):
    text: str


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """The model has begun to reason, which takes time and is no part of its answer. Sent once, at most."""


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The answer is complete. `cost` in 1e-9 USD, None if the price is unknown; `provider` is what it said of itself;
    `reasoning` the part of its reasoning that it disclosed, cut if very long."""

    finish: Finish = "stop"
    tool_uses: tuple[ToolUse, ...] = ()
    usage: Usage = msgspec.field(default_factory=Usage)
    cost: int | None = None
    provider: JsonObject = msgspec.field(default_factory=dict[str, Json])
    reasoning: str = ""


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """The call failed. `code` is one of ours (empty from a foreign worker), `detail` the provider's own words, bounded
    and without keys. `begun`: a part of the answer had come, even if only reasoning or half a tool call."""

    message: str
    code: str = ""
    detail: str = ""
    after_s: float | None = None
    begun: bool = False


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a model; None if unknown. `context` and `max_output` in tokens, of the conversation and of one
    answer; prices in 1e-9 USD per million tokens."""

    context: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    parallel_tools: bool | None = None
    images: bool | None = None
    structured: bool | None = None
    reasoning: bool | None = None
    price_in: int | None = None
    price_out: int | None = None


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to Describe: facts, in the order of the names."""

    models: tuple[ModelFacts, ...]


StreamEvent: TypeAlias = Token | Reasoning | Stop | Error

_EVENTS: dict[str, type[StreamEvent]] = {"token": Token, "reasoning": Reasoning, "stop": Stop, "error": Error}
_EVENT_NAMES = {kind: name for name, kind in _EVENTS.items()}


_PLAIN = frozenset({"params", "session_id", "prompt", "stream"})
"""The fields of S2."""


def command_json(command: Command, *, plain: bool = False) -> JsonObject:
    """Return `command` as a message; `plain` for a worker that only knows S2."""
    fields = encode(command)
    if plain:
        fields = {name: value for name, value in fields.items() if name in _PLAIN}
    return {"type": _COMMAND_NAMES[type(command)], **fields}


def parse_command(message: JsonObject) -> Command:
    """Return the command in `message`. Raises InvalidShape."""
    return decode(_kind(_COMMANDS, message), message)


def event_json(event: StreamEvent, call_id: str) -> JsonObject:
    return {"type": _EVENT_NAMES[type(event)], "id": call_id, **encode(event)}


def parse_event(message: JsonObject | str) -> StreamEvent:
    """Return the event in `message`: a plain line is a token, `{ok: false, error}` an error. Raises InvalidShape."""
    if isinstance(message, str):
        return Token(text=message)
    if message.get("ok") is False:
        return Error(message=str(message.get("error", "")))
    return decode(_kind(_EVENTS, message), message)


def parse_described(message: JsonObject) -> tuple[ModelFacts, ...]:
    """Return the facts in the answer to Describe. Raises InvalidShape."""
    return decode(Described, message).models


def _kind(kinds: dict[str, type[T]], message: JsonObject) -> type[T]:
    name = message.get("type")
    found = kinds.get(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidShape(f'There is no message of type "{name}".')
    return found
