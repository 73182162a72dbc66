"""All facts in the log, one frozen class each, and their envelope.

One file, though it is long: readers of a log look facts up here, and with `TaskFact` and `StepFact` the type checker
finds that `domain.tasks` and `domain.steps` must handle a new one. `protocol.frames` maps the names to those of the
specifications. To change a shape, raise `schema` and add a function to `store.codec` that upgrades the older shape.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

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
from ozzie_server_ext.domain.remains import Remains
from ozzie_server_ext.domain.toolmeta import Category, Reached, RiskLevel, Said, SideEffect, TargetKind

Actor: TypeAlias = Literal["user", "kernel", "worker", "tool", "system"]
"""Who acted. `kernel` is the specification's word for the gateway: in an event it never means a Jupyter kernel."""
HUB: Final = "hub"
"""The source of events that the gateway records for its clients, as the log format calls it."""

Finish: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "cancelled", "failed"]
"""Why a reply ended."""


class Fact(msgspec.Struct, frozen=True):
    """The base of all facts: `type` is the canonical name, `schema` the version of the shape. A struct takes a sixth of
    the memory of a dataclass's methods, and a tenth of the time to be made."""

    type: ClassVar[str]
    schema: ClassVar[int] = 1


class SessionCreated(Fact, frozen=True, kw_only=True):
    """A session began. `key` finds it again: a notebook's name, a thread, a terminal. Without a title, its first
    message gives it one. `project` is the absolute path of the folder that it works in; empty (in logs from before
    sessions had one): the gateway's own."""

    type: ClassVar[str] = "session.created"
    key: str
    title: str
    channel: str
    by: str = ""
    project: str = ""


class SessionPinned(Fact, frozen=True, kw_only=True):
    """A person pinned a fact: every later request of the session has it word for word, whatever is summarized."""

    type: ClassVar[str] = "session.pinned"
    pin_id: str
    text: str
    by: str = ""


class SessionUnpinned(Fact, frozen=True, kw_only=True):
    """A pinned fact is no longer part of requests."""

    type: ClassVar[str] = "session.unpinned"
    pin_id: str
    by: str = ""


class SessionRenamed(Fact, frozen=True, kw_only=True):
    """The session has a new title."""

    type: ClassVar[str] = "session.renamed"
    title: str
    by: str = ""


class SessionResumed(Fact, frozen=True, kw_only=True):
    """From now on `key` opens this session and no other; a closed or archived session becomes active again."""

    type: ClassVar[str] = "session.resumed"
    key: str
    by: str = ""


class SessionMoved(Fact, frozen=True, kw_only=True):
    """The key of the session changed from `before` to `key`. `key` is empty if the notebook was deleted. `project` is
    the folder that it works in from now on; empty if that stays as it is."""

    type: ClassVar[str] = "session.moved"
    before: str
    key: str
    by: str = ""
    project: str = ""


class CallCount(msgspec.Struct, frozen=True):
    """How often a tool was called, by its name."""

    tool: str
    calls: int


class SessionForked(Fact, frozen=True, kw_only=True):
    """The session begins with the log of `parent` up to `position`, without the tasks `without`, which had begun by
    then. `turn` is the number of the last turn that it begins with, 0 if it was not forked from a turn. `cut` are the
    tasks that were in their middle at `position`. `done` are the calls with effects that the parent has started since:
    they stay done, and the model is told."""

    type: ClassVar[str] = "session.forked"
    parent: SessionId
    position: int
    by: str = ""
    turn: int = 0
    without: tuple[TaskId, ...] = ()
    cut: tuple[TaskId, ...] = ()
    done: tuple[CallCount, ...] = ()


class SessionArchived(Fact, frozen=True, kw_only=True):
    """The session was archived: lists leave it out until it is resumed."""

    type: ClassVar[str] = "session.archived"
    by: str = ""


class SessionClosed(Fact, frozen=True, kw_only=True):
    """The session was closed: it takes no messages until it is resumed."""

    type: ClassVar[str] = "session.closed"
    by: str = ""


class SessionErased(Fact, frozen=True, kw_only=True):
    """A person erased the session: the bodies of all its events, and what they name. `forks` lose the history that they
    began with, and the stored requests of their model calls so far, which repeated it. `parent`, `forked_at`,
    `turn` and `without` are those of the session, if it was a fork itself."""

    type: ClassVar[str] = "session.erased"
    by: str
    forks: tuple[SessionId, ...] = ()
    remains: Remains = Remains()
    parent: str = ""
    forked_at: int = 0
    turn: int = 0
    without: tuple[TaskId, ...] = ()


class LabelsCleared(Fact, frozen=True, kw_only=True):
    """A person cleared the labels of everything that the session has read so far or, if `path` is set, of that file."""

    type: ClassVar[str] = "labels.cleared"
    by: str
    way: AuthStrength
    path: str = ""


