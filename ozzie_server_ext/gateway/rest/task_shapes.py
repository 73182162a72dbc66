"""Types of the REST interface for tasks: states, steps, questions."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.gateway.rest.shapes import Money, Time, TokenUsage

FailureClass: TypeAlias = Literal["", "model", "parse", "tool", "business", "system"]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task or a step failed. `kind` is its class (of the model, its text, a tool, the request, or Ozzie), empty
    for a call. `hint` is the next step."""

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


class WaitingStep(msgspec.Struct, frozen=True, kw_only=True):
    """A delegated task that waits for a person; `title` names the skill and the step: "sums: gate"."""

    task_id: str
    title: str
    status: TaskState


class Requester(msgspec.Struct, frozen=True, kw_only=True):
    """Who requested a task: `sender_id` on a `channel`, such as notebook, page or cli."""

    channel: str
    sender_id: str


class TaskBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A task's own limits; null means none. `deadline_s`: seconds of work, without the time spent waiting for people,
    so it is no moment."""

    max_cost_usd: float | None
    max_tokens: int | None
    max_rounds: int
    deadline_s: float | None


class Pointers(msgspec.Struct, frozen=True, kw_only=True):
    """A task's latest event of consequence, and the checkpoint that a run goes on from."""

    latest_event_id: str
    latest_checkpoint_id: str | None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One unit of work. `model` is the requested one, empty for the session's own; `reason` explains the state;
    `stopping` and `pausing`: requested, but not yet done. `cell_id` is its notebook cell, empty without one.
    `parent_id` is the task that delegated it, as a run of a skill does with each `step`; `run_id` is the topmost one,
    its own id if nobody delegated it. `thread_id` and `scope_id` name the conversation that it belongs to;
    `assigned_worker` is the latest start of it by a gateway, empty before the first. `waiting` are delegated tasks
    below it, at any depth, that wait for a person."""

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
    thread_id: str
    scope_id: str
    requester: Requester
    channel: str
    sender_id: str
    assigned_worker: str
    budget: TaskBudget
    pointers: Pointers
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


class AnswerOption(msgspec.Struct, frozen=True, kw_only=True):
    """One possible answer. `amount` is the amount offered, if it has a `unit`: 1e-9 USD, tokens, or milliseconds.
    `help` is a line about it; an option that `takes_text` comes with the person's text."""

    name: str
    label: str
    help: str
    amount: int
    unit: Literal["", "cost", "tokens", "time"]
    takes_text: bool


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A task's question. `notes` are sentences below it."""

    prompt_id: str
    kind: str
    question: str
    notes: list[str]
    options: list[AnswerOption]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a model or a tool. Fields of the other kind are null or empty: `provider`, `model`, `ttft_ms`,
    `token_usage` and `cost` belong to models; `tool_id`, `arguments`, `summary` and `artifacts` to tools. `name` is the
    model's alias, or the tool's name for the model; a model's `purpose` is to answer, to check a tool call in place of
    a person, or to summarize earlier turns or a long result. A "rejected" answer doesn't fit its schema: `error` says
    why."""

    kind: Literal["model", "tool"]
    purpose: Literal["", "answer", "check", "summary"]
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


class FailedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that a run failed by. `task_id` carried out its last attempt, if a task did."""

    step_id: str
    title: str
    task_id: str | None
    error: Failure


class TaskWithSteps(Task, frozen=True, kw_only=True):
    """A task with its message, its answer so far, all its calls, and its question. `waits_for` are the signals that
    steps of a run wait for, `updates` the messages added meanwhile, `failed_steps` those that it failed by. `answer` is
    the value of an answer that had to fit a JSON Schema, once complete; else null."""

    content: str
    text: str
    answer: Json
    steps: list[Step]
    question: Question | None
    waits_for: list[str]
    updates: list[str]
    failed_steps: list[FailedStep]


class TaskRetried(msgspec.Struct, frozen=True, kw_only=True):
    """The coming attempt, how many turns of its session come first, and what is left: rounds of a turn, steps of a run,
    and its own budget; null without a limit."""

    task_id: str
    attempt: int
    ahead: int
    rounds_left: int | None
    steps_left: int | None
    tokens_left: int | None
    cost_left: Annotated[int | None, Meta(description="In 1e-9 USD.")]
    time_left_s: float | None


class TaskTold(msgspec.Struct, frozen=True, kw_only=True):
    """`heard`: a step was waiting for it; else it is kept for one that will."""

    task_id: str
    event: str
    heard: bool


class TaskOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as a cell shows it. After its end, `data` and `metadata` are the `display_data` that a kernel writes, and
    `html` is empty; `graph` is the `data` of a second one for a run of a skill with steps, else empty. Before, only
    `html` is set: its live, inert form; a running time has its seconds in `data-s`. `version` changes with everything
    else that is shown."""

    task_id: str
    status: TaskState
    version: str
    data: JsonObject
    metadata: JsonObject
    graph: JsonObject
    html: str
