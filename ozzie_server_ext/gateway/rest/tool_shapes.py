"""The shapes that the REST interface answers of tools: their contracts, and what the rules say to them."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, Idempotency, RiskLevel, SideEffect, TargetKind
from ozzie_server_ext.gateway.rest.shapes import Page

ToolName: TypeAlias = Annotated[
    str, Meta(pattern="^[A-Za-z0-9_.-]{1,64}$", title="the id of a tool, or a name that it answers to")
]
Said: TypeAlias = Literal["ALLOW", "CHECK", "ASK", "DENY"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What the rules say to a call before they have seen its arguments: `rule` is the rule's id, `place` its file and
    line, empty for one of Ozzie's own."""

    decision: Said
    rule: str
    reason: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool's contract in short (S4 §8.5.2). `id` is namespace.name, `name` what the model calls it, `names` what else
    it answers to; `version` is that of the contract."""

    id: str
    name: str
    names: list[str]
    about: str
    version: str
    side_effect: SideEffect
    risk: RiskLevel
    categories: list[Category]
    ruling: Ruling


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTarget:
    """An argument that names what a call acts on."""

    argument: str
    kind: TargetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDetails:
    """A tool's whole contract. `parameters` is a JSON Schema, `timeout_s` how many seconds a call may take,
    `max_inline_chars` how much of a result the model gets at once."""

    id: str
    name: str
    names: list[str]
    about: str
    version: str
    side_effect: SideEffect
    risk: RiskLevel
    categories: list[Category]
    ruling: Ruling
    idempotency: Idempotency
    timeout_s: float
    max_inline_chars: int
    targets: list[ToolTarget]
    parameters: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools(Page[Tool]):
    """Every tool, by id. `policy_error` says why the rules can't be taken, empty where they can: until then, every call
    is denied."""

    policy_error: str
