"""Facts about a run of a skill: its steps, and where it can go on from (S1 "Event Types", S4 §8.3.4, TK-4)."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from ozzie_server_ext.domain.events.fact import Fact
from ozzie_server_ext.domain.ids import BlobRef, TaskId
from ozzie_server_ext.domain.json import Json, JsonObject

StepKind: TypeAlias = Literal["agent", "call", "skill", "ask", "approve", "wait", "none"]
FailureKind: TypeAlias = Literal["model", "parse", "tool", "business", "system"]
"""The classes of failure of S4 §2.2-5."""


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
    changes meanwhile is not looked at again. `reason` is why it runs as a graph and not as one turn (S4 §8.3.2)."""

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
    """A place that the run can go on from: behind `node_id`. `state` tells how far it was then (S4 FR-TASK-4)."""

    type: ClassVar[str] = "checkpoint.saved"
    checkpoint_id: str
    node_id: str
    state: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDelegated(Fact):
    """An agent handed work over to a skill. `task` carries it out: as an agent of its own, or as a graph, for that
    `reason` (S4 §8.3.2)."""

    type: ClassVar[str] = "agent.delegated"
    skill: str
    task: TaskId
    mode: Literal["FREE", "GRAPH"]
    reason: str


StepFact: TypeAlias = StepStarted | StepCompleted | StepFailed | StepSkipped
