"""What a tool is, and how one is made from a function: the schema comes from its signature."""

import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from ozzie_server_ext.domain.ids import ArtifactId
from ozzie_server_ext.domain.json import JsonObject, paths
from ozzie_server_ext.domain.toolmeta import Category, ToolMeta, ToolResult, ToolSpec
from ozzie_server_ext.execution.host_commands import Children, NoChildren
from ozzie_server_ext.execution.runner import JobRunner, NoJobs
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.policy.decision import UNREAD, Caller, Reading
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.web.port import NoWeb, Web


class ToolUncertain(OzzieError):
    """A call was begun, and whether it did what it was for is not known. The turn must not go on as if it were."""

    code = "tool.uncertain"


def uncertain(calls: str, reason: str = "") -> ToolUncertain:
    """What ends a turn in which these calls may or may not have done something."""
    said = f" {reason}" if reason else ""
    return ToolUncertain(
        f"{calls} may or may not have happened.{said} Ozzie will not try again by itself.",
        hint="Find out whether it did; where it did not, run the cell again. Your message is kept.",
    )


class Delegates(Protocol):
    """Those of one task."""

    @property
    def waiting(self) -> int:
        """How many calls wait for what they have handed over."""
        ...

    async def carry_out(
        self, skill: str, given: JsonObject, *, key: str, reading: Reading, provenance: Provenance
    ) -> ToolResult:
        """Return what the skill gives. `reading` is what the input is made from; with the same `key`, it is the same
        work, which goes on where a crash cut it off. What the skill read is added to `provenance`, whatever it comes
        to. Cancelling stops it.

        Raises ToolFailed if it came to nothing, PolicyError if no more may be handed over.
        """
        ...


class NoDelegates:
    """Of what runs outside of any task."""

    waiting = 0

    async def carry_out(
        self, skill: str, given: JsonObject, *, key: str, reading: Reading, provenance: Provenance
    ) -> ToolResult:
        raise PolicyError("Nothing can be handed over to a skill here.", code="skill.not_here")


_TOOL_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_MODEL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What all providers accept."""


class InvalidArguments(InputError):
    """The arguments of a call do not fit the tool's schema. The model reads the message and may correct itself."""

    code = "tool.arguments"

    def __init__(
        self, message: str, *, problems: Callable[[], Iterable[Problem]] = tuple, code: str | None = None
    ) -> None:
        """`problems` tells those of single arguments, with their places; a model reads the message alone."""
        super().__init__(message, code=code)
        self.problems = problems


class ToolFailed(InputError):
    """The tool ran and could not do it, for a reason that the model and the user should read."""

    code = "tool.failed"


class Unsettled(Conflict):
    """The tool began, and can't say whether it did it. A person has to look; nothing is tried again."""

    code = "tool.uncertain"


class ArtifactReader(Protocol):
    """The artifacts that a session may read."""

    async def open(self, artifact_id: ArtifactId) -> tuple[Artifact, bytes]:
        """An artifact with its content. Raises NotFound, also for one of another session; Gone where it was erased."""
        ...

    async def under(self, beginning: str, kind: ArtifactKind) -> Sequence[Artifact]:
        """The newest version of each name that begins so, also of those that were erased, in the order of names."""
        ...


class NoArtifacts:
    """Of what runs outside of any session."""

    async def open(self, artifact_id: ArtifactId) -> tuple[Artifact, bytes]:
        raise NotFound("There are no artifacts here.")

    async def under(self, beginning: str, kind: ArtifactKind) -> Sequence[Artifact]:
        return ()


class Marks(Protocol):
    """Which files of the project were made from content from outside."""

    async def below(self, path: str = "") -> Content:
        """What a file is made from, or all files of a folder; of the whole project for none."""
        ...

    async def all(self) -> Mapping[str, Content]:
        """What each marked file is made from, by their paths in the project."""
        ...


class NoMarks:
    """Where nobody remembers that."""

    async def below(self, path: str = "") -> Content:
        return CLEAN

    async def all(self) -> Mapping[str, Content]:
        return {}


class Live(Protocol):
    """Where a tool says something while it runs; to be called from the loop's thread. Nothing of it is kept."""

    def progress(self, said: str) -> None:
        """How far it is, in a few words."""
        ...

    def output(self, text: str) -> None:
        """What it prints, piece by piece. The last lines are shown."""
        ...


class Silent:
    """Where nobody looks."""

    def progress(self, said: str) -> None: ...

    def output(self, text: str) -> None: ...


class Toolbox(Protocol):
    """The tools of a turn that it is not offered yet."""

    def find(self, query: str, limit: int) -> Sequence["Tool"]:
        """At most so many, what fits best first."""
        ...


class NoTools:
    """Where nothing is left out, or nobody is offered anything."""

    def find(self, query: str, limit: int) -> Sequence["Tool"]:
        return ()


async def _nothing(args: JsonObject) -> str:
    return ""


def _always(meta: ToolMeta) -> bool:
    return True


def _never(meta: ToolMeta) -> bool:
    return False


class ToolContext(msgspec.Struct, frozen=True):
    """What a tool is given beside its arguments. `project` is the root of the user's project folder, `caller` whom
    the call is made for, `key` the call's idempotency key: the same where it is made again after a crash. `live` is
    for what it says meanwhile; `jobs` runs commands apart from the gateway, `children` remembers those that run on
    the user's own machine; `web` reaches the public web; `jupyter` is the server around the gateway. `reading` is
    what the call is made from; a tool adds to `provenance` what it reads from outside, as it reads it; `marks`
    knows which files of the project are from outside. `forbids` tells why the rules deny a call of the same tool
    with other arguments, for one that is led on; empty where they do not. `toolbox` has the tools that were left
    out of what the model is offered, `delegates` hands work over to skills. `may_call` tells the tools of a skill,
    `asks_first` those of them that a person is asked for, whatever the rules allow."""

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
    toolbox: Toolbox = msgspec.field(default_factory=NoTools)
    delegates: Delegates = msgspec.field(default_factory=NoDelegates)
    forbids: Callable[[JsonObject], Awaitable[str]] = _nothing
    may_call: Callable[[ToolMeta], bool] = _always
    asks_first: Callable[[ToolMeta], bool] = _never


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """Content that a call replaces, under the name and the media type by which a person finds it among artifacts."""

    name: str
    mime: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a person is shown before a call is made: a question, of which nothing comes from the model but
    arguments that were made visible; what would change, as a diff or a text; and how it can be taken back."""

    sentence: str
    proof: str = ""
    shown: Literal["diff", "text", ""] = ""
    undo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """An answer that a question offers, with a line about it."""

    label: str
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """What a person is asked by the model. Free: it may be answered in words of one's own."""

    text: str
    choices: tuple[Offered, ...] = ()
    is_free: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a call would do, found out without doing any of it, and all that it takes to do exactly that.

    `effect` is the effect snapshot, recorded before the run: what is acted on, with the hashes of what
    is replaced and what is written; `writes` are the files, with their whole paths. `before` is what the call
    replaces; it is kept. `preview` is what a person is asked by; it is made where somebody is. `work` is the tool's
    own. Where there is nothing to do, `nothing` is the result. Of a call with a `question`, what a person answers to it
    is the result: it is put, and never run. Where it came out that the call does more than its contract says,
    `categories` tell it, and `content` where it is made from more than stands in the conversation: it is decided again.
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
    content: Content = CLEAN

    def of(self, meta: ToolMeta) -> ToolMeta:
        """The contract as it holds for this call."""
        return replace(meta, categories=meta.categories | self.categories) if self.categories else meta


class Tool(Protocol):
    """Anything that a model can call. Only the broker calls `plan`, `run` and `happened`."""

    @property
    def meta(self) -> ToolMeta: ...

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def waits(self) -> bool:
        """Whether it ever waits for anything. What does not can't be stopped, and takes no time to speak of."""
        ...

    def check(self, args: JsonObject) -> JsonObject:
        """The arguments with defaults filled in.

        Raises InvalidArguments.
        """
        ...

    async def plan(self, args: JsonObject, context: ToolContext) -> Plan:
        """What a call with these arguments, which `check` accepted, would do. It has no effect, and shows the model
        nothing. Raises ToolFailed or another OzzieError."""
        ...

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        """Do what the plan says, and nothing else. Raises Unsettled where it can't say whether it did; ToolFailed or
        another OzzieError where it did nothing; anything else is a bug of the tool."""
        ...

    async def happened(self, effect: JsonObject, context: ToolContext) -> bool | None:
        """Whether a run with that effect, which a crash cut off, was done; None where that can't be known."""
        ...


