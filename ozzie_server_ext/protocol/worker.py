"""The NDJSON worker protocol, with optional fields and further event types, so that a foreign worker speaks it too.

S2 defines create_session, generate, abort, close_session and status; answers `{ok, …}`; the events token, stop and
error. Beyond it are `id` (which call an event belongs to), `request` and `model` of a generate, configure, describe,
the events tokens, reasoning, ready and heartbeat, and the fields of stop and error that S2 does not name. A call to a
worker of ours brings its whole conversation; only workers that speak plain S2 have sessions.
"""

from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import Finish, ToolUse
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode

T = TypeVar("T")

DEFAULT_SOCKET = "/run/fazai/gemma.sock"
"""Where a worker listens that was told nothing else."""

# --- to the worker ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """With what a worker gets access tokens for a provider (OAuth 2.0, RFC 6749 §4.4)."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How the worker reaches a provider. The key travels over the socket only and never shows in a repr. With
    `oauth2`, the worker gets the key by itself."""

    driver: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    oauth2: ClientCredentials | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """Replaces all that the worker knows of providers; their names are those of the configuration."""

    providers: dict[str, Provider]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSession:
    """Begins a conversation that the worker keeps; answered with `{ok: true, session_id}`."""

    params: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSession:
    """Ends a session and whatever still runs in it."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Asks for an answer. S2's workers read `session_id` and `prompt`; ours reads `request`, the exact request that
    the gateway recorded, and names every event with `id`. `pictures`: the content, in base64, of each reference to a
    picture in the request. `first_s`, `next_s`: how long the first piece and each further one may take."""

    session_id: str
    prompt: str
    stream: bool = True
    id: str = ""
    request: JsonObject = field(default_factory=dict[str, Json])
    pictures: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    first_s: float = 120.0
    next_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Ends one call (`id`), or all of a session where no id is given."""

    session_id: str
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Asks how the worker is; answered with `{ok: true, …}`."""

    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelName:
    """A model as litellm's table names it: `driver` is the provider whose own model it is."""

    driver: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Asks what litellm's table says of these models; answered with `{ok: true, models}`, see Described."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """The model has begun to reason, which takes time and is no part of its answer. Said once, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The answer is whole. `cost` in 1e-9 USD, None where the price is unknown; `provider` what it said of itself;
    `reasoning` what it let be known of its reasoning, cut where it is very long."""

    finish: Finish = "stop"
    tool_uses: tuple[ToolUse, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost: int | None = None
    provider: JsonObject = field(default_factory=dict[str, Json])
    reasoning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """The call failed. `code` is one of ours (empty from a foreign worker), `detail` the provider's own words,
    bounded and without keys. `begun`: a part of the answer had come, be it reasoning or half a call of a tool."""

    message: str
    code: str = ""
    detail: str = ""
    after_s: float | None = None
    begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is said of a model; None where nothing is. `context` and `max_output` in tokens, of the conversation and of
    one answer; the prices in 1e-9 USD for a million tokens."""

    context: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    parallel_tools: bool | None = None
    images: bool | None = None
    structured: bool | None = None
    reasoning: bool | None = None
    price_in: int | None = None
    price_out: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The answer to Describe, a model's facts in the place of its name."""

    models: tuple[ModelFacts, ...]


StreamEvent: TypeAlias = Token | Reasoning | Stop | Error

_EVENTS: dict[str, type[StreamEvent]] = {"token": Token, "reasoning": Reasoning, "stop": Stop, "error": Error}
_EVENT_NAMES = {kind: name for name, kind in _EVENTS.items()}


_PLAIN = frozenset({"params", "session_id", "prompt", "stream"})
"""The fields that S2 knows."""


def command_json(command: Command, *, plain: bool = False) -> JsonObject:
    """`command` as a message; `plain` for a worker that knows S2 alone."""
    fields = encode(command)
    if plain:
        fields = {name: value for name, value in fields.items() if name in _PLAIN}
    return {"type": _COMMAND_NAMES[type(command)], **fields}


def parse_command(message: JsonObject) -> Command:
    """The command in `message`. Raises InvalidShape."""
    return decode(_kind(_COMMANDS, message), message)


def event_json(event: StreamEvent, call_id: str) -> JsonObject:
    return {"type": _EVENT_NAMES[type(event)], "id": call_id, **encode(event)}


def parse_event(message: JsonObject | str) -> StreamEvent:
    """The event in `message`; a plain line is a token, and so is `{ok: false, error}` an error.

    Raises InvalidShape.
    """
    if isinstance(message, str):
        return Token(text=message)
    if message.get("ok") is False:
        return Error(message=str(message.get("error", "")))
    return decode(_kind(_EVENTS, message), message)


def parse_described(message: JsonObject) -> tuple[ModelFacts, ...]:
    """The facts in the answer to Describe. Raises InvalidShape."""
    return decode(Described, message).models


def _kind(kinds: dict[str, type[T]], message: JsonObject) -> type[T]:
    name = message.get("type")
    found = kinds.get(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidShape(f'There is no message of type "{name}".')
    return found