class SessionModelChosen(Fact, frozen=True, kw_only=True):
    """The user chose the model of the session: an alias, a provider, or `driver/model`."""

    type: ClassVar[str] = "session.model_chosen"
    model: str
    base_url: str = ""
    by: str = ""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message came from. Fields that a channel lacks are empty."""

    channel: str
    sender_id: str = ""
    sender_name: str = ""
    kernel_id: str = ""
    cell_id: str = ""


class MessageReceived(Fact, frozen=True, kw_only=True):
    """A message arrived, which begins a turn. `pictures` are those that it mentions with an `@`, `absent` the mentioned
    paths without a file."""

    type: ClassVar[str] = "message.received"
    message_id: MessageId
    text: str
    origin: Origin
    pictures: tuple[Picture, ...] = ()
    absent: tuple[str, ...] = ()


class MessageConfirmed(Fact, frozen=True, kw_only=True):
    """A person is known to have sent a message: the page saw them run the cell by a key or a click (`way` "cell"), or
    they gave it to `ozzie ask` at a terminal. `names`: what it names in words that they typed; `all_typed`: they typed
    all of it, and pasted nothing (docs/policy.md, Your own words)."""

    type: ClassVar[str] = "message.confirmed"
    message_id: MessageId
    by: str
    way: Literal["cell", "terminal"]
    names: tuple[Said, ...]
    all_typed: bool


class MessageCompleted(Fact, frozen=True, kw_only=True):
    """The final text of a reply; of a stopped or failed one, the part that had arrived."""

    type: ClassVar[str] = "message.completed"
    reply_id: ReplyId
    text: str
    finish: Finish


class MessageRejected(Fact, frozen=True, kw_only=True):
    """A complete reply does not fit the requested schema, so the model is asked again. `problem` says why."""

    type: ClassVar[str] = "message.rejected"
    reply_id: ReplyId
    problem: str


class MessageErased(Fact, frozen=True, kw_only=True):
    """A person erased a message and its whole turn: the bodies of all events of its task and of those that it
    delegated, and the summaries of the conversation with it. The turn began at the position `first`. The stored
    requests of the model calls since then, also in `forks`, repeated it and are erased too."""

    type: ClassVar[str] = "message.erased"
    message_id: MessageId
    by: str
    first: int
    forks: tuple[SessionId, ...] = ()
    remains: Remains = Remains()


ERASURE_TYPES = frozenset({SessionErased.type, MessageErased.type})


class Erased(Fact, frozen=True):
    """Stands for a body that was erased, for readers who ask for such events. Never recorded."""

    type: ClassVar[str] = "erased"


class PromptOption(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to choose from. `unit` is the unit of `amount` (1e-9 USD, tokens, ms), which the person may change;
    empty without an amount. `help` is a line about the option; with `takes_text`, the answer has a text."""

    name: str
    label: str
    amount: int = 0
    unit: Literal["", "cost", "tokens", "time"] = ""
    help: str = ""
    takes_text: bool = False


class PromptRequested(Fact, frozen=True, kw_only=True):
    """A person was asked a question. `notes` are sentences below it; `call_id` is set for a question of the model: the
    answer is the result of that tool call; and for one of an MCP `server`, which asks during that call."""

    type: ClassVar[str] = "prompt.requested"
    prompt_id: PromptId
    kind: Literal["budget", "asks", "uncertain", "question", "server"]
    question: str
    notes: tuple[str, ...]
    options: tuple[PromptOption, ...]
    call_id: CallId | None = None


class ConversationCompacted(Fact, frozen=True, kw_only=True):
    """A model's summary replaces the earlier turns of a session in what models read from now on; the log keeps them.
    `through` is the last of the `turns` that it covers, `messages` their number of messages, `call_id` the call that
    wrote it. `text` has the labels of all that it was made from."""

    type: ClassVar[str] = "session.compacted"
    call_id: CallId
    through: TaskId
    text: str
    turns: int
    messages: int


class PromptAnswered(Fact, frozen=True, kw_only=True):
    """The first answer to a question; later ones are refused. `option` is the name of the chosen one, `text` what the
    person wrote. `message_id` is that of a message to the session which was taken as the answer."""

    type: ClassVar[str] = "prompt.answered"
    prompt_id: PromptId
    option: str
    by: str
    amount: int = 0
    text: str = ""
    message_id: MessageId | None = None


