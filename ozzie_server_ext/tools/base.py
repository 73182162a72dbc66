"""The tool interface, and tools made from functions: the schema comes from the signature."""

import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ozzie_server_ext.config.validation import Problem, explained
from ozzie_server_ext.domain.artifacts import Artifact, ArtifactKind
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.content import CLEAN, Content, Provenance
from ozzie_server_ext.domain.errors import Bug, Conflict, InputError, NotFound, OzzieError, PolicyError
from ozzie_server_ext.domain.events import PromptOption
from ozzie_server_ext.domain.ids import ArtifactId, TaskId
from ozzie_server_ext.domain.json import JsonObject, paths
from ozzie_server_ext.domain.toolmeta import (
    Category,
    Idempotency,
    Reached,
    RiskLevel,
    SideEffect,
    TargetKind,
    ToolMeta,
    ToolResult,
    ToolSpec,
)
from ozzie_server_ext.execution.host_commands import Children, NoChildren
from ozzie_server_ext.execution.runner import JobRunner, NoJobs
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.policy.decision import UNREAD, Caller, Reading
from ozzie_server_ext.policy.targets import CODES
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.tools.origins import Passages
from ozzie_server_ext.web.port import NoWeb, Web


class ToolUncertain(OzzieError):
    """A call was begun, and its effect is unknown. The turn must not go on as if it had happened or not."""

    code = "tool.uncertain"


def uncertain(calls: str, reason: str = "") -> ToolUncertain:
    """Return the error that ends a turn in which these calls may or may not have had their effect."""
    detail = f" {reason}" if reason else ""
    return ToolUncertain(
        f"{calls} may or may not have happened.{detail} Ozzie will not try again by itself.",
        hint="Find out whether it did; if not, run the cell again. Your message is kept.",
    )


class Delegates(Protocol):
    """Hands work of one task over to skills."""

    @property
    def waiting(self) -> int:
        """How many calls wait for a skill's result."""
        ...

    async def carry_out(
        self, skill: str, given: JsonObject, *, key: str, reading: Reading, provenance: Provenance
    ) -> ToolResult:
        """Return the skill's result. `reading` describes what the input is made from. A call with the same `key` is the
        same work and resumes after a crash. What the skill read is always added to `provenance`. Cancelling stops it.

        Raises ToolFailed if there is no result, PolicyError if no more work may be handed over.
        """
        ...


class NoDelegates:
    """For calls outside any task."""

    waiting = 0

    async def carry_out(
        self, skill: str, given: JsonObject, *, key: str, reading: Reading, provenance: Provenance
    ) -> ToolResult:
        raise PolicyError("Nothing can be handed over to a skill here.", code="skill.not_here")


_TOOL_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_MODEL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Accepted by all providers."""


class InvalidArguments(InputError):
    """The arguments of a call don't fit the tool's schema. The model reads the message and may correct itself."""

    code = "tool.arguments"

    def __init__(
        self, message: str, *, problems: Callable[[], Iterable[Problem]] = tuple, code: str | None = None
    ) -> None:
        """`problems` returns the problems of single arguments with their places; the model reads only the message."""
        super().__init__(message, code=code)
        self.problems = problems


class ToolFailed(InputError):
    """The tool ran and failed, for a reason that the model and the user should read."""

    code = "tool.failed"


def failure_of(error: OzzieError) -> ToolFailed:
    """Return the error of something that a tool uses as the tool's own failure."""
    return ToolFailed(" ".join(filter(None, [str(error), error.hint])), code=error.code)


class Unsettled(Conflict):
    """The tool began and can't say whether it finished. A person has to look; nothing is retried."""

    code = "tool.uncertain"


class ArtifactReader(Protocol):
    """The artifacts that a session may read."""

    async def open(self, artifact_id: ArtifactId) -> tuple[Artifact, bytes]:
        """Return an artifact and its content. Raises NotFound, also for another session's; Gone if it was erased."""
        ...

    async def under(self, beginning: str, kind: ArtifactKind) -> Sequence[Artifact]:
        """Return the newest version of each name with this beginning, erased ones too, sorted by name."""
        ...


class NoArtifacts:
    """For calls outside any session."""

    async def open(self, artifact_id: ArtifactId) -> tuple[Artifact, bytes]:
        raise NotFound("There are no artifacts here.")

    async def under(self, beginning: str, kind: ArtifactKind) -> Sequence[Artifact]:
        return ()


