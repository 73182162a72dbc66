"""The shapes that the REST interface answers of tasks: their states, their steps, and what they ask."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.gateway.rest.shapes import Money, Time, TokenUsage

FailureClass: TypeAlias = Literal["", "model", "parse", "tool", "business", "system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a task or a step failed. `kind` is the class of it, empty of a call: the model's own, what it wrote, a
    tool's, what was asked for, or Ozzie's. `hint` is the next step."""

    kind: FailureClass
    code: str
    message: str
    hint: str


TaskState = Literal[
    "CREATED",
    "QUEUED",
    "RUNNING",
    "WAITING_INPUT",
    "WAITING_APPROVAL",
    "PAUSED",
    "SUCCEEDED",
    "FAILED",
    "CANCELLED",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStep:
    """A delegated task that waits for a person; `title` names the skill and the step: "sums: gate"."""

    task_id: str
    title: str
    status: TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One unit of work. `model` is what was asked for it, empty for the session's own; `reason` says why
    it is in its state, where there is more to say; `stopping`: its end was asked for, and has not come; `pausing`: it
    is to be held, and goes on to where it can be. `cell_id` is the notebook's cell that it came from, empty where it
    came from none. `parent_id` is the task that delegated it, as a run of a skill does with each `step`, and `run_id`
    the one above all of these: its own where nobody delegated it. `waiting` is what was delegated below it, however
    deep, and waits for a person."""

    task_id: str
    session_id: str | None
    status: TaskState
    title: str
    mode: str
    attempt: int
    reason: str
    stopping: bool
    pausing: bool
    created_at: Time
    updated_at: Time
    finished_at: Time | None
    channel: str
    sender_id: str
    cell_id: str
    risk_level: str
    model: str
    rounds: int
    tool_calls: int
    token_usage: TokenUsage
    cost: Money
    error: Failure | None
    parent_id: str | None
    run_id: str
    step: str
    waiting: list[WaitingStep]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOption:
    """One answer that may be given. `amount` is what it offers where it has a `unit`: 1e-9 USD, tokens, or
    milliseconds. `help` is a line about it; one that `takes_text` is given with what a person writes."""

    name: str
    label: str
    help: str
    amount: int
    unit: Literal["", "cost", "tokens", "time"]
    takes_text: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a task waits to be told. `notes` are sentences below the question."""

    prompt_id: str
    kind: str
    question: str
    notes: list[str]
    options: list[AnswerOption]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A call of a model or of a tool. What the other kind has is null or empty: `provider`, `model`, `ttft_ms`,
    `token_usage` and `cost` are a model's, `tool_id`, `arguments`, `summary` and `artifacts` a tool's. `name` is the
    model's alias, or the name by which the model knows the tool; `purpose` is a model's: to answer, or to check a call
    of a tool in the place of a person. A model's answer that is "rejected" does not fit the
    schema that was asked for: `error` says why."""

    kind: Literal["model", "tool"]
    purpose: Literal["", "answer", "check"]
    call_id: str
    round: int
    name: str
    status: Literal["requested", "running", "completed", "failed", "cancelled", "denied", "uncertain", "rejected"]
    started_at: Time
    duration_ms: float | None
    provider: str
    model: str
    ttft_ms: float | None
    token_usage: TokenUsage | None
    cost: Money
    tool_id: str
    arguments: JsonObject | None
    summary: str
    artifacts: list[str]
    error: Failure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStep:
    """A step that a run of a skill failed by. `task_id` carried out its last attempt, where that was a task."""

    step_id: str
    title: str
    task_id: str | None
    error: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWithSteps(Task):
    """A task with what was asked, what was answered so far, each call on the way there, and what it waits to be
    told. `waits_for` are the events outside that steps of a run wait for, `updates` what was said to it meanwhile,
    `failed_steps` those that it failed by.
    `answer` is the value of an answer that had to fit a JSON Schema, once it is there; else null."""

    content: str
    text: str
    answer: Json
    steps: list[Step]
    question: Question | None
    waits_for: list[str]
    updates: list[str]
    failed_steps: list[FailedStep]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetried:
    """Which attempt comes, how many turns of its session come before, and what it has left: rounds where it is a turn,
    steps where it is a run of a workflow, and of its own budget; null where that has no limit."""

    task_id: str
    attempt: int
    ahead: int
    rounds_left: int | None
    steps_left: int | None
    tokens_left: int | None
    cost_left: Annotated[int | None, Meta(description="In 1e-9 USD.")]
    time_left_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTold:
    """`heard`: a step waits for it now; else it is kept for the one that will."""

    task_id: str
    event: str
    heard: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutput:
    """A turn as a cell shows it. Once it has ended, `data` and `metadata` are what a kernel writes at its end as one
    `display_data`, and `html` is empty; `graph` is the `data` of a second one where the task is a run of a skill with
    steps, else empty. While it goes on, only `html` is there, its live form, which is inert; a time in it that runs on
    has its seconds in `data-s`. `version` changes with all else that is shown."""

    task_id: str
    status: TaskState
    version: str
    data: JsonObject
    metadata: JsonObject
    graph: JsonObject
    html: str
