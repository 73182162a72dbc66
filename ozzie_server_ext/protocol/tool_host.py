"""The messages between the gateway and a tool host, one JSON object a line (docs/adr/0077-servers-of-tools.md).

Each message belongs to a call, by `id`. A connection to a server is a call that lasts: it is answered with `connected`,
then with `tools` whenever the server's list changes, and ends with an `error`, or with a `stop` once it was aborted. A
tool's call names the connection, may report progress, and ends with its output, whose last piece is in a `stop`, or
with an `error`. A sign-in asks before it meets a host and when a person has to visit an address, and a connection when
it needs a new token; each is answered with `answer`.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.codec import decode, encode

PIECE_CHARS = 128 * 1024
"""A character takes six bytes at most, so such a line stays below 1 MiB."""
MAX_OUTPUT_CHARS = 8 << 20
"""The JSON of one result. A longer one is refused: nobody reads it, and a model can't."""
MAX_SERVER_TOOLS = 500
MAX_LIST_BYTES = 512 << 10
"""The JSON of all tools of a server, which go to the gateway in one line; and of its prompts, and its resources."""
MAX_LISTED = 1000
"""Resources, and prompts, of a server. Others are left out."""


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=str.lower):
    id: str


# --- to the host ------------------------------------------------------------------------------------------------------


class ServerAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What a server that is started here sees of this machine, by absolute paths: folders and files that it may read,
    or read and change, and those of its own program, which it may read. `hosts` are those that it may reach
    (`plugins.hosts`); without any it has no network."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """A server that is started, in a sandbox, and speaks over its standard streams. `env` may hold keys."""

    argv: tuple[str, ...]
    env: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    access: ServerAccess = msgspec.field(default_factory=ServerAccess)


class Remote(msgspec.Struct, frozen=True, kw_only=True, tag="remote"):
    """A server at an address, over streamable HTTP or, if `is_sse`, over the older transport. `headers` may hold
    keys. With a `token` of a sign-in, the host asks for another one (`renew`) when the server rejects it."""

    url: str
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    is_sse: bool = False
    token: str = ""


class CannedAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to a plugin's request, in an example of its author's."""

    url: str
    method: str = "GET"
    status: int = 200
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    body: str = ""


HEALTH = "health"
"""The export of a plugin that says whether it works."""


class Module(msgspec.Struct, frozen=True, kw_only=True, tag="module"):
    """A plugin in WebAssembly. `wasm` is the path of its code, `digest` its SHA-256; `exports` are the functions that
    it must have. `granted` are the wishes that a person granted (`plugins.capabilities`), and `secrets`, `env` and
    `config` the values that stand for them. Its notes are in the file `notes`, its folders below `project`; what it
    was compiled to is kept in the folder `compiled`. Its export `HEALTH` is answered by a request to `health_url`, if
    that is not empty. With `answers`, nothing is sent: its requests get these."""

    name: str
    wasm: str
    digest: str
    exports: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()
    secrets: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    env: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    config: JsonObject = msgspec.field(default_factory=dict[str, Json])
    notes: str
    compiled: str
    project: str
    health_url: str = ""
    answers: tuple[CannedAnswer, ...] | None = None


class Program(msgspec.Struct, frozen=True, kw_only=True, tag="program"):
    """A plugin that is a program, started in a sandbox for each call. `folder` has its files, whose hash is `digest`
    (`plugins.program_files`); `program` is the name of the one to start. `granted` to `health_url` are as for a
    `Module`; `private` are folders that it must not see, even if they lie in those that it was granted. If it is
    `offline`, it has no network, whatever was granted."""

    name: str
    folder: str
    program: str
    digest: str
    granted: tuple[str, ...] = ()
    secrets: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    env: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    config: JsonObject = msgspec.field(default_factory=dict[str, Json])
    project: str
    health_url: str = ""
    private: tuple[str, ...] = ()
    offline: bool = False


Reach: TypeAlias = Started | Remote | Module | Program
"""What tools come from, and how it is reached."""


class Connect(_Message, frozen=True, kw_only=True):
    """Connects to a server, or loads a plugin, within so many seconds."""

    server: Reach
    within_s: float


Wanted: TypeAlias = Literal["tool", "resource", "prompt", "resources", "prompts", "completion"]
"""What a call wants of a server: a tool's result; the resource at an address; a prompt filled in; the lists of both
(`ResourceList`, `PromptList`); or values that complete an argument of a prompt or a template."""


