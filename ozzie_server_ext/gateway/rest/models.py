"""`models` and `usage`: what can answer, and what it has used."""

import asyncio
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.shapes import (
    Limit,
    NumberCursor,
    Page,
    ProjectFolder,
    SessionId,
    Usage,
    UsageSums,
    Words,
)
from ozzie_server_ext.models.facts import Capabilities
from ozzie_server_ext.models.registry import UnknownModel
from ozzie_server_ext.models.selector import ModelSelector
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.budgets import DayUsage

KeyPlace: TypeAlias = Literal["", "vault", "environment", "Claude Code"]
Tag: TypeAlias = str | int | float | bool


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be chosen by name. `key` is where its key lies, empty if it needs none or there is none;
    `missing` is why the model can't be used now. For an alias, `driver` is "alias" and `model` its target. `health`
    says how its last call ended, empty without a recent one."""

    name: str
    driver: str
    model: str
    key: KeyPlace
    missing: str
    is_default: bool
    tags: dict[str, Tag]
    health: str


class LastCall(msgspec.Struct, frozen=True, kw_only=True):
    """How a model's latest call ended: `code` of its failure, empty if it answered; `finish` is how the answer ended.
    Calls stopped by the user are left out."""

    ended_at: str
    code: str
    finish: str


class ModelDetails(msgspec.Struct, frozen=True, kw_only=True):
    """One model in full. `provider` is its name in the configuration, empty if it was named directly; a different
    `name` is an alias. `address` is empty for the driver's default, and has neither credentials nor path. `missing` is
    why the model can't be used now, `unasked` why litellm's table of capabilities could not be read. `then` are the
    fallback providers in order, `stronger` those to use if it isn't up to a request. `today` counts since midnight at
    the gateway."""

    name: str
    provider: str
    driver: str
    model: str
    then: list[str]
    stronger: list[str]
    address: str
    is_default: bool
    tags: dict[str, Tag]
    key_name: str
    key: KeyPlace
    missing: str
    health: str
    last_call: LastCall | None
    capabilities: Capabilities
    unasked: str
    today: Usage
    total: Usage


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A model found on this machine; not used until chosen."""

    found: str
    choose: str


class Models(Page[Model], frozen=True, kw_only=True):
    """The models, and more for choosing one. `vault_warning` says what is wrong with the secrets vault; empty if
    nothing is."""

    default: str
    offers: list[Offer]
    config_file: str
    config_error: str
    vault_warning: str
    ignored_config: list[str]


class FailedConstraint(msgspec.Struct, frozen=True, kw_only=True):
    """A required constraint that a model does not meet, and why, in words."""

    constraint: str
    reason: str


class WeighedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model's result: `fits` if nothing is in `failed`; `preferred` are the preferences it meets, `score` their
    number."""

    name: str
    model: str
    fits: bool
    score: int
    failed: list[FailedConstraint]
    preferred: list[str]


class ModelResolution(msgspec.Struct, frozen=True, kw_only=True):
    """The selector's choice, with every model as declared. If none fits, `chosen` is null and `reason` says why.
    `wishes` is the number of preferences, the highest possible score."""

    chosen: str | None
    model: str
    reason: str
    wishes: int
    weighed: list[WeighedModel]


Day: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", title="a day such as 2026-01-31", description="A day in UTC, as YYYY-MM-DD."),
]

_GROUPS = {"session": ("session_id",), "day": ("day",), "model": ("alias", "provider", "model")}
_COUNTERS = ("calls", "failed_calls", "unknown_price_calls", "input_tokens", "output_tokens", "cached_tokens", "cost")


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`by`: what to group by; may be repeated. `since` and `until` are the first and last day."""

    by: tuple[Literal["session", "day", "model"], ...] = ()
    session_id: SessionId | None = None
    since: Day | None = None
    until: Day | None = None
    limit: Limit = 100
    cursor: NumberCursor | None = None


async def sum_usage(call: Call, request: UsageQuery) -> UsageSums:
    """Sum what models used by group, the latest day first, and in total: calls, tokens and cost. A call counts on the
    day of its end."""
    where = {"session_id": request.session_id} if request.session_id else None
    rows = await call.ozzie.log.rows("usage", where=where)
    # There may be a row for each session, model and day of years.
    return await asyncio.to_thread(_sums, rows, request)


class TodayQuery(msgspec.Struct, frozen=True, kw_only=True):
    """No parameters."""


async def sum_today(call: Call, request: TodayQuery) -> Usage:
    """Sum what all sessions have used since midnight at the gateway; `day` is the date there."""
    sums = asdict(await call.ozzie.today.sum())
    return usage_of({"day": sums.pop("day")}, sums)


def _sums(rows: Iterable[Row], request: UsageQuery) -> UsageSums:
    columns = [column for group in _GROUPS if group in request.by for column in _GROUPS[group]]
    groups: dict[tuple[Any, ...], dict[str, int]] = {}
    total: dict[str, int] = dict.fromkeys(_COUNTERS, 0)
    for row in rows:
        if not (request.since or "") <= str(row["day"]) <= (request.until or "9999"):
            continue
        sums = groups.setdefault(tuple(row[column] for column in columns), dict.fromkeys(_COUNTERS, 0))
        for name in _COUNTERS:
            value = cast(int, row[name])
            sums[name] += value
            total[name] += value
    ordered = sorted(groups, key=lambda key: key[columns.index("day")] if "day" in columns else "", reverse=True)
    start = int(request.cursor or 0)
    shown = ordered[start : start + request.limit] if columns else []
    end = start + len(shown)
    return UsageSums(
        items=[usage_of(dict(zip(columns, key, strict=True)), groups[key]) for key in shown],
        next=str(end) if columns and end < len(ordered) else None,
        total=usage_of({}, total),
    )


def usage_of(group: dict[str, Any], sums: dict[str, int]) -> Usage:
    """Return sums as clients see them; `group` is what they are for."""
    cost = sums["cost"]
    return Usage(
        session_id=group.get("session_id") or None,
        day=group.get("day"),
        alias=group.get("alias"),
        provider=group.get("provider"),
        model=group.get("model"),
        **{name: value for name, value in sums.items() if name != "cost"},
        cost=None if sums["unknown_price_calls"] else cost,
        known_cost=cost,
    )


class ModelsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`project`: the folder whose settings and keys count."""

    project: ProjectFolder | None = None


async def list_models(call: Call, request: ModelsQuery) -> Models:
    """List the models to choose from, the default, and models found on this machine that are not used yet."""
    await call.ozzie.secrets.refresh()
    listing = await (await call.project(folder=request.project)).models.listing()
    warning = call.ozzie.secrets.warning
    return decode(Models, {**listing, "items": listing["models"], "next": None, "vault_warning": warning})


def listing_of(models: Models) -> JsonObject:
    """Return the WebSocket's answer."""
    shown = encode(models)
    return {
        "models": shown.pop("items"),
        **{name: shown[name] for name in shown if name not in ("next", "vault_warning")},
    }


class ModelQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: a provider, an alias, `offline`, or driver/model; by default the default model. `project`: the folder
    whose settings and keys count."""

    name: Words = ""
    project: ProjectFolder | None = None


async def show_model(call: Call, request: ModelQuery) -> ModelDetails:
    """Show one model in full: its target, its key, its capabilities and who states them, how its last call ended, and
    its usage under any name. If only the model worker knows, it is started first."""
    await call.ozzie.secrets.refresh()
    try:
        found = await (await call.project(folder=request.project)).details.show(request.name)
    except UnknownModel as error:
        raise NotFound(str(error), hint=error.hint, code=error.code) from None
    used = {"today": _used(found.usage.today), "total": _used(found.usage.total)}
    return decode(ModelDetails, {**encode(found.glance), "unasked": found.unasked, **used})


def _used(sums: DayUsage) -> JsonObject:
    counted = asdict(sums)
    day = counted.pop("day")
    return encode(usage_of({"day": day or None}, counted))


def _inlined(part: Any, shapes: Any) -> Any:
    """Return part of a JSON Schema with its references replaced by their targets, which the document lacks."""
    if isinstance(part, list):
        return [_inlined(item, shapes) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inlined(shapes[part["$ref"].rpartition("/")[2]], shapes)
    return {key: _inlined(item, shapes) for key, item in part.items() if key not in ("$defs", "discriminator")}


_SCHEMA = ModelSelector.model_json_schema()


class SelectorResolve(msgspec.Struct, frozen=True, kw_only=True):
    """`selector`: `required` and `preferred`, each a list of constraints on tags. `project`: the folder whose models
    are weighed."""

    selector: Annotated[JsonObject, Meta(extra_json_schema=_inlined(_SCHEMA, _SCHEMA.get("$defs")))]
    project: ProjectFolder | None = None


async def resolve_model(call: Call, request: SelectorResolve) -> ModelResolution:
    """Show which model a selector chooses, and why no other. This changes nothing."""
    models = (await call.project(folder=request.project)).models
    return decode(ModelResolution, await models.resolve(request.selector))