class SessionTasks(Protocol):
    """The tasks of the session of a call. By default there are none."""

    async def list(self, most: int, *, open_only: bool) -> tuple[Sequence[JsonObject], Content]:
        """Return the newest tasks, and the provenance of that."""
        return (), CLEAN

    async def show(self, task_id: TaskId) -> tuple[JsonObject, Content]:
        """Return a task with its steps and its answer, and the provenance of that. Raises NotFound, also for another
        session's."""
        raise NotFound("There are no tasks here.")

    async def cancel(self, task_id: TaskId, reason: str) -> None:
        """Stop a task; durable when it returns. Raises NotFound, or ToolFailed if it has ended or makes this call."""
        raise NotFound("There are no tasks here.")


class NoTasks(SessionTasks):
    """For calls outside any session."""


class Marks(Protocol):
    """Knows which files of the project were made from outside content; by default none."""

    async def below(self, path: str = "") -> Content:
        """Return the labels of a file, or of all files in a folder; by default of the whole project."""
        return CLEAN

    async def all(self) -> Mapping[str, Content]:
        """Return the labels of each marked file, by path in the project."""
        return {}


class NoMarks(Marks):
    """For callers that track no labels."""


class Live(Protocol):
    """Shows a running tool's progress and output; nothing of it is kept. Call it from the event loop's thread."""

    def progress(self, message: str) -> None:
        """Show how far the tool is, in a few words."""

    def output(self, text: str) -> None:
        """Show a piece of what the tool prints. The last lines are visible."""


class Silent(Live):
    """Shows nothing."""


class Toolbox(Protocol):
    """The tools that a turn is not offered yet; by default none."""

    def find(self, query: str, limit: int) -> Sequence["Tool"]:
        """Return at most `limit` tools, the best match first."""
        return ()


class NoTools(Toolbox):
    """For turns in which no tool was left out."""


async def _not_forbidden(args: JsonObject) -> str:
    return ""


class PersonPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What an MCP server wants to know from the person of a turn during a call: visible texts, in which the server's
    words are called its own. One option ends it: `SKIP`."""

    server: str
    question: str
    notes: tuple[str, ...]
    options: tuple[PromptOption, ...]


class PersonSaid(msgspec.Struct, frozen=True):
    """The option that a person chose, and what they wrote."""

    option: str
    text: str = ""


async def _nobody(prompt: PersonPrompt) -> PersonSaid | None:
    return None


class ToolContext(msgspec.Struct, frozen=True):
    """What a tool gets beside its arguments.

    `project` is the root of the user's project folder; `caller` is who the call is made for; `key` is the call's
    idempotency key, the same if it is repeated after a crash. `live` shows progress; `jobs` runs commands apart from
    the gateway; `children` remembers commands on the user's own machine; `web` reaches the public web; `jupyter` is the
    server around the gateway; `tasks` are those of the session. `reading` describes what the call is made from; a tool
    adds what it reads from outside to `provenance`; `marks` knows which project files are from outside. `forbids`
    returns why the rules deny the same tool with other arguments (for redirects), or "". `passages` is what the model
    has read, if that can be told. `toolbox` has the tools not offered to the model; `delegates` hands work over to
    skills. `ask_person` asks the person of the turn for a server; it returns None if nobody decides. `may_call` says
    which tools a skill has, `asks_first` which of them always ask a person. `is_elsewhere`: the project is not the
    gateway's own, so questions name it. `by_message`: a message of the user's makes the call, and no model.
    """

    project: Path
    clock: Clock
    caller: Caller = msgspec.field(default_factory=Caller)
    artifacts: ArtifactReader = msgspec.field(default_factory=NoArtifacts)
    key: str = ""
    live: Live = msgspec.field(default_factory=Silent)
    jobs: JobRunner = msgspec.field(default_factory=NoJobs)
    children: Children = msgspec.field(default_factory=NoChildren)
    reading: Reading = UNREAD
    provenance: Provenance = msgspec.field(default_factory=Provenance)
    marks: Marks = msgspec.field(default_factory=NoMarks)
    web: Web = msgspec.field(default_factory=NoWeb)
    jupyter: Jupyter = msgspec.field(default_factory=Jupyter)
    tasks: SessionTasks = msgspec.field(default_factory=NoTasks)
    toolbox: Toolbox = msgspec.field(default_factory=NoTools)
    delegates: Delegates = msgspec.field(default_factory=NoDelegates)
    forbids: Callable[[JsonObject], Awaitable[str]] = _not_forbidden
    passages: Passages | None = None
    ask_person: Callable[[PersonPrompt], Awaitable[PersonSaid | None]] = _nobody
    may_call: Callable[[ToolMeta], bool] = lambda _: True
    asks_first: Callable[[ToolMeta], bool] = lambda _: False
    is_elsewhere: bool = False
    by_message: bool = False


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """Content that a call replaces, with the artifact name and media type under which it is kept."""

    name: str
    mime: str
    content: bytes


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a person sees before a call is made: a question, in which only visible arguments come from the model; the
    change, as a diff or a text; and how to undo it."""

    sentence: str
    proof: str = ""
    shown: Literal["diff", "text", ""] = ""
    undo: str = ""


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that a question offers, with a line of help."""

    label: str
    help: str = ""


class ModelQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question from the model to a person. `is_free`: an answer in their own words is possible."""

    text: str
    choices: tuple[Offered, ...] = ()
    is_free: bool = True


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would do, found without doing any of it, and everything needed to do exactly that.

    `effect` is recorded before the run: the targets, and the hashes of what is replaced and written. `writes` are the
    full paths of the files. `before` is what the call replaces; it is kept. `preview` makes what a person is asked; it
    is called only if somebody is there. `work` is the tool's own data. `nothing` is the result if there is nothing to
    do. A call with a `question` never runs: a person's answer is its result. If the call does more than its contract
    says, `categories` name it, `reaches` whom or what it reaches beyond its arguments, and `content` what it is made
    from beyond the conversation; it is then decided again.
    """

    args: JsonObject
    effect: JsonObject | None = None
    writes: tuple[str, ...] = ()
    before: Before | None = None
    preview: Callable[[], Preview] | None = None
    work: Any = None
    nothing: ToolResult | None = None
    question: ModelQuestion | None = None
    categories: frozenset[Category] = frozenset()
    reaches: tuple[Reached, ...] = ()
    content: Content = CLEAN

    def of(self, meta: ToolMeta) -> ToolMeta:
        """Return the contract that holds for this call."""
        return replace(meta, categories=meta.categories | self.categories, reaches=self.reaches)


class Tool(Protocol):
    """Anything a model can call. Only the broker calls `run` and `happened`; `plan` is also called to draw a card."""

    @property
    def meta(self) -> ToolMeta: ...

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def waits(self) -> bool:
        """Whether its run ever awaits. One that doesn't can't be stopped and takes almost no time."""
        ...

    @property
    def plan_waits(self) -> bool:
        """The same of its plan."""
        ...

    def check(self, args: JsonObject) -> JsonObject:
        """Return the arguments with defaults filled in. Raises InvalidArguments."""
        ...

    async def plan(self, args: JsonObject, context: ToolContext) -> Plan:
        """Return what a call would do, without any effect. Raises ToolFailed or another OzzieError."""
        ...

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        """Carry out the plan and nothing else. Raises Unsettled if the effect is unknown, ToolFailed or another
        OzzieError if there was none; anything else is a bug of the tool."""
        ...

    async def happened(self, effect: JsonObject, context: ToolContext) -> bool | None:
        """Return whether a run with this effect, interrupted by a crash, was done; None if that can't be known."""
        ...


