"""What a tool is, and how one is made from a function: the schema comes from its signature (TL-1)."""

import hashlib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult, ToolSpec
from ozzie_server_ext.protocol.jsontext import canonical_bytes


class InvalidArguments(InputError):
    """The arguments of a call do not fit the tool's schema. The model reads the message and may correct itself."""

    code = "tool.arguments"


class ToolFailed(InputError):
    """The tool ran and could not do it, for a reason that the model and the user should read."""

    code = "tool.failed"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool is given beside its arguments. `project` is the root of the user's project folder."""

    project: Path
    clock: Clock


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
    (`Annotated[…, Field(description=…)]`).
    """

    def __init__(
        self,
        function: Callable[..., Awaitable[ToolResult]],
        *,
        tool_id: str,
        name: str,
        side_effect: SideEffect,
        risk_level: RiskLevel,
        timeout_s: float,
        idempotency: Idempotency,
        further_names: tuple[str, ...] = (),
        max_inline_chars: int = 4000,
    ) -> None:
        self._function = function
        self._model = _arguments_model(function, name)
        schema = self._model.model_json_schema()
        description = inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        parameters: JsonObject = {
            "type": "object",
            "properties": {key: _without_titles(value) for key, value in schema.get("properties", {}).items()},
            "required": schema.get("required", []),
            "additionalProperties": False,
        }
        self.spec = ToolSpec(name=name, description=description, parameters=parameters)
        self.meta = ToolMeta(
            tool_id=tool_id,
            name=name,
            # The contract's own hash: a changed description or schema is another version (S4 §8.5.2).
            version=hashlib.sha256(canonical_bytes([tool_id, name, description, parameters])).hexdigest()[:12],
            side_effect=side_effect,
            risk_level=risk_level,
            timeout_s=timeout_s,
            idempotency=idempotency,
            further_names=further_names,
            max_inline_chars=max_inline_chars,
        )

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


def _without_titles(schema: Any) -> Any:
    """Pydantic names every field a second time; a model pays for each of those tokens."""
    if isinstance(schema, dict):
        return {key: _without_titles(value) for key, value in schema.items() if key != "title"}
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema
