"""Types of the REST interface for runs of skills: each step's state, and where it is drawn."""

from typing import Literal

import msgspec

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.gateway.rest.shapes import Money, Time
from ozzie_server_ext.gateway.rest.task_shapes import Step, TaskState
from ozzie_server_ext.render.graph.geometry import Form
from ozzie_server_ext.render.graph.view import StepState


class GraphStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step, or one state of a state machine. `note` is its own remark, `problem` why it failed; `task_id` is the
    task of its latest `attempt` of `attempts`, empty if it has none. `visits` is how often a state machine has entered
    it."""

    step_id: str
    title: str
    state: StepState
    needs: list[str]
    skill: str
    model: str
    started_at: Time | None
    finished_at: Time | None
    cost: Money
    note: str
    attempt: int
    attempts: int
    visits: int
    problem: str
    task_id: str


class GraphDot(msgspec.Struct, frozen=True, kw_only=True):
    """The centre of one step's dot."""

    step_id: str
    x: int
    y: int


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A box by its upper left corner: one step, a stack of steps, or a dot for each of its steps. `told` describes all
    of them as one, `after` what they wait for in words."""

    node_id: str
    step_ids: list[str]
    x: int
    y: int
    w: int
    h: int
    layer: int
    dots: list[GraphDot]
    told: GraphStep
    after: str


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True):
    """A line between nodes, as an SVG path. `label_x` and `label_y` are the middle of its label's base line."""

    source: str
    to: str
    path: str
    is_back: bool
    label: str
    label_x: int
    label_y: int


class GraphLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The drawing, `width` × `height` px. It depends only on the structure, so nothing moves during the run."""

    form: Form
    width: int
    height: int
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class TaskGraph(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a skill: the state of its steps, and how they are drawn. `state` is the whole in a word, `current` the
    state of a state machine. `settled` steps have ended, in whatever way. `version` changes with everything but the
    time."""

    task_id: str
    status: TaskState
    version: str
    name: str
    kind: Literal["dag", "fsm"]
    state: StepState
    current: str
    settled: int
    running: int
    failed: int
    asking: int
    steps: list[GraphStep]
    layout: GraphLayout


class StepAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a step. `message` is why it failed, or why its acceptance holds. If the run is paused, an attempt
    that ended meanwhile is shown as the run will record it; it is "Paused" if its result must be checked first, or its
    own task is paused."""

    visit: int
    attempt: int
    state: Literal["Working", "Done", "Failed", "Paused"]
    message: str
    started_at: Time
    finished_at: Time | None
    task_id: str


class StepCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that a step made at once, without a task. `argument` is the one of `args` that a row shows, `rule`
    what allowed the call, `summary` the result in a few words."""

    name: str
    args: JsonObject
    argument: str
    duration_ms: float
    rule: str
    summary: str


class StepDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One step in full. `instruction` is filled in as far as known; `input` goes to a call or another skill, else null.
    `acceptance` must hold for the result, `accepted` is why it does. `result` is text, only its beginning if `is_cut`.
    `calls` are those of its latest task, `call` the one made without a task, else null."""

    step_id: str
    title: str
    kind: Literal["agent", "call", "skill", "ask", "approve", "wait", "none"]
    instruction: str
    acceptance: str
    accepted: str
    input: Json
    result: str
    is_cut: bool
    attempts: list[StepAttempt]
    calls: list[Step]
    call: StepCall | None