Purpose: TypeAlias = Literal["answer", "check", "summary"]
INTERRUPTED = "interrupted"
"""The code of a call that the gateway's end cut off; its turn makes it again."""


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call as the model requested it: the name that the provider saw, unchecked arguments.

    `call_id` is the model's own, unique within one response; events about the call have a ULID.
    """

    call_id: CallId
    name: str
    arguments: str

    @property
    def use_id(self) -> CallId:
        """`call_id` under the name that events about the call have for it."""
        return self.call_id


class ModelCallStarted(Fact, frozen=True, kw_only=True):
    """One request to a model. `config`, `prompt` and `tools` are content hashes, so that a deterministic replay can
    tell what changed. A round may need several calls: `attempt` counts them, and `instead_of` names the provider that
    this one replaces.

    It reserves `reserved_tokens` and `reserved_cost` (1e-9 USD; None for an unknown price) in the budgets of its task,
    session, `project` (a folder) and `day` (YYYY-MM-DD where the gateway runs). `updates` counts the task's updates in
    the request. `purpose`: to answer the user, to check a tool call, or to summarize earlier turns or a long result;
    only the first has a reply with its `reply_id`. `context` and `max_output` are the model's limits in tokens, of a
    conversation and of an answer, as far as they were known; older logs lack them."""

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
    context: int | None = None
    max_output: int | None = None


class ModelCallCompleted(Fact, frozen=True, kw_only=True):
    """The model's complete response. `cost` is in 1e-9 USD, None if unknown; `ttft_ms` is None if no token came.
    `alias`, `provider` and `model` are those of its start, empty in logs older than that."""

    type: ClassVar[str] = "model.call.completed"
    call_id: CallId
    response_blob: BlobRef
    finish: Finish
    tool_uses: tuple[ToolUse, ...]
    usage: Usage
    cost: int | None
    latency_ms: float
    ttft_ms: float | None
    alias: str = ""
    provider: str = ""
    model: str = ""

    def settled(self, reserved_cost: int | None) -> Spending:
        """Return what budgets count for the call. An unknown cost counts as reserved."""
        cost = reserved_cost if self.cost is None else self.cost
        return Spending(cost or 0, self.usage.total_tokens)


class ModelCallFailed(Fact, frozen=True, kw_only=True):
    """The model call ended without a complete response. `partial_blob` holds what had arrived, if anything.
    `latency_ms` is None if the gateway ended during the call; then it is unknown what had arrived.

    If the provider may still charge for it, budgets count all that was reserved: `settled_cost` (1e-9 USD; None for an
    unknown price) and `settled_tokens`. Older logs have neither. `hint` is the next step, `detail` the provider's own
    message, shortened and without keys, `after_s` how long it asks to wait; older logs have none of them."""

    type: ClassVar[str] = "model.call.failed"
    call_id: CallId
    code: str
    message: str
    latency_ms: float | None
    partial_blob: BlobRef | None = None
    settled_cost: int | None = None
    settled_tokens: int = 0
    hint: str = ""
    detail: str = ""
    after_s: float | None = None

    @property
    def cost_is_unknown(self) -> bool:
        """Whether it may have cost something."""
        may_be_billed = self.settled_tokens > 0 or self.partial_blob is not None or self.latency_ms is None
        return may_be_billed and self.settled_cost != 0

    @property
    def settled(self) -> Spending:
        """What budgets count for it."""
        return Spending(self.settled_cost or 0, self.settled_tokens)


class ToolCallRequested(Fact, frozen=True, kw_only=True):
    """The model requested a tool call; or a step of a run that only reads, `step_id`, in the run's stream.
    `use_id` is the model's own id, unique within the round; `call_id` is ours."""

    type: ClassVar[str] = "tool.call.requested"
    call_id: CallId
    use_id: str
    tool_id: str
    name: str
    version: str
    args: JsonObject
    round: int
    index: int
    step_id: str = ""


class ToolCallDecided(Fact, frozen=True, kw_only=True):
    """The rules' decision on a tool call: the rule that decided, its place in a file, the reason in words, and the
    version of all rules. `categories` are those of this call beyond its tool's contract, as its plan showed; `reaches`
    is whom or what it reaches beyond its arguments; `spent` is what had been spent on that day, by currency, as "50.00
    EUR", if it has amounts."""

    type: ClassVar[str] = "tool.call.decided"
    call_id: CallId
    decision: Literal["ALLOW", "CHECK", "ASK", "DENY"]
    rule: str
    reason: str
    place: str = ""
    policy: str = ""
    categories: tuple[Category, ...] = ()
    reaches: tuple[Reached, ...] = ()
    spent: tuple[str, ...] = ()


class ToolCallStarted(Fact, frozen=True, kw_only=True):
    """A tool is about to run; recorded durably before. `effect` describes what it will do, so that the tool can tell
    after a crash whether it did; null if it can't. `before` is the content that it replaces, `approval_id` the approval
    that it needed, if any. `writes` are the absolute paths of files that it will write: they get the labels of this
    event, however the call ends. `amounts` are those that its arguments name, such as "50.00 EUR"."""

    type: ClassVar[str] = "tool.call.started"
    call_id: CallId
    effect: JsonObject | None = None
    before: ArtifactId | None = None
    approval_id: ApprovalId | None = None
    writes: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()


class ToolCallCompleted(Fact, frozen=True, kw_only=True):
    """A tool call ended with a result. `data` is the result; of a large one its beginning and end, and the whole is the
    first of `artifacts`. `cut`: the artifact with the whole of a text of which `data` has only beginning and end, be it
    the result or something that the call made. `summary` is for people, in a few words. `blob` held large results
    before there were artifacts. `brought` are the outside sources of the result, `links` the addresses in content from
    the web, `wrote` the absolute paths of files that have the labels of this event from now on."""

    type: ClassVar[str] = "tool.call.completed"
    call_id: CallId
    ok: bool
    data: Json
    summary: str
    duration_ms: float
    blob: BlobRef | None = None
    artifacts: tuple[ArtifactId, ...] = ()
    cut: ArtifactId | None = None
    brought: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()


