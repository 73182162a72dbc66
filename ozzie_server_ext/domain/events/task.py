"""Facts about a task, and the limits that it runs under."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from ozzie_server_ext.domain.budget import Measure, Usage
from ozzie_server_ext.domain.events.fact import Fact
from ozzie_server_ext.domain.ids import MessageId, TaskId
from ozzie_server_ext.domain.json import Json, JsonObject


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
class TaskStopping(Fact):
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
class TaskPausing(Fact):
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
class TaskTold(Fact):
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
    """Ended without its purpose. `kind` is the class of failure of S4 §2.2-5; `hint` the next step; `detail` what a
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
    | TaskStopping
    | TaskWaitingApproval
    | TaskWaitingInput
    | TaskPausing
    | TaskPaused
    | TaskResumed
    | TaskRetried
    | TaskSucceeded
    | TaskFailed
    | TaskCancelled
)