read_only = partial(ToolMeta, side_effect=SideEffect.NONE, risk_level=RiskLevel.LOW, idempotency=Idempotency.SUPPORTED)
"""Make the contract of a tool without effects."""
file_change = partial(
    ToolMeta,
    side_effect=SideEffect.REVERSIBLE,
    risk_level=RiskLevel.MEDIUM,
    idempotency=Idempotency.NOT_SUPPORTED,
)
"""Make the contract of a tool that changes files of the project."""


class FunctionTool:
    """A tool made from a function `f(context, *, name: type = default, …) -> ToolResult`, async or plain; a plain one
    runs at once without awaiting.

    The first paragraph of its docstring is the description; parameters are described by their annotations
    (`Annotated[…, Field(description=…)]`). `meta.version` is filled in here: a hash of the contract, so that a changed
    description, schema or promise is a new version.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        meta: ToolMeta,
        *,
        preview: Callable[[JsonObject], Preview] | None = None,
        reaches: Callable[[JsonObject], Awaitable[Iterable[Reached]]] | None = None,
    ) -> None:
        """`preview` makes the question about a call with these arguments; by default the arguments are shown. `reaches`
        returns whom or what such a call reaches beyond what they name, without any effect; it raises ToolFailed if that
        can't be found out, and the call then fails.

        Raises Bug for an invalid contract: a name that providers refuse, a target that is no argument.
        """
        self._function = function
        self._preview = preview
        self._reaches = reaches
        self.waits = inspect.iscoroutinefunction(function)
        self.plan_waits = reaches is not None
        self._model = _arguments_model(function, meta.name)
        schema = self._model.model_json_schema()
        parameters: JsonObject = {
            "type": "object",
            "properties": {
                key: _plain(value, schema.get("$defs", {})) for key, value in schema.get("properties", {}).items()
            },
            "required": schema.get("required", []),
            "additionalProperties": False,
        }
        _expect_sound(meta, self._model)
        description = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        self.spec = ToolSpec(name=meta.name, description=description, parameters=parameters)
        self.meta = replace(meta, version=_version(meta, self.spec))

    def check(self, args: JsonObject) -> JsonObject:
        try:
            return self._model.model_validate(args).model_dump(mode="json")
        except ValidationError as error:
            details = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg'][0].lower()}{item['msg'][1:]}"
                for item in error.errors(include_url=False)[:5]
            )
            raise InvalidArguments(
                f"The arguments of {self.meta.name} do not fit: {details}.",
                problems=partial(_problems, error, self._model, args),
            ) from None

    async def plan(self, args: JsonObject, context: ToolContext) -> Plan:
        preview = partial(self._preview, args) if self._preview else None
        return Plan(args=args, preview=preview, reaches=tuple(await self._reaches(args)) if self._reaches else ())

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        result = self._function(context, **plan.args)
        return await result if self.waits else result

    async def happened(self, effect: JsonObject, context: ToolContext) -> bool | None:
        return None


class EffectTool(FunctionTool):
    """A tool that plans its effect first. `plan(context, *, name: type, …) -> Plan` has the contract's signature and
    docstring; `run(context, plan)` carries it out; `happened(context, effect)` says after a crash whether it did."""

    def __init__(
        self,
        plan: Callable[..., Awaitable[Plan]],
        run: Callable[[ToolContext, Plan], Awaitable[ToolResult]],
        meta: ToolMeta,
        *,
        happened: Callable[[ToolContext, JsonObject], Awaitable[bool | None]] | None = None,
    ) -> None:
        """Without `happened`, nobody can tell whether an interrupted call was done."""
        super().__init__(plan, meta)
        self.plan_waits = True
        self._plan = plan
        self._run = run
        self._happened = happened

    async def plan(self, args: JsonObject, context: ToolContext) -> Plan:
        return await self._plan(context, **args)

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        return await self._run(context, plan)

    async def happened(self, effect: JsonObject, context: ToolContext) -> bool | None:
        return await self._happened(context, effect) if self._happened else None


def _arguments_model(function: Callable[..., Any], name: str) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (parameter.annotation, default)
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


def _problems(error: ValidationError, arguments: type[BaseModel], args: JsonObject) -> Iterator[Problem]:
    return explained(error, arguments, set(paths(args)), key="argument")


def _expect_sound(meta: ToolMeta, arguments: type[BaseModel]) -> None:
    if not _TOOL_ID.fullmatch(meta.tool_id):
        raise Bug(f"{meta.tool_id!r} is no tool id: it must be namespace.name.")
    for name in (meta.name, *meta.further_names):
        if not _MODEL_NAME.fullmatch(name):
            raise Bug(f"{name!r} can't be the name of {meta.tool_id}: providers take letters, digits, _ and - only.")
    for target in meta.targets:
        if target.argument not in arguments.model_fields:
            raise Bug(f"{meta.tool_id} has no argument {target.argument}, which it names as a target.")
        if (target.kind is TargetKind.AMOUNT) is not bool(target.currency):
            raise Bug(f"{meta.tool_id}: an amount has a currency, and nothing else has one ({target.argument}).")
        if target.currency and target.currency not in CODES and target.currency not in arguments.model_fields:
            raise Bug(f"{meta.tool_id}: {target.currency} is neither a currency nor an argument.")


def _version(meta: ToolMeta, spec: ToolSpec) -> str:
    promise = {**encode(meta), "version": "", "categories": sorted(meta.categories), "requires": sorted(meta.requires)}
    # Later fields count only if set: a tool without them keeps its version, which stands in logs and binds approvals.
    optional = (
        *("tags", "examples", "for_skills", "delegates_to", "requires", "reaches", "carries", "own_data"),
        *("is_unclassified", "for_clients", "typed", "for_messages"),
    )
    promise = {key: value for key, value in promise.items() if value or key not in optional}
    promise.pop("overview")  # it says what others may be told, nothing of the tool's effect
    promise["targets"] = [
        {key: value for key, value in encode(each).items() if value or key != "currency"} for each in meta.targets
    ]
    return hashlib.sha256(canonical_bytes([promise, spec.description, spec.parameters])).hexdigest()[:12]


def _plain(schema: Any, definitions: Mapping[str, Any], within: tuple[str, ...] = ()) -> Any:
    """Return a schema without titles, since pydantic repeats every field name there and a model pays for the tokens,
    and with references replaced, since not every provider follows them. Raises Bug for a recursive schema."""
    if isinstance(schema, list):
        return [_plain(item, definitions, within) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if name in within:
            raise Bug(f"{name} refers to itself, so it can't be written out for a model.")
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _plain({**definitions[name], **beside}, definitions, (*within, name))
    return {key: _plain(value, definitions, within) for key, value in schema.items() if not _is_title(key, value)}


def _is_title(key: str, value: Any) -> bool:
    """An argument may itself be named "title"."""
    return key == "title" and isinstance(value, str)