class ToolCallSummarized(Fact, frozen=True, kw_only=True):
    """A model summarized a result of which the conversation has only a part. From now on, models read `text` instead of
    the beginning and the end. `by` is the model's call. The labels are those of all that it was made from."""

    type: ClassVar[str] = "tool.call.summarized"
    call_id: CallId
    by: CallId
    text: str


class ToolCallFailed(Fact, frozen=True, kw_only=True):
    """A tool call failed. `message` is for the model and the user; `brought` are the outside sources that it may
    quote."""

    type: ClassVar[str] = "tool.call.failed"
    call_id: CallId
    code: str
    message: str
    duration_ms: float
    brought: tuple[str, ...] = ()


class ToolCallCancelled(Fact, frozen=True, kw_only=True):
    """A tool call was stopped before it had a result."""

    type: ClassVar[str] = "tool.call.cancelled"
    call_id: CallId
    reason: str


class ToolCallUncertain(Fact, frozen=True, kw_only=True):
    """A tool call was started and it is unknown whether it took effect. It is not repeated, unless `again` is set: then
    another call with the same key replaces it, without asking anybody. If the task ends before that, it stays unknown.
    `brought`: see `ToolCallFailed`."""

    type: ClassVar[str] = "tool.call.uncertain"
    call_id: CallId
    reason: str
    again: bool = False
    brought: tuple[str, ...] = ()


class ToolCallResolved(Fact, frozen=True, kw_only=True):
    """A person resolved an uncertain call: it was done, it was not done and must be repeated, or it is left as it
    is."""

    type: ClassVar[str] = "tool.call.resolved"
    call_id: CallId
    outcome: Literal["done", "again", "left"]
    by: str


class InjectedTool(msgspec.Struct, frozen=True, kw_only=True):
    tool_id: str
    name: str
    version: str


class ToolsetInjected(Fact, frozen=True, kw_only=True):
    """The tools and versions that the model was offered."""

    type: ClassVar[str] = "toolset.injected"
    tools: tuple[InjectedTool, ...]


class TargetName(msgspec.Struct, frozen=True, kw_only=True):
    """One name, in text that hides nothing: `text` is its normal form, or, unless it `is_read`, what was given for it.
    `written` is an address as given if its domain is of another alphabet, where another letter may look the same."""

    text: str
    written: str = ""
    is_read: bool = True


class CardTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What one argument of a call names: recipients, accounts, amounts, people, calendars, channels or objects. `more`
    is how many names are left out; a card that is drawn for a person has all."""

    kind: TargetKind
    argument: str
    names: tuple[TargetName, ...]
    more: int = 0


class ApprovalRequested(Fact, frozen=True, kw_only=True):
    """A person, or a second model before them, was asked to approve a tool call.

    `sentence` is the question, `proof` shows what the call would do, in the form `shown`. Both come from the tool's
    contract and the checked arguments, never from the model; `whole` is the complete proof if it is long. `reason`,
    `rule` and `place` are those of the decision. `undo` tells how to take the call back; empty if unknown. `binds` is a
    SHA-256 of everything that a yes is for: if it changes, the yes is void. `needs` is the minimum strength of a yes;
    `cover` is what a yes for the session would cover, null if none is offered. `expires_at` is RFC 3339 in UTC.

    `checked` is a sentence why a second model did not say yes, empty if none was asked. `arguments` are the call's, as
    JSON without secrets, long ones shortened. `made_from` is a phrase for the outside provenance of the call, or empty.
    `card`: if something that looks like a secret was removed from these texts, the SHA-256 of the complete card, which
    is drawn from the recorded call for a person who may answer; otherwise empty. `brought` are the outside sources that
    these texts may quote, such as those of a labelled file that would be changed. `targets` are what the arguments
    name beside paths, addresses of the web and commands, which a card shows below the sentence; `known_from` is a
    sentence that says where they stand, such as in the user's own words, or empty. `standing` is what a person may let
    through from now on ("`write_file` and `edit_file` in `notes/`"), empty if that is not offered.
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
    targets: tuple[CardTarget, ...] = ()
    known_from: str = ""
    standing: str = ""


class ApprovalGranted(Fact, frozen=True, kw_only=True):
    """A tool call was approved."""

    type: ClassVar[str] = "approval.granted"
    approval_id: ApprovalId
    extent: ApprovalScope
    by: str
    way: AuthStrength


class ApprovalRejected(Fact, frozen=True, kw_only=True):
    """A tool call was rejected. The model gets the comment."""

    type: ClassVar[str] = "approval.rejected"
    approval_id: ApprovalId
    comment: str
    by: str
    way: AuthStrength


class ApprovalExpired(Fact, frozen=True, kw_only=True):
    """An approval can't be answered any more, or its yes is void: its time is up, the call would now do something else,
    or a person revoked what they had allowed for the session."""

    type: ClassVar[str] = "approval.expired"
    approval_id: ApprovalId
    why: Literal["time", "changed", "revoked"]


class ApprovalRefused(Fact, frozen=True, kw_only=True):
    """An answer was refused; recorded for the audit. `approval_id` is as given, shortened if it is none."""

    type: ClassVar[str] = "approval.refused"
    approval_id: str
    answer: Literal["approve", "reject", "renew", "revoke"]
    by: str
    way: AuthStrength
    why: Literal["unknown", "session", "way", "answered", "expired", "extent", "changed"]


class ArtifactCreated(Fact, frozen=True, kw_only=True):
    """A session has a new artifact, or a new version of one. `size` is in bytes, `hash` SHA-256 in hexadecimal,
    `storage_ref` the address of the content, `call_id` the tool call that made it."""

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
    meta: JsonObject = msgspec.field(default_factory=dict["str", "Json"])


class ArtifactSuperseded(Fact, frozen=True, kw_only=True):
    """An artifact has a newer version, `by`. This one is kept."""

    type: ClassVar[str] = "artifact.superseded"
    artifact_id: ArtifactId
    by: ArtifactId


class ArtifactErased(Fact, frozen=True, kw_only=True):
    """The content of an artifact was erased; its metadata stay. `why`: it was older than `bound` days, all contents
    together had more than `bound` bytes, or the person `by` erased it; otherwise `bound` is 0 and `by` empty. The file
    is deleted after this event, and only if nothing else needs it."""

    type: ClassVar[str] = "artifact.erased"
    artifact_id: ArtifactId
    why: ErasedWhy
    by: str = ""
    bound: int = 0


class BudgetExceeded(Fact, frozen=True, kw_only=True):
    """The next model call did not fit into a budget and was not made. In the unit of `measure` (1e-9 USD, tokens, ms):
    `limit` includes everything allowed in addition, `used` is the use so far, `wanted` the most that the call would
    use. `action` is what was done about it."""

    type: ClassVar[str] = "budget.exceeded"
    scope: Scope
    key: str
    measure: Measure
    limit: int
    used: int
    wanted: int
    action: OnBreach


class BudgetRaised(Fact, frozen=True, kw_only=True):
    """A person raised a budget. `amount` is added to the limit of `key`, in the unit of `measure`."""

    type: ClassVar[str] = "budget.raised"
    scope: Scope
    key: str
    measure: Measure
    amount: int
    by: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a task; None means no limit. Money is in 1e-9 USD. `skill` is the one that it runs, if that has a
    budget; `skill_bounds` are the limits from that budget, which are narrower than the configuration's."""

    max_rounds: int = 25
    max_tokens: int | None = None
    max_cost: int | None = None
    deadline_s: float | None = None
    skill: str = ""
    skill_bounds: tuple[Measure, ...] = ()


class GivenCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that a task makes without a model. `tool` is a name or an id."""

    tool: str
    args: JsonObject


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """The instructions of a delegated task beside its message. `tools` are those that it may call (None for all);
    `dangerous_tools` ask first whatever the rules say, and with `asks_for_changes` so do all tools with effects.
    `skill` is the brief's origin; `one_by_one`: read-only calls are not made in parallel either. `given` are the
    addresses that a person gave for it (ADR 31)."""

    skill: str = ""
    instruction: str = ""
    tools: tuple[str, ...] | None = None
    dangerous_tools: tuple[str, ...] = ()
    asks_for_changes: bool = False
    one_by_one: bool = False
    given: tuple[str, ...] = ()


class UsedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that was called, and the alias used."""

    alias: str
    provider: str
    model: str


class DelegatedUse(msgspec.Struct, frozen=True, kw_only=True):
    """What delegated tasks had used when the delegating task ended. `cost` is in 1e-9 USD, a lower bound if
    `cost_known` is false; `models` are in the order of their first calls."""

    models: tuple[UsedModel, ...]
    usage: Usage
    cost: int
    cost_known: bool


class TaskCreated(Fact, frozen=True, kw_only=True):
    """A task was created, with its limits and its requester. `attended`: a person can be asked. `answer_schema` is the
    JSON Schema that the answer must fit, if a program reads it. `call`: the task consists of this one call. `first`:
    the calls that its message makes of MCP servers, before a model is asked. `mode`: an agent that is free to choose
    its calls, or a graph of steps; `mode_reason` says why, for a task of a session."""

    type: ClassVar[str] = "task.created"
    title: str
    mode: Literal["FREE", "GRAPH"]
    message_id: MessageId
    limits: Limits
    mode_reason: str = ""
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
    """The task that delegated it. A delegated task has its own thread, outside the session's conversation; so has the
    call of an MCP client, whose `thread_id` is its own id."""
    step: str = ""
    """The step of the parent that it carries out."""
    brief: Brief | None = None
    call: GivenCall | None = None
    first: tuple[GivenCall, ...] = ()


class TaskQueued(Fact, frozen=True, kw_only=True):
    """The task is ready to run: created, or recovered after a restart; older logs also have the reasons `answered` and
    `resumed`."""

    type: ClassVar[str] = "task.queued"
    reason: Literal["created", "recovered", "answered", "resumed"]


class TaskStarted(Fact, frozen=True, kw_only=True):
    """A driver claimed the task. `epoch` is a fencing token, another for each start: only the holder of the highest one
    may go on. `attempt` counts from 1; only a retry raises it."""

    type: ClassVar[str] = "task.started"
    attempt: int
    epoch: str


class TaskCancelRequested(Fact, frozen=True, kw_only=True):
    """A person or a rule requested the task's cancellation, which follows once it has stopped its work."""

    type: ClassVar[str] = "task.stopping"
    by: str
    reason: str


class TaskWaitingApproval(Fact, frozen=True, kw_only=True):
    """The task waits for an approval: its own, or a run for one of a step, because all its open steps wait."""

    type: ClassVar[str] = "task.waiting_approval"
    approval_id: str


class TaskWaitingInput(Fact, frozen=True, kw_only=True):
    """The task waits for the answer to its question. For a run, whose open steps all wait, `question` says for what:
    an answer or a signal."""

    type: ClassVar[str] = "task.waiting_input"
    question: str


class TaskPauseRequested(Fact, frozen=True, kw_only=True):
    """A person requested a pause, which follows before a turn's next calls or a run's next steps. If not `wanted`, an
    earlier request is withdrawn."""

    type: ClassVar[str] = "task.pausing"
    by: str
    reason: str = ""
    wanted: bool = True


class TaskPaused(Fact, frozen=True, kw_only=True):
    """The task was paused by a person or a rule."""

    type: ClassVar[str] = "task.paused"
    by: str
    reason: str


class TaskResumed(Fact, frozen=True, kw_only=True):
    """The task goes on: it is not paused any more, or what it waited for was answered or decided."""

    type: ClassVar[str] = "task.resumed"
    by: str


class TaskRetried(Fact, frozen=True, kw_only=True):
    """A failed or cancelled task is queued again. `attempt` is the next one. `taken_up` maps steps of a run to the
    tasks that they continue; all other steps get new tasks. `limits` replace the task's, if its skill's budget has
    changed."""

    type: ClassVar[str] = "task.retried"
    by: str
    attempt: int
    taken_up: dict[str, TaskId] = msgspec.field(default_factory=dict[str, TaskId])
    limits: Limits | None = None


class TaskUpdated(Fact, frozen=True, kw_only=True):
    """The requester sent the task a further message, which its model reads at its next call. `message_id` is that of a
    message to the session which was taken as the update."""

    type: ClassVar[str] = "task.updated"
    text: str
    by: str
    message_id: MessageId | None = None


class TaskStalled(Fact, frozen=True, kw_only=True):
    """The task made no progress for `quiet_s` although it waits for nobody. `doing` says what it is busy with, `action`
    what follows: a reminder, the cheaper model for its next call, or its cancellation."""

    type: ClassVar[str] = "task.stalled"
    action: Literal["remind", "degrade", "cancel"]
    quiet_s: float
    doing: str
    hint: str


class TaskSignalled(Fact, frozen=True, kw_only=True):
    """The run got a signal for a step that waits for it, or will. Each signal ends one wait, even if it came before."""

    type: ClassVar[str] = "task.told"
    event: str
    by: str
    data: Json = None


class TaskModelChosen(Fact, frozen=True, kw_only=True):
    """From now on, the alias or provider `model` answers in this task."""

    type: ClassVar[str] = "task.model_chosen"
    model: str
    reason: str


class TaskSucceeded(Fact, frozen=True, kw_only=True):
    """The task succeeded. `rounds` counts the rounds of a turn, or the steps of a run that have ended. `delegated` is
    what its delegated tasks have used; None if none of them called a model."""

    type: ClassVar[str] = "task.succeeded"
    rounds: int
    delegated: DelegatedUse | None = None


class TaskFailed(Fact, frozen=True, kw_only=True):
    """The task failed. `kind` is the class of failure, `hint` the next step, `detail` the provider's own message,
    shortened and without keys; `delegated`: see `TaskSucceeded`."""

    type: ClassVar[str] = "task.failed"
    kind: Literal["model", "parse", "tool", "business", "system"]
    code: str
    message: str
    hint: str
    detail: str = ""
    delegated: DelegatedUse | None = None


class TaskCancelled(Fact, frozen=True, kw_only=True):
    """The task was cancelled by a person or a rule. `delegated`: see `TaskSucceeded`."""

    type: ClassVar[str] = "task.cancelled"
    by: str
    reason: str
    delegated: DelegatedUse | None = None


