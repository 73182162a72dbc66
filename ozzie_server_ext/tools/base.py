"""What a tool is, and how one is made from a function: the schema comes from its signature (TL-1)."""

import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ozzie_server_ext.domain.artifacts import Artifact
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import Bug, InputError, NotFound
from ozzie_server_ext.domain.ids import ArtifactId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolMeta, ToolResult, ToolSpec
from ozzie_server_ext.policy.action import Caller
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes

_TOOL_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_MODEL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""TL-10: what all providers accept."""


class InvalidArguments(InputError):
    """The arguments of a call do not fit the tool's schema. The model reads the message and may correct itself."""

    code = "tool.arguments"


class ToolFailed(InputError):
    """The tool ran and could not do it, for a reason that the model and the user should read."""

    code = "tool.failed"


class ArtifactReader(Protocol):
    """The artifacts that a session may read."""

    async def open(self, artifact_id: ArtifactId) -> tuple[Artifact, bytes]:
        """An artifact with its content. Raises NotFound, also for one of another session."""
        ...


class NoArtifacts:
    """Of what runs outside of any session."""

    async def open(self, artifact_id: ArtifactId) -> tuple[Artifact, bytes]:
        raise NotFound("There are no artifacts here.")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool is given beside its arguments. `project` is the root of the user's project folder, `caller` whom the
    call is made for."""

    project: Path
    clock: Clock
    caller: Caller = field(default_factory=Caller)
    artifacts: ArtifactReader = field(default_factory=NoArtifacts)


class Tool(Protocol):
    """Anything that a model can call. Only the broker calls `run`, with arguments that `check` accepted."""

    @property
    def meta(self) -> ToolMeta: ...

    @property
    def spec(self) -> ToolSpec: ...

    def check(self, args: JsonObject) -> JsonObject:
        """The arguments with defaults filled in.

        Raises InvalidArguments.
        """
        ...

    async def run(self, args: JsonObject, context: ToolContext) -> ToolResult:
        """Do it. Raises ToolFailed or another OzzieError; anything else is a bug of the tool."""
        ...


class FunctionTool:
    """A tool made from an async function `f(context, *, name: type = default, …) -> ToolResult`.

    The first paragraph of its docstring is the description; a parameter's comes from its annotation
    (`Annotated[…, Field(description=…)]`). The version of `meta` is filled in here: it is the contract's own hash, so
    that a changed description, schema or promise is another version (S4 §8.5.2).
    """

    def __init__(self, function: Callable[..., Awaitable[ToolResult]], meta: ToolMeta) -> None:
        """Raises Bug for a contract that can't hold: a name that providers don't take, a target that is no argument."""
        self._function = function
        self._model = _arguments_model(function, meta.name)
        schema = self._model.model_json_schema()
        parameters: JsonObject = {
            "type": "object",
            "properties": {key: _without_titles(value) for key, value in schema.get("properties", {}).items()},
            "required": schema.get("required", []),
            "additionalProperties": False,
        }
        _expect_sound(meta, self._model)
        description = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        self.spec = ToolSpec(name=meta.name, description=description, parameters=parameters)
        self.meta = replace(meta, version=_version(meta, self.spec))

    def check(self, args: JsonObject) -> JsonObject:
        try:
            return self._model.model_validate(args).model_dump()
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg'][0].lower()}{item['msg'][1:]}"
                for item in error.errors(include_url=False)[:5]
            )
            raise InvalidArguments(f"The arguments of {self.meta.name} do not fit: {problems}.") from None

    async def run(self, args: JsonObject, context: ToolContext) -> ToolResult:
        return await self._function(context, **args)


def _arguments_model(function: Callable[..., Any], name: str) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (parameter.annotation, default)
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


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
    return hashlib.sha256(canonical_bytes([promise, spec.description, spec.parameters])).hexdigest()[:12]


def _without_titles(schema: Any) -> Any:
    """Pydantic names every field a second time; a model pays for each of those tokens."""
    if isinstance(schema, dict):
        return {key: _without_titles(value) for key, value in schema.items() if key != "title"}
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema
