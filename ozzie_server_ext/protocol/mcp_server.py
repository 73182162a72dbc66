"""The messages between the gateway and the process that speaks MCP to clients, one JSON object a line
(docs/adr/0078-ozzie-as-a-server-of-tools.md).

Each message belongs to a call, by `id`. An HTTP request of a client is a call: it goes to the process as `Exchange`,
and comes back as `Start`, `Piece`s and a `Stop`. One further call lasts as long as the process, `SERVING`: in it, the
process asks the gateway for what clients want (`Ask`), and is answered.
"""

from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.codec import decode, encode

PROJECT_HEADER = "Ozzie-Project"
"""Names the folder that a client works in, percent-encoded. Without it, it is the gateway's own."""
SERVING = "serving"
MAX_BODY_BYTES = 900 << 10
"""Of a client's request. What it asks for then fits into a line to the gateway."""
PIECE_CHARS = 64 << 10
MOST_UNREAD_CHARS = 256 << 10
"""Of one answer: the process waits until the client has read the rest."""
MOST_PICTURES, MAX_PICTURE_BYTES = 4, 1 << 20


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=str.lower):
    id: str


def project_header(folder: Path) -> str:
    """Return the value of `PROJECT_HEADER` for a folder."""
    return quote(str(folder), safe="/", errors="surrogateescape")


def project_in(value: str) -> Path | None:
    """Return the folder that `PROJECT_HEADER` names, or None."""
    return Path(unquote(value, errors="surrogateescape")) if value else None


# --- to the process ---------------------------------------------------------------------------------------------------


class Serve(_Message, frozen=True, kw_only=True):
    """Begins `SERVING`."""


class Exchange(_Message, frozen=True, kw_only=True):
    """A client's HTTP request, which the gateway has let in. `identity` is whoever it let in: the sessions of one are
    unknown to all others. The names of `headers` are in small letters."""

    identity: str
    method: str
    headers: tuple[tuple[str, str], ...]
    body: str


class Read(_Message, frozen=True, kw_only=True):
    """The client has read so many characters of an answer."""

    chars: int


class Abort(_Message, frozen=True, kw_only=True):
    """The client of an exchange is gone; or, for `SERVING`, all of them are to end."""


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool for clients. What it does comes from its contract."""

    name: str
    title: str
    description: str
    schema: JsonObject
    reads_only: bool
    destroys: bool
    is_idempotent: bool
    is_open_world: bool


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A picture as base64."""

    mime: str
    data: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact that a call made, as a client can read it."""

    uri: str
    name: str
    mime: str
    size: int


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a call. `data` is its result if that is an object. `sources`: where from outside its text comes."""

    text: str
    data: JsonObject | None = None
    is_error: bool = False
    pictures: tuple[Picture, ...] = ()
    kept: tuple[Kept, ...] = ()
    sources: tuple[str, ...] = ()


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the list of resources."""

    uri: str
    title: str
    about: str


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a resource has: a text, or bytes as base64 in `data`. `sources`: see `Output`."""

    mime: str
    text: str = ""
    data: str = ""
    sources: tuple[str, ...] = ()


class Answer(_Message, frozen=True, kw_only=True, omit_defaults=True):
    """Answers the ask `ask` with what it was for. `error` is why it has no answer, `unknown` that what it names is not
    there."""

    ask: str
    tools: tuple[OfferedTool, ...] = ()
    output: Output | None = None
    listed: tuple[Listed, ...] = ()
    content: Content | None = None
    error: str = ""
    unknown: bool = False


class Progress(_Message, frozen=True, kw_only=True):
    """How far a call is, or what it waits for."""

    ask: str
    text: str


class Changed(_Message, frozen=True, kw_only=True):
    """Other tools are offered to this identity from now on."""

    identity: str


class End(_Message, frozen=True, kw_only=True):
    """This identity is let in no more: its sessions end, and with them its calls."""

    identity: str


Command: TypeAlias = Serve | Exchange | Read | Abort | Answer | Progress | Changed | End

# --- from the process -------------------------------------------------------------------------------------------------

What: TypeAlias = Literal["tools", "call", "resources", "read"]


class Ask(_Message, frozen=True, kw_only=True):
    """Asks the gateway for the client of `exchange`. `client` is what the client calls itself. `call` names a tool and
    its `arguments`, `read` the address of a resource."""

    ask: str
    exchange: str
    what: What
    client: str
    name: str = ""
    arguments: JsonObject = msgspec.field(default_factory=dict["str", "Json"])


class Drop(_Message, frozen=True, kw_only=True):
    """The client wants no answer to `ask` any more: it has cancelled it, or is gone."""

    ask: str


class Start(_Message, frozen=True, kw_only=True):
    """The status and headers of the answer to an exchange."""

    status: int
    headers: tuple[tuple[str, str], ...]


class Piece(_Message, frozen=True, kw_only=True):
    """A piece of the answer."""

    text: str


class Stop(_Message, frozen=True, kw_only=True):
    """The answer is complete."""


Event: TypeAlias = Ask | Drop | Start | Piece | Stop

_COMMAND: Any = Command
_EVENT: Any = Event


def message_json(message: Command | Event) -> JsonObject:
    """Return a message as it is sent."""
    return encode(message)


def parse_command(message: JsonObject) -> Command:
    """Return the message of a gateway. Raises InvalidShape."""
    return decode(_COMMAND, message)


def parse_event(message: JsonObject) -> Event:
    """Return the message of the process. Raises InvalidShape."""
    return decode(_EVENT, message)
