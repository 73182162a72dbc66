"""The REST interface's answers and the types of its inputs; those of tasks, runs, approvals and models have their own
modules. The OpenAPI document is made from them."""

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain.artifacts import ArtifactKind, ErasedWhy
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.frames import STORED_NAMES
from ozzie_server_ext.vault.document import SlotKind

T = TypeVar("T")

MAX_PAGE = 500
MAX_POSITION = 10**15 - 1
MAX_CONTENT = 500_000
_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"

Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many items a page has at most.")]
Position: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_POSITION, description="A position in the event log.")]
SessionId: TypeAlias = Annotated[str, Meta(pattern=f"^sess_{_ULID}$", title="the id of a session, sess_ and a ULID")]
TaskId: TypeAlias = Annotated[str, Meta(pattern=f"^{_ULID}$", title="the id of a task, a ULID")]
PinId: TypeAlias = Annotated[str, Meta(pattern=f"^{_ULID}$", title="the id of a pinned fact, a ULID")]
KernelId: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z0-9-]{8,64}$", title="the id of a kernel")]
NumberCursor: TypeAlias = Annotated[
    str, Meta(pattern="^[0-9]{1,15}$", title="the next of another page", description="The `next` of the page before.")
]
TaskCursor: TypeAlias = Annotated[
    str, Meta(pattern=f"^{_ULID}$", title="the next of another page", description="The `next` of the page before.")
]
SessionName: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        title="text of 1 to 500 characters",
        description="What finds the session again: a notebook's path, a thread, `cli:` and a terminal's name.",
    ),
]
ProjectFolder: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^/",
        max_length=4096,
        title="an absolute path",
        description="A project folder; by default the caller's.",
    ),
]
# `\S` differs between Python and JSON Schema (ECMA 262): exclude what is space to either.
_SAYS_SOMETHING = r"[^\s\u001c-\u001f\u0085\ufeff]"
Title: TypeAlias = Annotated[
    str, Meta(pattern=_SAYS_SOMETHING, max_length=500, title="text of at most 500 characters that says something")
]
Content: TypeAlias = Annotated[
    str,
    Meta(
        pattern=_SAYS_SOMETHING,
        max_length=MAX_CONTENT,
        title=f"text that says something, of at most {MAX_CONTENT:,} characters",
        description="The message.",
    ),
]
PinText: TypeAlias = Annotated[
    str, Meta(pattern=_SAYS_SOMETHING, max_length=1000, title="text that says something, of at most 1,000 characters")
]
NotebookPath: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4096,
        title="the path of a notebook",
        description="A notebook's path below the root of this server, as its contents API names it.",
    ),
]
Words: TypeAlias = Annotated[str, Meta(max_length=500, title="text of at most 500 characters")]
EventName: TypeAlias = Annotated[
    str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", title="the name of an event that a step waits for")
]
EventKey: TypeAlias = Annotated[str, Meta(max_length=100, title="text of at most 100 characters")]
UpdateText: TypeAlias = Annotated[
    str,
    Meta(pattern=_SAYS_SOMETHING, max_length=20_000, title="text that says something, of at most 20,000 characters"),
]
AnswerName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500, title="text of 1 to 500 characters")]
PromptId: TypeAlias = Annotated[str, Meta(pattern="^[0-7][0-9A-HJKMNP-TV-Z]{25}$", title="the id of a question")]
Moment: TypeAlias = Annotated[
    str,
    Meta(
        max_length=40,
        title="a day such as 2026-01-31, or a moment such as 2026-01-31T12:00:00Z",
        description="A moment with its offset from UTC, or a day for its first moment in UTC.",
        extra_json_schema={"anyOf": [{"format": "date"}, {"format": "date-time"}]},
    ),
]
EventType: TypeAlias = Annotated[
    str,
    Meta(
        pattern=f"^({'|'.join(sorted(STORED_NAMES))})$".replace(".", r"\."),
        title="the name of an event, such as task.created",
    ),
]
Money: TypeAlias = Annotated[int | None, Meta(description="In 1e-9 USD; null where a price is unknown.")]
Time: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A part of a list. `next` is the `cursor` of the following page, null at the end."""

    items: list[T]
    next: str | None


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal: a stable code, a sentence, and what to do next (may be empty)."""

    code: str
    message: str
    hint: str


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """A server that relays requests to the owner, and takes over when the owner goes."""

    pid: int
    url: str
    headless: bool


class VaultHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the vault, without any names in it. `opens_with`: what can open it; `locked`: the gateway has not
    opened it."""

    opens_with: list[SlotKind]
    locked: bool
    secrets: int


class StoreHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the event log and the blobs. `warnings`: what can't be written or read now, and what to do; they
    disappear once it works again. `checked_at`: the last daily check of everything stored; `findings`: what it found
    wrong."""

    warnings: list[str]
    checked_at: Time | None
    findings: list[str]


class ModelWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A process that calls models: `ready` or still starting, with its current `calls` and the `share` of a core that
    it used in the last second."""

    pid: int
    ready: bool
    calls: int
    share: float


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the gateway. `status` is degraded if there is a `log_warning` or a warning or finding in `store`.
    `pid` is the process that owns the folder; `server_pid` the requested one, which differs if the `role` is attached.
    `temporary`: started for a while, it gives way to any server that a person starts. `position` is the end of the log;
    `config_error`, `policy_error`, `log_warning` and `vault_warning` are empty if all is well; `ignored_config` and
    `ignored_policy` are files that nobody has trusted; `policy_warnings` are about rules that may not do what their
    author meant. `vault` is null without a usable one."""

    status: Literal["ok", "degraded"]
    version: str
    pid: int
    role: Literal["owner", "attached"]
    server_pid: int
    headless: bool
    temporary: bool
    attached: list[Attached]
    home: str
    project: str
    position: int
    clients: int
    tasks_running: int
    model: str
    workers: list[ModelWorker]
    config_error: str
    log_warning: str
    store: StoreHealth
    ignored_config: list[str]
    policy_error: str
    policy_warnings: list[str]
    ignored_policy: list[str]
    vault: VaultHealth | None
    vault_warning: str
    uptime_s: float


class KernelToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token for one kernel and one session. `copy_of`: the title of the session that this one was just forked from
    because the notebook is a copy; else empty."""

    token: str
    session_id: str
    copy_of: str


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, as the provider counted them."""

    input: int
    output: int


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One context of messages. `model` is the last one called, `chosen_model` the session's choice (empty: the
    default). `name` opens it; empty once another session has the name. `project` is the folder that it works in; empty
    for the gateway's own. `parent` is the session that it was forked from, after the turn of number `forked_turn` (0:
    at an event, or as a copy of its notebook)."""

    id: str
    title: str
    created_at: Time
    updated_at: Time
    status: Literal["active", "archived", "closed"]
    model: str
    message_count: int
    token_usage: TokenUsage
    cost: Money
    channel: str
    name: str
    chosen_model: str
    chosen_base_url: str
    project: str
    parent: str | None
    forked_turn: int


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a session. `finish` says why a reply ended, or that it was "rejected" and is asked for again;
    empty for the user's messages."""

    message_id: str
    task_id: str | None
    role: Literal["user", "assistant"]
    content: str
    finish: str
    ts: Time
    position: int
    labels: list[str]


class SessionWithMessages(Session, frozen=True, kw_only=True):
    """A session and its newest messages, oldest first. `next` is the `cursor` of those before them."""

    messages: list[Message]
    next: str | None


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted message. A feed from just before `position` shows all of its turn; `ahead` turns of the session come
    first. `became`: a task of its own, the answer to a question of `task_id`, or an update of that."""

    task_id: str
    message_id: str
    session_id: str
    position: int
    ahead: int
    became: Literal["task", "answer", "update"]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Done."""

    done: Literal[True] = True


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the log. `name` is its name on the WebSocket."""

    position: int
    event_id: str
    stream: str
    version: int
    ts: Time
    type: str
    name: str
    schema: int
    actor: str
    source: str
    session_id: str | None
    task_id: str | None
    trace_id: str
    span_id: str
    causation_id: str | None
    idempotency_key: str | None
    labels: list[str]
    sources: list[str]
    payload: dict[str, Json]
    commitment: str
    prev_hash: str
    hash: str


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A text file that comes with Ozzie. `path` is its place in a project folder."""

    path: str
    content: str


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What models used. Fields that the sums are not grouped by are null. `cost` is null if the price of any call is
    unknown; `known_cost` is the cost of the others."""

    session_id: str | None
    day: str | None
    alias: str | None
    provider: str | None
    model: str | None
    calls: int
    failed_calls: int
    unknown_price_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: Money
    known_cost: int


class UsageSums(Page[Usage], frozen=True, kw_only=True):
    """Sums of usage by group, and over all of them."""

    total: Usage


ArtifactId: TypeAlias = Annotated[
    str, Meta(pattern="^[0-7][0-9A-HJKMNP-TV-Z]{25}$", title="the id of an artifact, a ULID")
]

_AS_IT_IS = frozenset({"application/json", "image/gif", "image/jpeg", "image/png", "image/webp"})
"""Media types in which nothing can run. Other text is sent as plain text, everything else as bytes."""


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """How content was erased: it was older than `bound` days (`age`), all content together exceeded `bound` bytes
    (`size`), or the person `by` erased it. `told` is a sentence about it."""

    at: Time
    why: ErasedWhy
    by: str
    bound: int
    told: str


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a session's content under a name. `size` is in bytes, `hash` the content's SHA-256 in hexadecimal;
    `call_id` is the tool call that made it and `superseded_by` the next version, each null without one. `labels` and
    `sources` say what in it came from outside, and from where. `erased` is null while the content exists."""

    artifact_id: str
    session_id: str | None
    task_id: str | None
    ts: Time
    kind: ArtifactKind
    name: str
    version: int
    storage_ref: str
    mime: str
    size: int
    hash: str
    call_id: str | None
    meta: JsonObject
    labels: list[str]
    sources: list[str]
    superseded_by: str | None
    erased: Erasure | None


class Download(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes instead of JSON. Browsers save them, whatever their type."""

    content: bytes
    mime: str
    name: str

    @property
    def media_type(self) -> str:
        if self.mime.startswith("text/"):
            return "text/plain; charset=utf-8"
        return self.mime if self.mime in _AS_IT_IS else "application/octet-stream"

    @property
    def disposition(self) -> str:
        """A header by RFC 6266, with only the last part of the name, which can't lead to another folder."""
        return f"attachment; filename*=UTF-8''{quote(self.name.rsplit('/', 1)[-1], safe='', errors='replace')}"


R = TypeVar("R")


def page(rows: Sequence[R], limit: int, shape: Callable[[R], T], cursor: Callable[[R], object]) -> Page[T]:
    """Return the first `limit` of `rows`, which may hold one more; `cursor` identifies a row for the next page."""
    shown = rows[:limit]
    return Page(items=[shape(row) for row in shown], next=next_of(rows, limit, cursor))


def next_of(rows: Sequence[R], limit: int, cursor: Callable[[R], object]) -> str | None:
    return str(cursor(rows[limit - 1])) if len(rows) > limit else None