class FunctionTool:
    """A tool made from a function `f(context, *, name: type = default, …) -> ToolResult`: an async one, or a plain one,
    which waits for nothing and is done at once.

    The first paragraph of its docstring is the description; a parameter's comes from its annotation
    (`Annotated[…, Field(description=…)]`). The version of `meta` is filled in here: it is the contract's own hash, so
    that a changed description, schema or promise is another version.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        meta: ToolMeta,
        *,
        preview: Callable[[JsonObject], Preview] | None = None,
    ) -> None:
        """`preview` is what a person is asked by for a call with these arguments; without it, they are shown as they
        are. Raises Bug for a contract that can't hold: a name that providers don't take, a target that is no argument.
        """
        self._function = function
        self._preview = preview
        self.waits = inspect.iscoroutinefunction(function)
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
            said = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg'][0].lower()}{item['msg'][1:]}"
                for item in error.errors(include_url=False)[:5]
            )
            raise InvalidArguments(
                f"The arguments of {self.meta.name} do not fit: {said}.",
                problems=partial(_problems, error, self._model, args),
            ) from None

    async def plan(self, args: JsonObject, context: ToolContext) -> Plan:
        return Plan(args=args, preview=partial(self._preview, args) if self._preview else None)

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        result = self._function(context, **plan.args)
        return await result if self.waits else result

    async def happened(self, effect: JsonObject, context: ToolContext) -> bool | None:
        return None


class EffectTool(FunctionTool):
    """A tool that says what it will do before it does it. `plan(context, *, name: type, …) -> Plan` finds that out, and
    has the signature and the docstring of the contract; `run(context, plan)` does it; `happened(context, effect)` tells
    after a crash whether it did."""

    def __init__(
        self,
        plan: Callable[..., Awaitable[Plan]],
        run: Callable[[ToolContext, Plan], Awaitable[ToolResult]],
        meta: ToolMeta,
        *,
        happened: Callable[[ToolContext, JsonObject], Awaitable[bool | None]],
    ) -> None:
        super().__init__(plan, meta)
        self._plan = plan
        self._run = run
        self._happened = happened

    async def plan(self, args: JsonObject, context: ToolContext) -> Plan:
        return await self._plan(context, **args)

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        return await self._run(context, plan)

    async def happened(self, effect: JsonObject, context: ToolContext) -> bool | None:
        return await self._happened(context, effect)


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
        raise Bug(f"{meta.tool_id!r} is no id of a tool: it has to be namespace.name.")
    for name in (meta.name, *meta.further_names):
        if not _MODEL_NAME.fullmatch(name):
            raise Bug(f"{name!r} can't be the name of {meta.tool_id}: providers take letters, digits, _ and - only.")
    for target in meta.targets:
        if target.argument not in arguments.model_fields:
            raise Bug(f"{meta.tool_id} has no argument {target.argument}, which it names as a target.")


def _version(meta: ToolMeta, spec: ToolSpec) -> str:
    promise = {**encode(meta), "version": "", "categories": sorted(meta.categories)}
    # Those that have none keep the version that they had before there were any: it stands in logs, and binds approvals.
    unsaid = ("tags", "examples", "for_skills", "delegates_to")
    promise = {key: value for key, value in promise.items() if value or key not in unsaid}
    return hashlib.sha256(canonical_bytes([promise, spec.description, spec.parameters])).hexdigest()[:12]


def _plain(schema: Any, definitions: Mapping[str, Any], within: tuple[str, ...] = ()) -> Any:
    """Without titles: pydantic names every field a second time, and a model pays for each of those tokens. What it
    refers to stands in its place, as not every provider follows a reference. Raises Bug where that has no end."""
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
    """An argument may be called so."""
    return key == "title" and isinstance(value, str)
