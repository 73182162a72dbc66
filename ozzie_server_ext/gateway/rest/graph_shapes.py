"""The shapes that the REST interface answers of runs of skills: how far each step is, and where it is drawn."""

from dataclasses import dataclass
from typing import Literal

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.gateway.rest.shapes import Money, Time
from ozzie_server_ext.gateway.rest.task_shapes import Step, TaskState
from ozzie_server_ext.render.graph.geometry import Form
from ozzie_server_ext.render.graph.view import StepState


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphStep:
    """One step, or one state of a state machine. `note` is what it tells of itself, `problem` why it failed; `task_id`
    the task that carries out its latest `attempt`, of `attempts`; empty where it has none. `visits` is how often a
    state machine has come to it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDot:
    """The middle of one step's dot."""

    step_id: str
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A box, with its left upper corner: of one step, of a stack of steps, or with a dot for each of its steps. `told`
    is what is said of all of them as of one, `after` what that waits for in words."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """A line from node to node, as the path of an SVG. `label_x` and `label_y` are the middle of its label's base
    line."""

    source: str
    to: str
    path: str
    is_back: bool
    label: str
    label_x: int
    label_y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLayout:
    """Everything that is drawn, within `width` × `height` px. It hangs on the structure alone, so nothing moves while
    the run goes on."""

    form: Form
    width: int
    height: int
    nodes: list[GraphNode]
    edges: list[GraphEdge]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGraph:
    """A run of a skill: its steps as they stand, and how they are drawn. `state` is the whole in a word, `current` the
    state in which a state machine is. `settled` steps have come to their end, whichever. `version` changes with
    everything but the time."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAttempt:
    """One try at a step. `message` is why it failed, or why what had to hold does. Of a run that is held, one
    that ended meanwhile is told as the run will record it; it is "Paused" where its result is to be checked first, or
    its task is held itself."""

    visit: int
    attempt: int
    state: Literal["Working", "Done", "Failed", "Paused"]
    message: str
    started_at: Time
    finished_at: Time | None
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCall:
    """The call of a tool that a step made at once, without a task of its own. `argument` is the one of `args` that a
    row shows, `rule` what let the call pass, `summary` the result in a few words."""

    name: str
    args: JsonObject
    argument: str
    duration_ms: float
    rule: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDetail:
    """One step in full. `instruction` says what is to be done, filled in as far as that is known; `input` what a call,
    or another skill, is given; null where there is none. `acceptance` is what has to hold for the result, `accepted`
    why it does. `result` is what the step gave, as text, its beginning where `is_cut`. `calls` are those of its latest
    task, `call` the one that it made without a task; null where it made none so."""

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