class Invoke(_Message, frozen=True, kw_only=True):
    """Calls a tool of a connected server, or an export of a loaded plugin. After `within_s` seconds it is told to
    stop, or is stopped. `wants` something else than a tool: then `tool` is an address or a prompt's name, and empty
    for a list. For a completion it is the name of a prompt or a template, and `arguments` has `argument`, `value` and
    `others`."""

    connection: str
    tool: str
    arguments: JsonObject
    within_s: float
    wants: Wanted = "tool"


class Abort(_Message, frozen=True, kw_only=True):
    """Ends a call, or a connection and all its calls."""


class Client(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How Ozzie is known to an authorization server: registered there by itself (`issuer` says where), or as a person
    gave it. An `id` that is an https address names a document about the client. `method` is how it proves itself
    (RFC 7591), `redirect` the address that it was registered with."""

    id: str
    secret: str = ""
    method: str = ""
    issuer: str = ""
    redirect: str = ""


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a sign-in brought: tokens for the server at `url`, and all that renews them. `expires_at` is in seconds
    since 1970, 0 if nobody said; `scope` is what was granted. `token_endpoint` is the one that the authorization server
    `issuer` named then: a refresh token goes there and to no other place. `resource` names the server there."""

    url: str
    access_token: str
    token_endpoint: str
    client: Client
    refresh_token: str = ""
    expires_at: int = 0
    scope: str = ""
    resource: str = ""
    issuer: str = ""


class SignIn(_Message, frozen=True, kw_only=True):
    """Signs a person in to the server at `url`, within so many seconds; their browser ends at `redirect`. `client`: as
    whom, if that is known; `scope`: the rights to ask for, in place of those that the server names."""

    url: str
    redirect: str
    within_s: float
    client: Client | None = None
    scope: str = ""


class Refresh(_Message, frozen=True, kw_only=True):
    """Exchanges the refresh token of a sign-in for new tokens, within so many seconds."""

    grant: Grant
    within_s: float


class Answer(_Message, frozen=True, kw_only=True):
    """Answers the last question of a sign-in, a connection or a call: `meet` with "yes" or "", `visit` with the address
    where the browser ended, `renew` with a token or "", `elicit` with the JSON of a `Given`."""

    text: str


Command: TypeAlias = Connect | Invoke | Abort | SignIn | Refresh | Answer

# --- from the host ----------------------------------------------------------------------------------------------------


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server claims about a tool (the MCP's annotations); None if it says nothing. Nobody has checked it."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class ServerTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as its server describes it. `schema` is the JSON Schema of its arguments."""

    name: str
    schema: JsonObject
    title: str = ""
    description: str = ""
    claims: Claims = msgspec.field(default_factory=Claims)


Offer: TypeAlias = Literal["resources", "prompts", "completions"]


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An argument of a prompt, in the server's words."""

    name: str
    description: str = ""
    is_required: bool = False


class ServerPrompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt as its server describes it."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class PromptList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prompts of a server. `has_more`: others are left out."""

    prompts: tuple[ServerPrompt, ...] = ()
    has_more: bool = False


class ServerResource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A resource as its server lists it, `size` in bytes if it says so. `is_template`: `uri` has variables in braces
    (RFC 6570), which whoever reads it fills in."""

    uri: str
    name: str = ""
    title: str = ""
    mime: str = ""
    size: int | None = None
    is_template: bool = False


class ResourceList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resources of a server, and its templates. `has_more`: others are left out."""

    resources: tuple[ServerResource, ...] = ()
    has_more: bool = False


class Connected(_Message, frozen=True, kw_only=True):
    """The server answers. `name`, `version` and `instructions` are its own words; `era` is the version of the
    protocol that was agreed on; `offers` is what it has beside tools."""

    name: str
    version: str
    era: str
    instructions: str
    tools: tuple[ServerTool, ...]
    offers: tuple[Offer, ...] = ()


class Tools(_Message, frozen=True, kw_only=True):
    """The tools of a connected server, after a change."""

    tools: tuple[ServerTool, ...]


class Progress(_Message, frozen=True, kw_only=True):
    """How far a call is, in the server's words."""

    text: str


class Wrote(_Message, frozen=True, kw_only=True):
    """A plugin is about to write a file of the project, by its path there: however the call ends, it may be written."""

    path: str


class Refused(_Message, frozen=True, kw_only=True):
    """A plugin asked for something that nobody granted: `wish` in the form of grants, `words` in a sentence."""

    wish: str
    words: str


class Piece(_Message, frozen=True, kw_only=True):
    """A piece of the JSON of an `Output`, which is not the last one."""

    text: str


class Stop(_Message, frozen=True, kw_only=True):
    """The call has ended, or was aborted. `text` is the last piece of its output, if it has one."""

    text: str = ""


class Renew(_Message, frozen=True, kw_only=True):
    """The server at an address rejects `token`: is there another one? The request waits."""

    token: str


class Meet(_Message, frozen=True, kw_only=True):
    """The sign-in leads to this host (with its port, unless it is the usual one). It is not contacted before the
    answer."""

    host: str


class Visit(_Message, frozen=True, kw_only=True):
    """A person has to open this address in a browser: http or https, in plain ASCII."""

    url: str


class Choice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that a field may have, and the server's name for it."""

    value: str
    title: str = ""


class Field(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that a server asks a person for, in its own words. `least` and `most` bound a number, or the length of a
    text. `default` is None if it names none."""

    name: str
    kind: Literal["text", "number", "integer", "boolean", "choice"]
    title: str = ""
    description: str = ""
    is_required: bool = False
    choices: tuple[Choice, ...] = ()
    least: float | None = None
    most: float | None = None
    format: str = ""
    default: str | float | bool | None = None


class Elicit(_Message, frozen=True, kw_only=True):
    """During a call, the server asks a person for values, or to open an address (`url`). The call waits, and its time
    does not pass meanwhile."""

    message: str
    fields: tuple[Field, ...] = ()
    url: str = ""


class Given(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person says to an `Elicit`. `decline`: they don't want to; `cancel`: nobody decided. `values` are those of
    the fields that they filled in."""

    action: Literal["accept", "decline", "cancel"]
    values: dict[str, str | float | bool] = msgspec.field(default_factory=dict[str, str | float | bool])


class Granted(_Message, frozen=True, kw_only=True):
    """A sign-in has succeeded, or was refreshed; a `stop` follows."""

    grant: Grant


ErrorCode: TypeAlias = Literal[
    "mcp.start",
    "mcp.lost",
    "mcp.refused",
    "mcp.timeout",
    "mcp.too_long",
    "mcp.garbage",
    "plugin.start",
    "plugin.broke",
    "plugin.failed",
    "plugin.timeout",
    "plugin.garbage",
    "mcp.key",
    "mcp.sign_in",
    "mcp.signed_out",
    "mcp.auth",
    "sandbox.unavailable",
]
"""With `mcp.key`, `mcp.sign_in` and `mcp.signed_out`, a server rejects who calls, and did nothing: a key, nobody, and a
sign-in that does not count any more, or not for that. `mcp.auth`: a sign-in came to nothing."""


class Error(_Message, frozen=True, kw_only=True):
    """The call failed, or the connection could not be made or has ended. `message` is a sentence that may quote the
    server. `was_sent`: the server may have carried the call out. `scope`: the rights that it wants in addition, if a
    sign-in lacks some."""

    code: ErrorCode
    message: str
    was_sent: bool = False
    scope: str = ""


HostEvent: TypeAlias = (
    Connected | Tools | Progress | Refused | Wrote | Piece | Stop | Error | Renew | Meet | Visit | Granted | Elicit
)


class OutputFile(msgspec.Struct, frozen=True, kw_only=True):
    """A picture, a sound or a resource in a result; `data` in base64."""

    mime: str
    data: str


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool's result: its texts, its structured form if it has one, files, and links to resources. `failed`: the tool
    itself says so, and its texts say why."""

    texts: tuple[str, ...] = ()
    structured: Json = None
    files: tuple[OutputFile, ...] = ()
    links: tuple[str, ...] = ()
    failed: bool = False


_COMMAND: Any = Command
_EVENT: Any = HostEvent


def message_json(message: Command | HostEvent) -> JsonObject:
    return encode(message)


def parse_command(message: JsonObject) -> Command:
    """Return the command in a message. Raises InvalidShape."""
    return decode(_COMMAND, message)


def parse_event(message: JsonObject) -> HostEvent:
    """Return the event in a message. Raises InvalidShape."""
    return decode(_EVENT, message)
