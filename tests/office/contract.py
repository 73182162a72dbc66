"""The contracts of the services' tools, and what their functions share.

Targets are arguments that name an address, an account, an amount, a person, a channel, or an object by its id or title.
Words of a search and names of folders are none.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import (
    Category,
    Idempotency,
    Reached,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.tools.base import FunctionTool, ToolFailed

Offered = tuple[FunctionTool, ...]
"""The tools of one service."""


def looks(service: str, function: Callable[..., ToolResult], **more: Any) -> FunctionTool:
    """A tool that only reads."""
    return _tool(service, function, side_effect=SideEffect.NONE, risk_level=RiskLevel.LOW, **more)


def changes(
    service: str,
    function: Callable[..., ToolResult],
    *categories: Category,
    reaches: Callable[[JsonObject], Iterable[Reached]] = lambda args: (),
    **more: Any,
) -> FunctionTool:
    """A tool that changes what can be put back. `own_data`: nobody but the user and whom it `reaches` sees it."""
    effect, risk = SideEffect.REVERSIBLE, RiskLevel.MEDIUM
    more |= {"side_effect": effect, "risk_level": risk, "categories": frozenset(categories)}
    return _tool(service, function, reaches, **more)


def acts(
    service: str,
    function: Callable[..., ToolResult],
    *categories: Category,
    reaches: Callable[[JsonObject], Iterable[Reached]] = lambda args: (),
    **more: Any,
) -> FunctionTool:
    """A tool whose effect stays. `reaches`: whom it reaches beyond its arguments."""
    effect, risk = SideEffect.IRREVERSIBLE, RiskLevel.MEDIUM
    more |= {"side_effect": effect, "risk_level": risk, "categories": frozenset(categories)}
    return _tool(service, function, reaches, **more)


def _tool(
    service: str,
    function: Callable[..., ToolResult],
    reaches: Callable[[JsonObject], Iterable[Reached]] = lambda args: (),
    **more: Any,
) -> FunctionTool:
    name = function.__name__
    meta: dict[str, Any] = {"timeout_s": 15.0, "idempotency": Idempotency.NOT_SUPPORTED, "brings": Label.MCP}

    async def reached(args: JsonObject) -> Iterable[Reached]:
        return reaches(args)

    return FunctionTool(function, ToolMeta(tool_id=f"{service}.{name}", name=name, **(meta | more)), reaches=reached)


def reached(*addresses: str) -> tuple[Reached, ...]:
    """Addresses of mail that a call reaches."""
    return tuple(Reached(TargetKind.RECIPIENT, each) for each in addresses)


def titled(key: str, *titles: str, people: Iterable[str] = ()) -> tuple[Reached, ...]:
    """What the thing with that id is called, and the addresses of those whose it is."""
    return (
        *(Reached(TargetKind.OBJECT, title, of=key) for title in titles),
        *(Reached(TargetKind.RECIPIENT, each, of=key) for each in people),
    )


def recipients(*arguments: str) -> tuple[Target, ...]:
    """Arguments with addresses of mail."""
    return tuple(Target(argument, TargetKind.RECIPIENT) for argument in arguments)


def accounts(*arguments: str) -> tuple[Target, ...]:
    """Arguments with numbers of accounts."""
    return tuple(Target(argument, TargetKind.ACCOUNT) for argument in arguments)


def people(*arguments: str) -> tuple[Target, ...]:
    """Arguments with names of people."""
    return tuple(Target(argument, TargetKind.PERSON) for argument in arguments)


def objects(*arguments: str) -> tuple[Target, ...]:
    """Arguments with ids or titles of a service's things."""
    return tuple(Target(argument, TargetKind.OBJECT) for argument in arguments)


def money(argument: str) -> tuple[Target, ...]:
    """An argument with an amount, whose currency is in the argument `currency`."""
    return (Target(argument, TargetKind.AMOUNT, currency="currency"),)


def told(service: str, data: Any) -> ToolResult:
    """What a service answers: content from outside, of which it is the source."""
    return ToolResult(ok=True, data=data, content=Content.of(Label.MCP, [service]))


def plain(thing: Any) -> dict[str, Json]:
    """A thing of a service as its interface shows it."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in _fields(thing)}


def _fields(thing: Any) -> Iterable[tuple[str, Any]]:
    return ((field.name, getattr(thing, field.name)) for field in dataclasses.fields(thing))


def named(things: dict[str, Any], what: str, key: str) -> Any:
    """The thing of that id. Raises ToolFailed."""
    if key not in things:
        raise ToolFailed(f"There is no {what} {key}.")
    return things[key]


def next_id(things: dict[str, Any], letter: str) -> str:
    """The id of a further thing."""
    return f"{letter}{max((int(key[len(letter) :]) for key in things), default=0) + 1}"
