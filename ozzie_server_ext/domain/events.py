"""Facts in the past tense: one frozen class each, and the envelope that carries them through the log.

The canonical names are those of DESIGN §4; `protocol.names` maps them to the names in the other documents. A
class is here once something records it. A fact's shape changes only by a higher `schema` and a function in
`store.upcast` that turns the older shape into the present one.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, TypeAlias

from ozzie_server_ext.domain.ids import BlobRef, CallId, EventId, MessageId, ReplyId, SessionId, TaskId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.usage import Usage

Actor: TypeAlias = Literal["user", "kernel", "worker", "tool", "system"]
"""Who acted (S4 §8.1.2); `kernel` is S4's word for the orchestrating part, our gateway."""

Finish: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "cancelled", "failed"]
"""Why a reply ended."""


class Fact:
    """Base of every recorded fact: its canonical name and the version of its shape."""

    __slots__ = ()
    type: ClassVar[str]
    schema: ClassVar[int] = 1


# --- session ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(Fact):
    """A context of its own began. `key` is what finds it again: a notebook's name, a thread, a terminal. One without
    a title is called after its first message."""

    type: ClassVar[str] = "session.created"
    key: str
    title: str
    channel: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRenamed(Fact):
    """The session has another title."""

    type: ClassVar[str] = "session.renamed"
    title: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed(Fact):
    """From here on `key` opens this session, and no other; a closed or archived session is active again."""

    type: ClassVar[str] = "session.resumed"
    key: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArchived(Fact):
    """The session is put away: lists leave it out until somebody goes on in it."""

    type: ClassVar[str] = "session.archived"
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClosed(Fact):
    """The session takes no more messages until it is resumed."""

    type: ClassVar[str] = "session.closed"
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionModelChosen(Fact):
    """The user chose what answers in this session: an alias, a provider, or `driver/model`."""

    type: ClassVar[str] = "session.model_chosen"
    model: str
    base_url: str = ""
    by: str = ""


# --- message ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a message came from. Empty where a channel has no such thing."""

    channel: str
    sender_id: str = ""
    sender_name: str = ""
    kernel_id: str = ""
    cell_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived(Fact):
    """Somebody wrote something: what a turn is made from."""

    type: ClassVar[str] = "message.received"
    message_id: MessageId
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCompleted(Fact):
    """The final text of a reply; a stopped or broken one keeps what had come."""

    type: ClassVar[str] = "message.completed"
    reply_id: ReplyId
    text: str
    finish: Finish


# --- task ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one task may use up. None means no limit. Money in 1e-9 USD."""

    max_rounds: int = 25
    max_tokens: int | None = None
    max_cost: int | None = None
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCreated(Fact):
    """A unit of durable work began to exist, with what it may use up and who asked for it."""

    type: ClassVar[str] = "task.created"
    title: str
    mode: Literal["FREE", "GRAPH"]
    message_id: MessageId
    limits: Limits
    thread_id: str = ""
    scope_id: str = ""
    channel: str = ""
    sender_id: str = ""
    risk_level: Literal["low", "medium", "high"] = "low"
    model: str = ""
    """The alias or provider that the caller chose; empty for the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueued(Fact):
    """Ready to be claimed. `reason`: created, or recovered after a restart."""

    type: ClassVar[str] = "task.queued"
    reason: Literal["created", "recovered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(Fact):
    """A driver claimed the task. `epoch` fences: only the holder of the highest one may go on."""

    type: ClassVar[str] = "task.started"
    attempt: int
    epoch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWaitingApproval(Fact):
    """The task goes on once a person has decided."""

    type: ClassVar[str] = "task.waiting_approval"
    approval_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWaitingInput(Fact):
    """The task goes on once its question is answered."""

    type: ClassVar[str] = "task.waiting_input"
    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPaused(Fact):
    """A person or a rule holds the task."""

    type: ClassVar[str] = "task.paused"
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResumed(Fact):
    """The task is not held any more."""

    type: ClassVar[str] = "task.resumed"
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetried(Fact):
    """A task that had failed or was cancelled goes back to the queue."""

    type: ClassVar[str] = "task.retried"
    by: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSucceeded(Fact):
    """The task did what it was for."""

    type: ClassVar[str] = "task.succeeded"
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(Fact):
    """Ended without its purpose. `kind` is the class of failure of S4 §2.2-5; `hint` the next step."""

    type: ClassVar[str] = "task.failed"
    kind: Literal["model", "parse", "tool", "business", "system"]
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancelled(Fact):
    """A person or a rule ended the task."""

    type: ClassVar[str] = "task.cancelled"
    by: str
    reason: str


# --- model.call ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """What the model asked for, as it came: the name that the provider saw, arguments not yet checked.

    `call_id` is the model's own and unique within one response only; our events about the call carry a ULID.
    """

    call_id: CallId
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallStarted(Fact):
    """One request to a model. `config`, `prompt`, `tools` are the content hashes of what shaped it, so that a
    deterministic replay can say which of them changed (DESIGN §2.7)."""

    type: ClassVar[str] = "model.call.started"
    call_id: CallId
    reply_id: ReplyId
    round: int
    alias: str
    provider: str
    model: str
    request_blob: BlobRef
    config: str
    prompt: str
    tools: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallCompleted(Fact):
    """The whole response came. `cost` in 1e-9 USD, None for an unknown price; `ttft_ms` None where no token came."""

    type: ClassVar[str] = "model.call.completed"
    call_id: CallId
    response_blob: BlobRef
    finish: Finish
    tool_uses: tuple[ToolUse, ...]
    usage: Usage
    cost: int | None
    latency_ms: float
    ttft_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallFailed(Fact):
    """The call ended without a whole response. `partial_blob` holds what had come, where anything had."""

    type: ClassVar[str] = "model.call.failed"
    call_id: CallId
    code: str
    message: str
    latency_ms: float
    partial_blob: BlobRef | None = None


# --- tool.call ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequested(Fact):
    """The model asked for a call. `use_id` is its own id for that, unique within the round only; `call_id` is ours."""

    type: ClassVar[str] = "tool.call.requested"
    call_id: CallId
    use_id: str
    tool_id: str
    name: str
    version: str
    args: JsonObject
    round: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDecided(Fact):
    """What the rules say to a call: the decision, the rule that made it, and its reason in words."""

    type: ClassVar[str] = "tool.call.decided"
    call_id: CallId
    decision: Literal["ALLOW", "ASK", "DENY"]
    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted(Fact):
    """The intent: durable before the tool runs (DESIGN §2.5)."""

    type: ClassVar[str] = "tool.call.started"
    call_id: CallId


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCompleted(Fact):
    """The outcome. `data` is the result, or `blob` where it is large; `summary` is for people, in a few words."""

    type: ClassVar[str] = "tool.call.completed"
    call_id: CallId
    ok: bool
    data: Json
    summary: str
    duration_ms: float
    blob: BlobRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFailed(Fact):
    """The call gave no result. `message` is what the model and the user read."""

    type: ClassVar[str] = "tool.call.failed"
    call_id: CallId
    code: str
    message: str
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCancelled(Fact):
    """The call was stopped before it gave a result."""

    type: ClassVar[str] = "tool.call.cancelled"
    call_id: CallId
    reason: str


# --- what shaped a turn -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedTool:
    tool_id: str
    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsetInjected(Fact):
    """Which tools, in which versions, the model was offered (TL-6)."""

    type: ClassVar[str] = "toolset.injected"
    tools: tuple[InjectedTool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged(Fact):
    """The settings in force changed. `blob` holds them before any environment variable is put in, so no secret."""

    type: ClassVar[str] = "config.changed"
    version: str
    blob: BlobRef
    files: tuple[str, ...]
    previous: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(Fact):
    """A child process of a plane is up."""

    type: ClassVar[str] = "worker.started"
    plane: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost(Fact):
    """A child process of a plane is gone, and its calls with it."""

    type: ClassVar[str] = "worker.lost"
    plane: str
    pid: int
    reason: str


TaskFact: TypeAlias = (
    TaskCreated
    | TaskQueued
    | TaskStarted
    | TaskWaitingApproval
    | TaskWaitingInput
    | TaskPaused
    | TaskResumed
    | TaskRetried
    | TaskSucceeded
    | TaskFailed
    | TaskCancelled
)

EventBody: TypeAlias = (
    SessionCreated
    | SessionRenamed
    | SessionResumed
    | SessionArchived
    | SessionClosed
    | SessionModelChosen
    | MessageReceived
    | MessageCompleted
    | TaskFact
    | ModelCallStarted
    | ModelCallCompleted
    | ModelCallFailed
    | ToolCallRequested
    | ToolCallDecided
    | ToolCallStarted
    | ToolCallCompleted
    | ToolCallFailed
    | ToolCallCancelled
    | ToolsetInjected
    | ConfigChanged
    | WorkerStarted
    | WorkerLost
)

EVENT_CLASSES: tuple[type[Fact], ...] = (
    SessionCreated,
    SessionRenamed,
    SessionResumed,
    SessionArchived,
    SessionClosed,
    SessionModelChosen,
    MessageReceived,
    MessageCompleted,
    TaskCreated,
    TaskQueued,
    TaskStarted,
    TaskWaitingApproval,
    TaskWaitingInput,
    TaskPaused,
    TaskResumed,
    TaskRetried,
    TaskSucceeded,
    TaskFailed,
    TaskCancelled,
    ModelCallStarted,
    ModelCallCompleted,
    ModelCallFailed,
    ToolCallRequested,
    ToolCallDecided,
    ToolCallStarted,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallCancelled,
    ToolsetInjected,
    ConfigChanged,
    WorkerStarted,
    WorkerLost,
)


# --- envelope -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A fact on its way to the log, before it has a place there.

    `source` is the emitting part (S1: agent, hub, ws, plugin, skill …). `labels` and `sources` say what kind of
    outside content the fact is made from, and where that came from (DESIGN §2.9).
    """

    body: EventBody
    actor: Actor
    source: str
    session_id: SessionId | None = None
    task_id: TaskId | None = None
    trace_id: str = ""
    span_id: str = ""
    causation_id: EventId | None = None
    idempotency_key: str | None = None
    labels: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    event_id: EventId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact in the log (DESIGN §4). `position` is the global order from 1; `version` the one of its stream from 1."""

    position: int
    event_id: EventId
    stream: str
    version: int
    ts: datetime
    body: EventBody
    actor: Actor
    source: str
    session_id: SessionId | None
    task_id: TaskId | None
    trace_id: str
    span_id: str
    causation_id: EventId | None
    idempotency_key: str | None
    labels: tuple[str, ...]
    sources: tuple[str, ...]
    commitment: str
    prev_hash: str
    hash: str

    @property
    def type(self) -> str:
        return self.body.type

    @property
    def schema(self) -> int:
        return self.body.schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Transient:
    """Something worth seeing at once and not worth keeping: through the feed, never in the log (DESIGN §2.2)."""

    type: Literal["reply.delta", "reply.reset", "agent.thinking", "tool.output", "task.progress", "status.heartbeat"]
    session_id: SessionId | None
    task_id: TaskId | None
    payload: JsonObject = field(default_factory=dict["str", "Json"])
