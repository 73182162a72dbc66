"""Facts in the past tense, one frozen class each, and the envelope that carries them through the log.

One file, though it is long: a reader of a log looks facts up here, and the type checker uses `EventBody` to name every
fold that has to know a new one. `protocol.frames` maps the canonical names to those of the specification documents. A
class is here once something records it. A shape changes only by a higher `schema` and a function in `store.codec` that
turns the older shape into the present one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, NamedTuple, TypeAlias, get_args

from ozzie_server_ext.domain.approvals import ApprovalScope, AuthStrength, SessionGrant
from ozzie_server_ext.domain.artifacts import ArtifactKind, ErasedWhy
from ozzie_server_ext.domain.budget import Measure, OnBreach, Scope, Spending, Usage
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.ids import (
    ApprovalId,
    ArtifactId,
    BlobRef,
    CallId,
    EventId,
    MessageId,
    PromptId,
    ReplyId,
    SessionId,
    TaskId,
)
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.messages import Picture
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect

Actor: TypeAlias = Literal["user", "kernel", "worker", "tool", "system"]
"""Who acted; `kernel` is S4's word for the orchestrating part, our gateway."""

Finish: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "cancelled", "failed"]
"""Why a reply ended."""


class Fact:
    """Base of every recorded fact: its canonical name and the version of its shape."""

    __slots__ = ()
    type: ClassVar[str]
    schema: ClassVar[int] = 1


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
class SessionMoved(Fact):
    """What is opened by `key` was opened by `before`, which opens nothing any more; `key` is empty where the notebook
    was deleted."""

    type: ClassVar[str] = "session.moved"
    before: str
    key: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForked(Fact):
    """The session begins with what stood in the log of `parent` up to `position`, and goes its own way from there."""

    type: ClassVar[str] = "session.forked"
    parent: SessionId
    position: int
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
class LabelsCleared(Fact):
    """A person takes the labels off: of what the session has read so far, or, where there is a `path`, of that file.
    They looked at it, and answer for it."""

    type: ClassVar[str] = "labels.cleared"
    by: str
    way: AuthStrength
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionModelChosen(Fact):
    """The user chose what answers in this session: an alias, a provider, or `driver/model`."""

    type: ClassVar[str] = "session.model_chosen"
    model: str
    base_url: str = ""
    by: str = ""


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
    """Somebody wrote something: what a turn is made from. `pictures`: those that it names with an `@`;
    `absent`: the names of such that were not there."""

    type: ClassVar[str] = "message.received"
    message_id: MessageId
    text: str
    origin: Origin
    pictures: tuple[Picture, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCompleted(Fact):
    """The final text of a reply; a stopped or broken one keeps what had come."""

    type: ClassVar[str] = "message.completed"
    reply_id: ReplyId
    text: str
    finish: Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRejected(Fact):
    """A reply that came whole does not have the shape that was asked for, and comes anew. `problem` says why."""

    type: ClassVar[str] = "message.rejected"
    reply_id: ReplyId
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOption:
    """One answer that may be chosen. `unit` says what `amount`, which whoever answers may change, is counted in; empty
    where there is none. 1e-9 USD, tokens, milliseconds. `help` is a line about it; with `takes_text`, it is answered in
    words."""

    name: str
    label: str
    amount: int = 0
    unit: Literal["", "cost", "tokens", "time"] = ""
    help: str = ""
    takes_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRequested(Fact):
    """A question, which waits in the log for its answer. `notes` are sentences below it; `call_id` is the call of a
    tool whose result the answer is, of a question that the model asks."""

    type: ClassVar[str] = "prompt.requested"
    prompt_id: PromptId
    kind: Literal["budget", "asks", "uncertain", "question"]
    question: str
    notes: tuple[str, ...]
    options: tuple[PromptOption, ...]
    call_id: CallId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptAnswered(Fact):
    """The first answer, which is the only one. `option` is the name of one of those that were offered; `text` is what a
    person wrote to it."""

    type: ClassVar[str] = "prompt.answered"
    prompt_id: PromptId
    option: str
    by: str
    amount: int = 0
    text: str = ""


Purpose: TypeAlias = Literal["answer", "check"]
INTERRUPTED = "interrupted"
"""The code of a call that the end of its gateway cut off; its turn asks anew."""


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
    deterministic replay can say which of them changed. A round may take several calls: `attempt` counts
    them, and `instead_of` names the provider in whose place this one is asked, if it is.

    It reserves `reserved_tokens` and `reserved_cost` (1e-9 USD; None for an unknown price) in the budgets of its task,
    its session, its `project` (a folder) and its `day` (YYYY-MM-DD where the gateway runs).

    `updates` counts what was said to the task while it went on (`task.updated`) and stands in the request.

    `purpose`: whether it is to answer the user, or to look at a call that a rule has checked; the `reply_id` of that
    one is no reply's."""

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
    attempt: int = 1
    instead_of: str = ""
    reserved_cost: int | None = None
    reserved_tokens: int = 0
    project: str = ""
    day: str = ""
    purpose: Purpose = "answer"
    updates: int = 0


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

    def settled(self, reserved_cost: int | None) -> Spending:
        """What budgets count of the call, whatever was reserved for it. Where nobody tells a cost that was expected, it
        is what was reserved: the price is known to somebody."""
        cost = reserved_cost if self.cost is None else self.cost
        return Spending(cost or 0, self.usage.total_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallFailed(Fact):
    """The call ended without a whole response. `partial_blob` holds what had come, where anything had. `latency_ms` is
    None, and nothing is known of what had come, where the gateway itself ended in the middle.

    Where the provider may charge for it all the same, nobody says how much: budgets then count all that was reserved,
    `settled_cost` (1e-9 USD; None for an unknown price) and `settled_tokens`. Logs of before have neither."""

    type: ClassVar[str] = "model.call.failed"
    call_id: CallId
    code: str
    message: str
    latency_ms: float | None
    partial_blob: BlobRef | None = None
    settled_cost: int | None = None
    settled_tokens: int = 0

    @property
    def cost_is_unknown(self) -> bool:
        """Whether it may have cost something. What costs nothing at the most costs nothing."""
        may_be_billed = self.settled_tokens > 0 or self.partial_blob is not None or self.latency_ms is None
        return may_be_billed and self.settled_cost != 0

    @property
    def settled(self) -> Spending:
        """What budgets count of it."""
        return Spending(self.settled_cost or 0, self.settled_tokens)


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
    """What the rules say to a call: the decision, the rule that made it and where that stands, its reason in words, and
    the version of all rules."""

    type: ClassVar[str] = "tool.call.decided"
    call_id: CallId
    decision: Literal["ALLOW", "CHECK", "ASK", "DENY"]
    rule: str
    reason: str
    place: str = ""
    policy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted(Fact):
    """The intent: durable before the tool runs. `effect` is what it is about to do, and to what, by which
    the tool finds out after a crash whether it did; null where nothing tells. `before` is the content it replaces,
    `approval_id` the yes by which it runs, where it took one. `writes` are the files, with their whole paths, that it
    is about to write: they bear the labels of this fact, whatever becomes of the call."""

    type: ClassVar[str] = "tool.call.started"
    call_id: CallId
    effect: JsonObject | None = None
    before: ArtifactId | None = None
    approval_id: ApprovalId | None = None
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCompleted(Fact):
    """The outcome. `data` is the result, or its beginning and end where it is large: then the whole is the first of
    `artifacts`. `summary` is for people, in a few words. `blob` held a large result before there were artifacts.
    `brought` are the sources outside that this result itself is from, `links` addresses that stand in what came from
    the web, `wrote` the files, with their whole paths, that bear the labels of this fact from now on."""

    type: ClassVar[str] = "tool.call.completed"
    call_id: CallId
    ok: bool
    data: Json
    summary: str
    duration_ms: float
    blob: BlobRef | None = None
    artifacts: tuple[ArtifactId, ...] = ()
    brought: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFailed(Fact):
    """The call gave no result. `message` is what the model and the user read; `brought` are the sources outside that it
    may be from."""

    type: ClassVar[str] = "tool.call.failed"
    call_id: CallId
    code: str
    message: str
    duration_ms: float
    brought: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCancelled(Fact):
    """The call was stopped before it gave a result."""

    type: ClassVar[str] = "tool.call.cancelled"
    call_id: CallId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallUncertain(Fact):
    """The call was begun, and nobody knows whether it did what it was for. It is not made again by itself, unless
    `again` says so: then another call is made in its place, with the same key, and nobody is asked. Where its task ends
    before that, nobody knows still. `brought`: as of a failure."""

    type: ClassVar[str] = "tool.call.uncertain"
    call_id: CallId
    reason: str
    again: bool = False
    brought: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallResolved(Fact):
    """A person says of an uncertain call that it was done, or that it was not and is to be made again; or they leave it
    as it is."""

    type: ClassVar[str] = "tool.call.resolved"
    call_id: CallId
    outcome: Literal["done", "again", "left"]
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedTool:
    tool_id: str
    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsetInjected(Fact):
    """Which tools, in which versions, the model was offered."""

    type: ClassVar[str] = "toolset.injected"
    tools: tuple[InjectedTool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(Fact):
    """A person, or before them a second model, is asked whether a call may be made.

    `sentence` is the question, and `proof` what the call would do, of the kind `shown`: both come from the tool's
    contract and the checked arguments, never from the model. Where the proof is long, the whole of it is `whole`.
    `reason`, `rule` and `place` are those of the decision. `undo`: how it can be taken back; empty where nothing is
    known. `binds` is a SHA-256 of all that the yes is for; with another one, it is void. `needs` is the
    weakest way that a yes may come by; `cover`, what one for the session would cover, null where none is offered.
    `expires_at` is RFC 3339 in UTC. `checked`: why a second model did not say yes, a sentence; empty where none was to.
    `arguments`: those that are carried out, as JSON without secrets, the long ones shortened. `made_from`: where from
    outside the content came that the call is made from, a phrase; empty where nothing did. `card`: if something that
    looks like a secret was taken out of these texts, the SHA-256 of the card that has it, which is drawn from the
    recorded call for whoever may answer; else empty. `brought` are the sources outside that these texts may quote,
    such as those of a marked file that would be changed.
    """

    type: ClassVar[str] = "approval.requested"
    approval_id: ApprovalId
    call_id: CallId
    tool_id: str
    name: str
    sentence: str
    proof: str
    shown: Literal["diff", "text", ""]
    whole: ArtifactId | None
    reason: str
    rule: str
    place: str
    side_effect: SideEffect
    risk_level: RiskLevel
    undo: str
    binds: str
    needs: AuthStrength
    cover: SessionGrant | None
    key: str
    expires_at: str
    checked: str = ""
    arguments: str = ""
    made_from: str = ""
    card: str = ""
    brought: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGranted(Fact):
    """The first answer, a yes."""

    type: ClassVar[str] = "approval.granted"
    approval_id: ApprovalId
    extent: ApprovalScope
    by: str
    way: AuthStrength


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRejected(Fact):
    """The first answer, a no. The model gets the comment."""

    type: ClassVar[str] = "approval.rejected"
    approval_id: ApprovalId
    comment: str
    by: str
    way: AuthStrength


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalExpired(Fact):
    """Nobody may answer any more, or the yes is void: its time is up, the call would do something else by now, or a
    person took back what they had allowed for the session."""

    type: ClassVar[str] = "approval.expired"
    approval_id: ApprovalId
    why: Literal["time", "changed", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRefused(Fact):
    """An answer that did not count, kept for the audit. `approval_id` is what was asked for, cut where it is none."""

    type: ClassVar[str] = "approval.refused"
    approval_id: str
    answer: Literal["approve", "reject", "renew", "revoke"]
    by: str
    way: AuthStrength
    why: Literal["unknown", "session", "way", "answered", "expired", "extent", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactCreated(Fact):
    """A session has something under a name, or a new version of it. `size` is in bytes, `hash` SHA-256 in hexadecimal;
    `storage_ref` leads to the content, and `call_id` is the call of a tool that it came from."""

    type: ClassVar[str] = "artifact.created"
    artifact_id: ArtifactId
    kind: ArtifactKind
    name: str
    version: int
    storage_ref: str
    mime: str
    size: int
    hash: str
    call_id: CallId | None = None
    meta: JsonObject = field(default_factory=dict["str", "Json"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSuperseded(Fact):
    """There is a newer version: the artifact `by`. This one is kept."""

    type: ClassVar[str] = "artifact.superseded"
    artifact_id: ArtifactId
    by: ArtifactId


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactErased(Fact):
    """The content is gone; what is known of the artifact stays. `why`: it was older than `bound` days, all contents
    together had more than `bound` bytes, or the person `by` erased it. `bound` is 0 and `by` empty where they tell
    nothing. The file goes behind this fact, and only where nothing else needs it."""

    type: ClassVar[str] = "artifact.erased"
    artifact_id: ArtifactId
    why: ErasedWhy
    by: str = ""
    bound: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExceeded(Fact):
    """The next call did not fit into a budget, and was not made. In 1e-9 USD, tokens or milliseconds, by `measure`:
    `limit` with all that was allowed in addition, `used` so far, `wanted` by the call at the most. `action` is what
    was done about it."""

    type: ClassVar[str] = "budget.exceeded"
    scope: Scope
    key: str
    measure: Measure
    limit: int
    used: int
    wanted: int
    action: OnBreach


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRaised(Fact):
    """A person allowed more. `amount` is added to what `key` may use up, in the unit of `measure`."""

    type: ClassVar[str] = "budget.raised"
    scope: Scope
    key: str
    measure: Measure
    amount: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one task may use up. None means no limit. Money in 1e-9 USD. `skill` is the one that it runs, where that
    has a budget, and `skill_bounds` say which of the limits are that budget's, the configuration's being wider."""

    max_rounds: int = 25
    max_tokens: int | None = None
    max_cost: int | None = None
    deadline_s: float | None = None
    skill: str = ""
    skill_bounds: tuple[Measure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCall:
    """A call of a tool that a task is to make, without a model being asked for it. `tool` is a name or an id."""

    tool: str
    args: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What a delegated task works by, beside its message: the instruction, the tools that it may call (None for all),
    and those of them that ask first whatever the rules say; with `asks_for_changes`, so does all that changes
    anything. `skill` is where it comes from; `one_by_one`: calls that only read are not made side by side either.
    `given` are the addresses that a person gave for it (ADR 31)."""

    skill: str = ""
    instruction: str = ""
    tools: tuple[str, ...] | None = None
    dangerous_tools: tuple[str, ...] = ()
    asks_for_changes: bool = False
    one_by_one: bool = False
    given: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedModel:
    """A model that was called, and the name that it was called by."""

    alias: str
    provider: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedUse:
    """What delegated tasks have used, by the end of the one that delegated them. `cost` is in 1e-9 USD, a lower bound
    where `cost_known` is false; `models` stand in the order of their first calls."""

    models: tuple[UsedModel, ...]
    usage: Usage
    cost: int
    cost_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCreated(Fact):
    """A unit of durable work began to exist, with what it may use up and who asked for it. `attended`: somebody is
    there to be asked. `answer_schema`: the JSON Schema that the answer has to fit, where a program reads it. `call`:
    the one call that is all that it is to do."""

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
    attended: bool = True
    answer_schema: JsonObject | None = None
    parent: TaskId | None = None
    """The task that it was delegated by; it has a thread of its own then, which is no part of the session's."""
    step: str = ""
    """The step of the parent that it carries out."""
    brief: Brief | None = None
    call: GivenCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueued(Fact):
    """Ready to be claimed. `reason`: created, recovered after a restart, its question was answered, or its pause is
    over."""

    type: ClassVar[str] = "task.queued"
    reason: Literal["created", "recovered", "answered", "resumed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(Fact):
    """A driver claimed the task. `epoch` fences: only the holder of the highest one may go on."""

    type: ClassVar[str] = "task.started"
    attempt: int
    epoch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancelRequested(Fact):
    """A person or a rule asked for the end of the task, which comes as soon as it has let go of what it was doing."""

    type: ClassVar[str] = "task.stopping"
    by: str
    reason: str


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
class TaskPauseRequested(Fact):
    """A person asked for the task to be held, which comes before it does anything more: a turn its next calls, a run
    its next steps. Where it is not `wanted`, they take that back before it has come."""

    type: ClassVar[str] = "task.pausing"
    by: str
    reason: str = ""
    wanted: bool = True


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
    """A task that had failed or was cancelled goes back to the queue. `attempt` is the one that comes. `taken_up` are
    the steps of a run that go on by the tasks that they had, with those: all others begin by new ones. `limits` take
    the place of those that the task had, where its skill's budget is another one by now."""

    type: ClassVar[str] = "task.retried"
    by: str
    attempt: int
    taken_up: dict[str, TaskId] = field(default_factory=dict[str, TaskId])
    limits: Limits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUpdated(Fact):
    """Whoever asked for the task said something more, in their own words: its model reads them at its next call."""

    type: ClassVar[str] = "task.updated"
    text: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStalled(Fact):
    """Nothing came from the task for `quiet_s`, and nobody is waited for. `doing` says what it is in the middle of,
    `action` what follows: it is told of, its next call goes to the cheaper model, or it is stopped."""

    type: ClassVar[str] = "task.stalled"
    action: Literal["remind", "degrade", "cancel"]
    quiet_s: float
    doing: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSignalled(Fact):
    """Something happened outside, which a step of this run waits for or will: somebody said so. It counts for one wait,
    also where it came before that began."""

    type: ClassVar[str] = "task.told"
    event: str
    by: str
    data: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskModelChosen(Fact):
    """From here on, the alias or provider `model` answers in this task."""

    type: ClassVar[str] = "task.model_chosen"
    model: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSucceeded(Fact):
    """The task did what it was for. `delegated` is what the tasks that it delegated have used; None where none of them
    called a model."""

    type: ClassVar[str] = "task.succeeded"
    rounds: int
    delegated: DelegatedUse | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(Fact):
    """Ended without its purpose. `kind` is the class of failure; `hint` the next step; `detail` what a
    model's provider itself said, bounded and without any key; `delegated`, see `TaskSucceeded`."""

    type: ClassVar[str] = "task.failed"
    kind: Literal["model", "parse", "tool", "business", "system"]
    code: str
    message: str
    hint: str
    detail: str = ""
    delegated: DelegatedUse | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancelled(Fact):
    """A person or a rule ended the task. `delegated`, see `TaskSucceeded`."""

    type: ClassVar[str] = "task.cancelled"
    by: str
    reason: str
    delegated: DelegatedUse | None = None


FINAL_TYPES = frozenset(fact.type for fact in (TaskSucceeded, TaskFailed, TaskCancelled))
"""The events that end a task, until somebody retries it."""

TaskFact: TypeAlias = (
    TaskCreated
    | TaskQueued
    | TaskStarted
    | TaskCancelRequested
    | TaskWaitingApproval
    | TaskWaitingInput
    | TaskPauseRequested
    | TaskPaused
    | TaskResumed
    | TaskRetried
    | TaskSucceeded
    | TaskFailed
    | TaskCancelled
)


StepKind: TypeAlias = Literal["agent", "call", "skill", "ask", "approve", "wait", "none"]
FailureKind: TypeAlias = Literal["model", "parse", "tool", "business", "system"]
"""The classes of failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A step or state as it stands in the skill: what it does, what it needs, or where it may lead. `event` is what
    it waits for, where it does."""

    step_id: str
    title: str = ""
    kind: StepKind = "agent"
    needs: tuple[str, ...] = ()
    leads_to: tuple[str, ...] = ()
    skill: str = ""
    model: str = ""
    tool: str = ""
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillStarted(Fact):
    """A run of a skill began, with its input. `file` is the very text of the skill, `version` its hash: a file that
    changes meanwhile is not looked at again. `reason` is why it runs as a graph and not as one turn."""

    type: ClassVar[str] = "skill.started"
    skill: str
    kind: Literal["simple", "workflow", "fsm"]
    version: str
    file: BlobRef
    input: JsonObject
    steps: tuple[PlannedStep, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCompleted(Fact):
    """The run came to its end. `output` is the result, or its beginning where it is large: then `blob` is the whole."""

    type: ClassVar[str] = "skill.completed"
    skill: str
    output: Json
    blob: BlobRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFailed(Fact):
    """The run ended without its result. `step_id` is the step that it failed by, empty where it was none."""

    type: ClassVar[str] = "skill.failed"
    skill: str
    message: str
    step_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCall:
    """A call of a tool that only reads, recorded in one with the end of its step (ADR 44): what was called, with which
    arguments, and what the rules said to it (see `ToolCallDecided`)."""

    tool_id: str
    name: str
    version: str
    args: JsonObject
    rule: str
    policy: str
    duration_ms: float
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(Fact):
    """A step began, or began again: `attempt` counts from 1, and `visit` too, how often a state was come to. `task` is
    the task that carries it out, where that is one of its own."""

    type: ClassVar[str] = "step.started"
    step_id: str
    visit: int = 1
    attempt: int = 1
    task: TaskId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted(Fact):
    """A step did what it is for. `output` is what it gave, or the beginning of it where it is large: then `blob` is the
    whole. `event` is what it ended with, `to` the state that it leads to; `accepted` says why what had to hold does,
    and `told` is the event of the log by which it heard of what it waited for.
    With a `call`, it began and ended in one."""

    type: ClassVar[str] = "step.completed"
    step_id: str
    output: Json
    visit: int = 1
    attempt: int = 1
    blob: BlobRef | None = None
    event: str = "done"
    to: str = ""
    accepted: str = ""
    told: str = ""
    call: MadeCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed(Fact):
    """An attempt at a step failed. `again_in_s`: it is tried again, after so long; None where it is not. `to` is the
    state that the failure leads to, where one does; `call`, see `StepCompleted`."""

    type: ClassVar[str] = "step.failed"
    step_id: str
    kind: FailureKind
    code: str
    message: str
    hint: str = ""
    visit: int = 1
    attempt: int = 1
    again_in_s: float | None = None
    to: str = ""
    call: MadeCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSkipped(Fact):
    """A step is not carried out: its condition does not hold, or nothing that it needs was."""

    type: ClassVar[str] = "step.skipped"
    step_id: str
    reason: str
    visit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Fact):
    """A place that the run can go on from: behind `node_id`. `state` tells how far it was then."""

    type: ClassVar[str] = "checkpoint.saved"
    checkpoint_id: str
    node_id: str
    state: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDelegated(Fact):
    """An agent handed work over to a skill. `task` carries it out: as an agent of its own, or as a graph, for that
    `reason`."""

    type: ClassVar[str] = "agent.delegated"
    skill: str
    task: TaskId
    mode: Literal["FREE", "GRAPH"]
    reason: str


StepFact: TypeAlias = StepStarted | StepCompleted | StepFailed | StepSkipped


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged(Fact):
    """The settings in force changed. `blob` holds them before any environment variable is put in, so no secret."""

    type: ClassVar[str] = "config.changed"
    version: str
    blob: BlobRef
    files: tuple[str, ...]
    previous: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretChanged(Fact):
    """A secret was set, replaced, removed or imported, or the whole vault was sealed anew or is opened otherwise; never
    with a value. `number` counts the changes of this `vault`; of what concerns all of it, `name` and `scope` are empty.
    It was done at `changed_at`, which may be long before it is recorded: no gateway has to run for it."""

    type: ClassVar[str] = "secret.changed"
    name: str
    scope: str
    version: int
    action: Literal["set", "replaced", "removed", "imported", "rekeyed", "protected"]
    by: str
    changed_at: str
    vault: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(Fact):
    """A child process of a plane is up. It is recorded before the first call goes to it; `started` and `boot` tell it
    from a later process of the same number (`planes.identity`)."""

    type: ClassVar[str] = "worker.started"
    plane: str
    pid: int
    started: str = ""
    boot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost(Fact):
    """A child process of a plane is gone, and its calls with it."""

    type: ClassVar[str] = "worker.lost"
    plane: str
    pid: int
    reason: str


EventBody: TypeAlias = (
    SessionCreated
    | SessionRenamed
    | SessionResumed
    | SessionMoved
    | SessionForked
    | SessionArchived
    | SessionClosed
    | LabelsCleared
    | SessionModelChosen
    | MessageReceived
    | MessageCompleted
    | MessageRejected
    | TaskFact
    | TaskModelChosen
    | TaskStalled
    | TaskSignalled
    | TaskUpdated
    | ModelCallStarted
    | ModelCallCompleted
    | ModelCallFailed
    | BudgetExceeded
    | BudgetRaised
    | ToolCallRequested
    | ToolCallDecided
    | ToolCallStarted
    | ToolCallCompleted
    | ToolCallFailed
    | ToolCallCancelled
    | ToolCallUncertain
    | ToolCallResolved
    | ToolsetInjected
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalRejected
    | ApprovalExpired
    | ApprovalRefused
    | ArtifactCreated
    | ArtifactSuperseded
    | ArtifactErased
    | PromptRequested
    | PromptAnswered
    | AgentDelegated
    | SkillStarted
    | SkillCompleted
    | SkillFailed
    | StepFact
    | CheckpointSaved
    | ConfigChanged
    | SecretChanged
    | WorkerStarted
    | WorkerLost
)

EVENT_CLASSES: tuple[type[Fact], ...] = get_args(EventBody)


class Draft(NamedTuple):
    """A fact on its way to the log, before it has a place there. There are several for each call of a tool, and a tuple
    is made in a third of the time.

    `source` is the emitting part (S1: agent, hub, ws, plugin, skill …). `labels` and `sources` say what kind of
    outside content the fact is made from, and where that came from.
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
    """A fact in the log. `position` is the global order from 1; `version` the one of its stream from 1."""

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

    @property
    def content(self) -> Content:
        """What the fact is made from."""
        return Content(labels=self.labels, sources=self.sources) if self.labels else CLEAN


def content_of(events: Iterable[Event]) -> Content:
    """Return the union of what these events are made from: the labels of whatever may quote one of them."""
    return Content.of_all(event.content for event in events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transient:
    """Something worth seeing at once and not worth keeping: through the feed, never in the log."""

    type: Literal[
        "reply.delta",
        "reply.reset",
        "agent.thinking",
        "tool.output",
        "tool.call.progressed",
        "task.progress",
        "status.heartbeat",
    ]
    session_id: SessionId | None
    task_id: TaskId | None
    payload: JsonObject = field(default_factory=dict["str", "Json"])