FINAL_TYPES = frozenset(fact.type for fact in (TaskSucceeded, TaskFailed, TaskCancelled))
"""The events that end a task, unless it is retried."""

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
"""The class of a failure."""


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step or state of the skill: its kind, the steps that it `needs` or the states that it `leads_to`. `event` is
    the signal that it waits for, if any."""

    step_id: str
    title: str = ""
    kind: StepKind = "agent"
    needs: tuple[str, ...] = ()
    leads_to: tuple[str, ...] = ()
    skill: str = ""
    model: str = ""
    tool: str = ""
    event: str = ""


class SkillStarted(Fact, frozen=True, kw_only=True):
    """A run of a skill began. `file` is the skill's text and `version` its hash: later changes of the file don't affect
    the run. `reason` is why it runs as a graph and not as one turn."""

    type: ClassVar[str] = "skill.started"
    skill: str
    kind: Literal["simple", "workflow", "fsm"]
    version: str
    file: BlobRef
    input: JsonObject
    steps: tuple[PlannedStep, ...] = ()
    reason: str = ""


class SkillCompleted(Fact, frozen=True, kw_only=True):
    """The run of a skill succeeded. `output` is the result; of a large one the beginning, and `blob` is the whole."""

    type: ClassVar[str] = "skill.completed"
    skill: str
    output: Json
    blob: BlobRef | None = None


class SkillFailed(Fact, frozen=True, kw_only=True):
    """The run of a skill failed. `step_id` is the step that caused it, or empty."""

    type: ClassVar[str] = "skill.failed"
    skill: str
    message: str
    step_id: str = ""


class MadeCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a read-only tool, as earlier versions recorded it: in the end of its step, instead of events of its own
    (ADR 44). `rule` and `policy`: see `ToolCallDecided`."""

    tool_id: str
    name: str
    version: str
    args: JsonObject
    rule: str
    policy: str
    duration_ms: float
    summary: str = ""


class StepStarted(Fact, frozen=True, kw_only=True):
    """A step began. `attempt` counts from 1, and so does `visit`, the number of times that a state was entered. `task`
    carries the step out, if it has its own task."""

    type: ClassVar[str] = "step.started"
    step_id: str
    visit: int = 1
    attempt: int = 1
    task: TaskId | None = None


class StepCompleted(Fact, frozen=True, kw_only=True):
    """A step succeeded. `output` is its result; of a large one the beginning, and `blob` is the whole. `event` is what
    it ended with, `to` the state that this leads to; `accepted` says why its acceptance criterion holds; `told` is the
    id of the signal that it waited for. `took_ms` and `summary` are those of a call whose start is
    recorded with its end (ADR 44). With a `call`, which only earlier versions record, this event is also its start."""

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
    took_ms: float | None = None
    summary: str = ""


class StepFailed(Fact, frozen=True, kw_only=True):
    """An attempt at a step failed. `again_in_s` is the delay before the next attempt; None if there is none. `to` is
    the state that the failure leads to, if any; for `call` and `took_ms` see `StepCompleted`."""

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
    took_ms: float | None = None


class StepSkipped(Fact, frozen=True, kw_only=True):
    """A step was skipped: its condition is false, or none of the steps that it needs was carried out."""

    type: ClassVar[str] = "step.skipped"
    step_id: str
    reason: str
    visit: int = 1


class CheckpointSaved(Fact, frozen=True, kw_only=True):
    """The run can resume after `node_id`. `state` is its progress at that time."""

    type: ClassVar[str] = "checkpoint.saved"
    checkpoint_id: str
    node_id: str
    state: JsonObject


class AgentDelegated(Fact, frozen=True, kw_only=True):
    """An agent delegated work to a skill. `task` carries it out as a turn or as a graph; `reason` says why."""

    type: ClassVar[str] = "agent.delegated"
    skill: str
    task: TaskId
    mode: Literal["FREE", "GRAPH"]
    reason: str


StepFact: TypeAlias = StepStarted | StepCompleted | StepFailed | StepSkipped


class ConfigChanged(Fact, frozen=True, kw_only=True):
    """The settings, or the rules, in force in a project changed. `blob` holds them without the values of environment
    variables, so without secrets; the settings with the text of SOUL.md, under that name, which older logs lack.
    `project` is the absolute path of its folder; empty in logs from before a gateway had several."""

    type: ClassVar[str] = "config.changed"
    version: str
    blob: BlobRef
    files: tuple[str, ...]
    previous: str
    project: str = ""


class PluginLoaded(Fact, frozen=True, kw_only=True):
    """A plugin is used from now on in a project, in this version and with what a person granted it. `digest` is the
    SHA-256 of its manifest and code."""

    type: ClassVar[str] = "plugin.loaded"
    plugin: str
    version: str
    digest: str
    granted: tuple[str, ...]
    project: str


class PluginDisabled(Fact, frozen=True, kw_only=True):
    """A plugin is not used any more in a project. `why`: a person turned it off, Ozzie did after repeated failures, its
    grant was taken back, it has changed, something that it requires is missing, or it is gone."""

    type: ClassVar[str] = "plugin.disabled"
    plugin: str
    why: Literal["off", "broke", "revoked", "changed", "waits", "gone"]
    project: str


class PluginHealthChanged(Fact, frozen=True, kw_only=True):
    """A plugin began to fail its health check, or passes it again. `reason` says what it failed with."""

    type: ClassVar[str] = "plugin.health_changed"
    plugin: str
    healthy: bool
    reason: str
    project: str


