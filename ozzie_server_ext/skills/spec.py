"""The format of a skill file. docs/skills.md explains the keys.

The names are those of SPEC.md; `tools_allowed` means the same as `tools`. Steps and states share `Work`: a model, a
tool, another skill or a person does something.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from ozzie_server_ext.config.validation import like
from ozzie_server_ext.domain.json import Json, JsonType, is_of
from ozzie_server_ext.domain.toolmeta import Category, SideEffect, ToolMeta
from ozzie_server_ext.models.selector import ModelSelector

MAX_STEPS = 1000
MAX_INSTRUCTION_CHARS = 50_000
MAX_DESCRIPTION_CHARS = 1024
"""What providers accept for a tool."""

_NAMED = "may hold letters, digits, '_' and '-' only, at most 64, and begins with a letter or digit"
SkillName = Annotated[str, like(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", _NAMED)]
StepId = Annotated[str, like(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", _NAMED)]
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
_CRON = (
    r"\s*(@(hourly|daily|weekly|monthly|yearly)|[\d*/,-]+\s+[\d*/,-]+\s+[\d*/,L-]+\s+[\w*/,-]+\s+[\w*/,#-]+)\s*",
    'needs five fields (minute, hour, day, month, day of the week), as "0 9 * * 1-5"',
)


class _Part(BaseModel):
    # An unknown key is more often a typo than a wish: refuse it, with its line.
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), populate_by_name=True)


class Var(_Part):
    """An input variable. One that is neither required nor has a default may be omitted and is then null."""

    description: Annotated[str, Field(max_length=500)] = ""
    type: JsonType = "string"
    required: bool = False
    default: Json = None
    enum: tuple[Json, ...] = ()

    @model_validator(mode="after")
    def _check_default(self) -> "Var":
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
    """What starts a skill besides a person: delegation by the agent, words in a message, the clock, an event."""

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
    """Adds to the policy's rules: `human_in_loop` asks for every change; `none` and `rule_based` add nothing."""

    mode: Literal["none", "rule_based", "human_in_loop"] = "rule_based"


class Budget(_Part):
    """The limits of one run."""

    max_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    deadline_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class _Thinking(_Part):
    """Keys about the model that answers."""

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
    """A direct tool call, without a model."""

    tool: ToolName
    args: dict[str, Json] = {}


class Ask(_Part):
    """A question to a person; the answer is the output."""

    question: Instruction
    options: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = ()


class Approve(_Part):
    """A person's yes or no. `show` is what it is about."""

    question: Instruction
    show: str = ""


class Wait(_Part):
    """An external event, sent with `ozzie tasks signal`."""

    event: SkillName
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


KINDS = ("instruction", "call", "skill", "ask", "approve", "wait")
"""The kinds of work; a step or state has one."""


class Work(_Thinking):
    """The work of a step or state, and the condition for its result."""

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
        return tuple(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def name(self) -> str:
        return self.title or self.id


class Step(Work):
    """A step of a workflow. It begins once all its `needs` have ended. It is skipped if its `when` is false or all its
    needs were skipped. The failure of an `optional` step does not end the run."""

    needs: tuple[StepId, ...] = ()
    when: str | None = None
    optional: bool = False


class Move(_Part):
    """A transition to another state on an event, if the condition holds. The first that fits is taken."""

    to: StepId
    on: SkillName | None = None
    when: str | None = None


class State(Work):
    """A state of a state machine. A `final` one ends the run."""

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
    """One agent with its own instruction, tools and limits."""

    type: Literal["simple"] = "simple"
    instruction: Instruction | None = None
    acceptance: Annotated[str, Field(min_length=1, max_length=4000)] | None = None


class WorkflowSkill(_Skill):
    """Steps that run in parallel as far as their needs allow."""

    type: Literal["workflow"]
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MAX_STEPS)]
    max_parallel: Annotated[int, Field(ge=1, le=64)] = 8
    output: StepId | None = None
    """The step whose output is the result; by default the last steps'."""


class FsmSkill(_Skill):
    """One state at a time, with moves between them, backwards too: for questions, approvals and waiting."""

    type: Literal["fsm"]
    initial: StepId | None = None
    states: Annotated[tuple[State, ...], Field(min_length=1, max_length=MAX_STEPS)]
    max_moves: Annotated[int, Field(ge=1, le=10_000)] = 100

    @property
    def first(self) -> str:
        """The start: `initial`, or the first state."""
        return self.initial or self.states[0].id


Skill: TypeAlias = SimpleSkill | WorkflowSkill | FsmSkill


By: TypeAlias = Literal["name", "delegation"]
"""Who runs a skill: a person by its name, or an agent."""

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


class Mode(msgspec.Struct, frozen=True):
    """How a skill runs; `reason` is a sentence for people."""

    mode: Literal["FREE", "GRAPH"]
    reason: str


def mode_of(skill: Skill, meta_of: Callable[[str], ToolMeta | None], by: By) -> Mode:
    """Return GRAPH if SPEC.md requires it: irreversible effects, external systems, a result that is audited or
    replayed, a promise to keep. Otherwise FREE."""
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
