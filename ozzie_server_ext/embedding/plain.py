"""A tool made from a plain async function: its arguments are the tool's, what it returns is the result."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.toolmeta import ToolMeta, ToolResult
from ozzie_server_ext.tools.base import FunctionTool, ToolContext

_CONTEXT = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ToolContext)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def plain_tool(function: Callable[..., Awaitable[Any]], meta: ToolMeta) -> FunctionTool:
    """The tool of that function, which may take a ToolContext first. What it returns has to be JSON, or a ToolResult.

    Raises InputError for a function that can't be one, Bug for a contract that can't hold.
    """
    name = getattr(function, "__name__", "the function")
    if not inspect.iscoroutinefunction(function):
        raise InputError(f"{name} has to be an async function.", code="tool.function")
    if not function.__doc__:
        raise InputError(f"{name} needs a docstring: it is what a model reads of the tool.", code="tool.function")
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    takes_context = bool(parameters) and parameters[0].annotation is ToolContext
    arguments = parameters[1:] if takes_context else parameters
    for argument in arguments:
        if argument.kind not in _NAMED or argument.annotation is inspect.Parameter.empty:
            raise InputError(f"{name}: the argument {argument.name} needs a name and a type.", code="tool.function")

    async def run(context: ToolContext, **args: Any) -> ToolResult:
        found = await (function(context, **args) if takes_context else function(**args))
        return found if isinstance(found, ToolResult) else ToolResult(ok=True, data=found)

    run.__doc__ = function.__doc__
    named = [argument.replace(kind=inspect.Parameter.KEYWORD_ONLY) for argument in arguments]
    run.__signature__ = inspect.Signature([_CONTEXT, *named])
    return FunctionTool(run, meta)
