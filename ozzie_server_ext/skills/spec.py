"""What a skill file may say. docs/skills.md explains the keys.

The names are the specifications'; S4's `tools_allowed` says the same as `tools`. What a step and a state have in common
is `Work`: something is done, by a model, a tool, another skill or a person.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from ozzie_server_ext.config.validation import like
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.toolmeta import Category, SideEffect, ToolMeta
from ozzie_server_ext.models.selector import ModelSelector

MAX_STEPS = 1000
MAX_INSTRUCTION_CHARS = 50_000
MAX_DESCRIPTION_CHARS = 1024
"""What providers take of a tool's."""
TYPES = ("simple", "workflow", "fsm")

_NAMED = "letters, digits, '_' and '-' only, at most 64, and begins with a letter or digit"
SkillName = Annotated[str, like(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", f"may hold {_NAMED}")]
StepId = Annotated[str, like(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", f"may hold {_NAMED}")]
VarName = Annotated[
    str,
    like(
        r"(?!steps$)[A-Za-z_][A-Za-z0-9_-]{0,63}",
        "may hold letters, digits, '_' and '-' only, at most 64, begins with a letter, and is not \"steps\"",
    ),
]
ToolName = Annotated[str, like(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", "must be the name of a tool")]
ModelName = Annotated[str, Field(min_length=1, max_length=200)]
Version = Annotated[int, Field(ge=0)] | Annotated[str, Field(min_length=1, max_length=40)]
Instruction = Annotated[str, Field(min_length=1, max_length=MAX_INSTRUCTION_CHARS)]
Short = Annotated[str, Field(max_length=200)]
Tools = tuple[ToolName, ...]
VarType: TypeAlias = Literal["string", "number", "integer", "boolean", "array", "object"]
_CRON = (
    r"\s*(@(hourly|daily|weekly|monthly|yearly)|[\d*/,-]+\s+[\d*/,-]+\s+[\d*/,L-]+\s+[\w*/,-]+\s+[\w*/,#-]+)\s*",
    'needs five fields (minute, hour, day, month, day of the week), as "0 9 * * 1-5"',
)

_OF_TYPE: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


def is_of(type_: VarType, value: Json) -> bool:
    """Whether the value is of that type; true and false are no numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _OF_TYPE[type_]) and (type_ == "boolean" or not isinstance(value, bool))


class _Part(BaseModel):
    # A key that nobody reads is a typing error more often than a wish: refuse it, with its line.
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), populate_by_name=True)


class Var(_Part):
    """An input variable. What is neither required nor has a default may be left out, and is null then."""

    description: Annotated[str, Field(max_length=500)] = ""
    type: VarType = "string"
    required: bool = False
    default: Json = None
    enum: tuple[Json, ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> "Var":
        if self.default is None:
            return self
        if self.required:
            raise ValueError("a variable with a default is not required: give one of the two")
        if not is_of(self.type, self.default):
            raise ValueError(f"the default must be of the type {self.type}")
        if self.enum and self.default not in self.enum:
            raise ValueError('the default must be one of "enum"')
        return self


class Triggers(_Part):
    """What starts a skill beside a person: the agent (delegation), words in a message, the clock, an event."""

    delegation: bool = True
    keywords: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = ()
    cron: Annotated[str, like(*_CRON)] | None = None
    event: str | None = None


class RetryPolicy(_Part):
    """`max_attempts` counts the first one."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    backoff_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 500
    upgrade_model_on_fail: bool = True


class ApprovalPolicy(_Part):
    """The policy's rules hold whatever this says: `human_in_loop` asks for every call that changes something
    besides; `none` and `rule_based` add nothing to them."""

    mode: Literal["none", "rule_based", "human_in_loop"] = "rule_based"


class Budget(_Part):
    """What one run may use up."""

    max_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    deadline_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class _Thinking(_Part):
    """What is said to, and of, whoever answers."""

    model: ModelName | None = None
    model_selector: ModelSelector | None = None
    tools: Tools | None = Field(default=None, validation_alias=AliasChoices("tools", "tools_allowed"))
    dangerous_tools: Tools = ()
    tool_policy: Literal["sequential", "parallel", "mixed"] | None = None
    max_iterations: Annotated[int, Field(ge=1, le=200)] | None = None
    output_model: dict[str, Json] | None = None
    retry_policy: RetryPolicy | None = None
    approval_policy: ApprovalPolicy | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_list_of_tools(cls, value: object) -> object:
        if isinstance(value, dict) and "tools" in value and "tools_allowed" in value:
            raise ValueError('give "tools" or "tools_allowed", not both')
        return value

    @model_validator(mode="after")
    def _one_model(self) -> Any:
        if self.model is not None and self.model_selector is not None:
            raise ValueError('give "model" or "model_selector", not both')
        return self


class Call(_Part):
    """A tool that is called without asking a model."""

    tool: ToolName
    args: dict[str, Json] = {}


class Ask(_Part):
    """A question to a person, whose answer is the output."""

    question: Instruction
    options: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = ()


class Approve(_Part):
    """A person's yes or no to go on. `show` is what it is about."""

    question: Instruction
    show: str = ""


class Wait(_Part):
    """Something outside, told with `ozzie tasks signal`."""

    event: SkillName
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


KINDS = ("instruction", "call", "skill", "ask", "approve", "wait")
"""What a step or a state may do: one of them."""


class Work(_Thinking):
    """What a step or a state does, and what has to hold then."""

    id: StepId
    title: Short = ""
    instruction: Instruction | None = None
    call: Call | None = None
    skill: SkillName | None = None
    with_: dict[str, Json] = Field(default={}, validation_alias="with")
    ask: Ask | None = None
    approve: Approve | None = None
    wait: Wait | None = None
    acceptance: Annotated[str, Field(min_length=1, max_length=4000)] | None = None
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of `KINDS` that it has."""
        return tuple(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def name(self) -> str:
        """How people read it."""
        return self.title or self.id


class Step(Work):
    """A step of a workflow. It begins once all that it `needs` has ended; with a `when` that does not hold it is
    skipped, and so it is where everything that it needs was. The failure of an `optional` one ends nothing."""

    needs: tuple[StepId, ...] = ()
    when: str | None = None
    optional: bool = False


class Move(_Part):
    """A transition: to another state, on an event, and where the condition holds. The first one that fits is taken."""

    to: StepId
    on: SkillName | None = None
    when: str | None = None


class State(Work):
    """A state of a state machine. In a `final` one nothing is left to do."""

    moves: tuple[Move, ...] = ()
    final: bool = False
    outcome: Literal["succeeded", "failed"] = "succeeded"


class _Skill(_Thinking):
    name: SkillName
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS)] = ""
    version: Version = 1
    risk_level: Literal["low", "medium", "high"] = "low"
    triggers: Triggers = Triggers()
    vars: dict[VarName, Var] = {}
    input_model: dict[str, Json] | None = None
    budget: Budget = Budget()

    @model_validator(mode="after")
    def _one_input(self) -> Any:
        if self.vars and self.input_model is not None:
            raise ValueError('give "vars" or "input_model", not both')
        return self


class SimpleSkill(_Skill):
    """One agent with an instruction, tools and limits of its own."""

    type: Literal["simple"] = "simple"
    instruction: Instruction | None = None
    acceptance: Annotated[str, Field(min_length=1, max_length=4000)] | None = None


class WorkflowSkill(_Skill):
    """Steps that run side by side where what they need allows it."""

    type: Literal["workflow"]
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MAX_STEPS)]
    max_parallel: Annotated[int, Field(ge=1, le=64)] = 8
    output: StepId | None = None
    """The step whose output is the result; without it, the last ones give theirs."""


class FsmSkill(_Skill):
    """One state at a time, and moves between them, backwards too: for what is asked, approved, or waited for."""

    type: Literal["fsm"]
    initial: StepId | None = None
    states: Annotated[tuple[State, ...], Field(min_length=1, max_length=MAX_STEPS)]
    max_moves: Annotated[int, Field(ge=1, le=10_000)] = 100

    @property
    def first(self) -> str:
        """Where it begins: in `initial`, or in the state that stands first."""
        return self.initial or self.states[0].id


Skill: TypeAlias = SimpleSkill | WorkflowSkill | FsmSkill


By: TypeAlias = Literal["name", "delegation"]
"""Who runs it: a person by its name, or an agent."""

FORMAL = frozenset(
    {
        Category.EXTERNAL_SEND,
        Category.PAYMENT,
        Category.DELETE,
        Category.CONFIG_CHANGE,
        Category.HOST_COMMAND,
        Category.LIVE_KERNEL,
    }
)


@dataclass(frozen=True, slots=True)
class Mode:
    """`reason` is a sentence for people."""

    mode: Literal["FREE", "GRAPH"]
    reason: str


def mode_of(skill: Skill, meta_of: Callable[[str], ToolMeta | None], by: By) -> Mode:
    """GRAPH where any of S4's conditions holds: effects that can't be undone, systems outside, a result that has to be
    audited or played again, a promise to be kept. FREE else."""
    if not isinstance(skill, SimpleSkill):
        return Mode("GRAPH", "It has steps of its own.")
    if by == "name":
        return Mode("GRAPH", "A person ran it by its name, so it is one to be looked at and run again.")
    if skill.dangerous_tools:
        return Mode("GRAPH", f"It may call {skill.dangerous_tools[0]}, which it asks for first.")
    for name in skill.tools or ():
        meta = meta_of(name)
        if meta is not None and (meta.side_effect is SideEffect.IRREVERSIBLE or meta.categories & FORMAL):
            return Mode("GRAPH", f"It may call {meta.name}, whose effect can't be undone or leaves this machine.")
    if skill.acceptance is not None or skill.output_model is not None:
        return Mode("GRAPH", "Its result is checked before it counts.")
    if skill.risk_level == "high":
        return Mode("GRAPH", "Its risk is high.")
    return Mode("FREE", "Nothing that it may do has to be checked, undone or played again.")