class GrantGranted(Fact, frozen=True, kw_only=True):
    """A person granted a plugin these wishes (docs/plugins.md, What a plugin asks for)."""

    type: ClassVar[str] = "grant.granted"
    plugin: str
    wishes: tuple[str, ...]
    project: str


class GrantRevoked(Fact, frozen=True, kw_only=True):
    """A person took these wishes back from a plugin."""

    type: ClassVar[str] = "grant.revoked"
    plugin: str
    wishes: tuple[str, ...]
    project: str


class IncidentOpened(Fact, frozen=True, kw_only=True):
    """Something happened that a person should look at: a plugin asked for what nobody granted (`refused`), was turned
    off after repeated failures (`turned_off`), or fails its health check (`unhealthy`). `detail` tells incidents of one
    kind apart, as the wish that was refused."""

    type: ClassVar[str] = "incident.opened"
    incident_id: str
    kind: Literal["refused", "turned_off", "unhealthy"]
    about: str
    detail: str
    message: str
    project: str = ""


class IncidentClosed(Fact, frozen=True, kw_only=True):
    """An incident needs no attention any more: a person closed it, or its cause is gone."""

    type: ClassVar[str] = "incident.closed"
    incident_id: str
    why: Literal["person", "granted", "turned_on", "healthy", "gone"]
    by: str = ""


class SecretChanged(Fact, frozen=True, kw_only=True):
    """A secret was set, replaced, removed or imported, or the whole vault got a new key or another protection; values
    are never recorded. `number` counts the changes of this `vault`; `name` and `scope` are empty for changes of the
    whole vault. `changed_at` may be long before the recording: no gateway needs to run for a change."""

    type: ClassVar[str] = "secret.changed"
    name: str
    scope: str
    version: int
    action: Literal["set", "replaced", "removed", "imported", "rekeyed", "protected"]
    by: str
    changed_at: str
    vault: str
    number: int


class WorkerStarted(Fact, frozen=True, kw_only=True):
    """A child process of a plane started; recorded before its first call. `started` and `boot` distinguish it from a
    later process with the same number (`planes.identity`)."""

    type: ClassVar[str] = "worker.started"
    plane: str
    pid: int
    started: str = ""
    boot: str = ""


class WorkerLost(Fact, frozen=True, kw_only=True):
    """A child process of a plane ended, and its calls with it."""

    type: ClassVar[str] = "worker.lost"
    plane: str
    pid: int
    reason: str


EventBody: TypeAlias = (
    SessionCreated
    | SessionRenamed
    | SessionPinned
    | SessionUnpinned
    | ConversationCompacted
    | SessionResumed
    | SessionMoved
    | SessionForked
    | SessionArchived
    | SessionClosed
    | SessionErased
    | LabelsCleared
    | SessionModelChosen
    | MessageReceived
    | MessageConfirmed
    | MessageCompleted
    | MessageRejected
    | MessageErased
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
    | ToolCallSummarized
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
    | PluginLoaded
    | PluginDisabled
    | PluginHealthChanged
    | GrantGranted
    | GrantRevoked
    | IncidentOpened
    | IncidentClosed
    | SecretChanged
    | WorkerStarted
    | WorkerLost
    | Erased
)

EVENT_CLASSES: tuple[type[Fact], ...] = tuple(kind for kind in get_args(EventBody) if kind is not Erased)
"""All facts that can be recorded."""


class Draft(NamedTuple):
    """A fact to append to the log. A tuple, because it is made in a third of the time, several times per tool call.

    `source` is the emitting part (agent, hub, ws, plugin, skill …); `labels` and `sources` are the fact's provenance.
    Where `trace_id`, `span_id` or `causation_id` are left out, the log fills them (docs/adr/0052).
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


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A fact in the log. `position` is the global order from 1, `version` the order in its stream from 1; `body_bytes`
    is the size of the body as it is stored. The body is `Erased` only for readers who ask for such events.

    A struct that the garbage collector does not look at: thousands are made a second, and none refers to itself.
    """

    position: int
    event_id: EventId
    stream: str
    version: int
    ts: datetime
    body: EventBody
    body_bytes: int
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
        """The provenance of the fact."""
        return Content(labels=self.labels, sources=self.sources) if self.labels else CLEAN


def content_of(events: Iterable[Event]) -> Content:
    """Return the union of the provenance of these events, for something that may quote any of them."""
    return Content.of_all(event.content for event in events)


TransientType: TypeAlias = Literal[
    "reply.delta",
    "reply.reset",
    "agent.thinking",
    "tool.output",
    "tool.call.progressed",
    "task.progress",
    "status.heartbeat",
]


class Transient(msgspec.Struct, frozen=True, kw_only=True):
    """A live message, sent through the feed and never recorded."""

    type: TransientType
    session_id: SessionId | None
    task_id: TaskId | None
    payload: JsonObject = msgspec.field(default_factory=dict["str", "Json"])
