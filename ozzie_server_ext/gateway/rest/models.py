"""`models`: what can answer."""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, TypeAlias, cast

from msgspec import Meta

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Limit, NumberCursor, Page, SessionId, Usage, UsageSums
from ozzie_server_ext.models.facts import Capabilities
from ozzie_server_ext.models.registry import UnknownModel
from ozzie_server_ext.models.selector import ModelSelector
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.budgets import DayUsage

KeyPlace: TypeAlias = Literal["", "vault", "environment", "Claude Code"]
Tag: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that can be chosen by its name; `key` is where its key lies, empty where it needs none or there is
    none; `missing` says why it can't be used right now. Of an alias, `driver` is "alias" and `model` the name that it
    stands for. `health` says how its last call ended, empty where it was not asked lately."""

    name: str
    driver: str
    model: str
    key: KeyPlace
    missing: str
    is_default: bool
    tags: dict[str, Tag]
    health: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCall:
    """How a model's newest call ended: `code` is that of its failure, empty where it answered; `finish` how the answer
    ended. Calls that were stopped here are passed over."""

    ended_at: str
    code: str
    finish: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDetails:
    """One model in full. `provider` is what the configuration calls it, empty for one that was named directly; another
    `name` is an alias for it. `address` is empty for the driver's usual one, and holds neither credentials nor path.
    `missing` says why the model can't be used right now, `unasked` why litellm's table could not be asked for its
    capabilities. `then` names the providers that are asked in this order where it can't answer, `stronger` those that
    are where it is not up to a request. `today` is since the last midnight where the gateway runs."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something that was found on this machine and is not used until it is chosen."""

    found: str
    choose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Models(Page[Model]):
    """The models, and what else there is to know for a choice. `vault_warning` says what is wrong with the vault of
    secrets; empty where all is well."""

    default: str
    offers: list[Offer]
    config_file: str
    config_error: str
    vault_warning: str
    ignored_config: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedConstraint:
    """A required constraint that a model does not meet, and why, in words."""

    constraint: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedModel:
    """How a model fared: it `fits` where nothing `failed`; `preferred` are the wishes that it meets, `score` their
    number."""

    name: str
    model: str
    fits: bool
    score: int
    failed: list[FailedConstraint]
    preferred: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResolution:
    """What a selector chose, with every model as it was declared. Where none fits, `chosen` is null and `reason` says
    why. `wishes`: how many constraints are preferred, the highest possible score."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """`by`: what the sums are grouped by; it may stand several times. `since` and `until` are the first and the last
    day that count."""

    by: tuple[Literal["session", "day", "model"], ...] = ()
    session_id: SessionId | None = None
    since: Day | None = None
    until: Day | None = None
    limit: Limit = 100
    cursor: NumberCursor | None = None


async def sum_usage(call: Call, asked: UsageQuery) -> UsageSums:
    """What models used: calls, tokens and cost of each group, the latest day first, and of all together. A call counts
    on the day on which it ended."""
    where = {"session_id": asked.session_id} if asked.session_id else None
    rows = await call.ozzie.log.rows("usage", where=where)
    # There may be a row for each session, model and day of years.
    return await asyncio.to_thread(_sums, rows, asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class TodayQuery:
    """Nothing."""


async def sum_today(call: Call, asked: TodayQuery) -> Usage:
    """What models have used since the last midnight where the gateway runs, all sessions together; `day` is the day
    there."""
    sums = asdict(await call.ozzie.today.sum())
    return usage_of({"day": sums.pop("day")}, sums)


def _sums(rows: Iterable[Row], asked: UsageQuery) -> UsageSums:
    columns = [column for group in _GROUPS if group in asked.by for column in _GROUPS[group]]
    groups: dict[tuple[Any, ...], dict[str, int]] = {}
    total: dict[str, int] = dict.fromkeys(_COUNTERS, 0)
    for row in rows:
        if not (asked.since or "") <= str(row["day"]) <= (asked.until or "9999"):
            continue
        sums = groups.setdefault(tuple(row[column] for column in columns), dict.fromkeys(_COUNTERS, 0))
        for name in _COUNTERS:
            value = cast(int, row[name])
            sums[name] += value
            total[name] += value
    ordered = sorted(groups, key=lambda key: key[columns.index("day")] if "day" in columns else "", reverse=True)
    start = int(asked.cursor or 0)
    shown = ordered[start : start + asked.limit] if columns else []
    end = start + len(shown)
    return UsageSums(
        items=[usage_of(dict(zip(columns, key, strict=True)), groups[key]) for key in shown],
        next=str(end) if columns and end < len(ordered) else None,
        total=usage_of({}, total),
    )


def usage_of(group: dict[str, Any], sums: dict[str, int]) -> Usage:
    """Sums as they are answered; `group` is what they are of."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsQuery:
    """Nothing."""


async def list_models(call: Call, asked: ModelsQuery) -> Models:
    """The models that can be chosen, the default, and what was found on this machine and is not used yet."""
    await call.ozzie.secrets.refresh()
    listing = await call.ozzie.models.listing()
    warning = call.ozzie.secrets.warning
    return decode(Models, {**listing, "items": listing["models"], "next": None, "vault_warning": warning})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuery:
    """`name`: a provider, an alias, `offline`, or driver/model; the default where it is left out."""

    name: str = ""


async def show_model(call: Call, asked: ModelQuery) -> ModelDetails:
    """One model in full: what it stands for, its key, what is known of it and who says so, how its last call ended, and
    what it has used under whatever name. Where only the model worker can tell, it is started and waited for."""
    await call.ozzie.secrets.refresh()
    try:
        found = await call.ozzie.details.show(asked.name)
    except UnknownModel as error:
        raise NotFound(str(error), hint=error.hint, code=error.code) from None
    used = {"today": _used(found.usage.today), "total": _used(found.usage.total)}
    return decode(ModelDetails, {**encode(found.glance), "unasked": found.unasked, **used})


def _used(sums: DayUsage) -> JsonObject:
    counted = asdict(sums)
    day = counted.pop("day")
    return encode(usage_of({"day": day or None}, counted))


def _inlined(part: Any, shapes: Any) -> Any:
    """A part of a JSON Schema with the shapes that it refers to in their places: the document knows no others."""
    if isinstance(part, list):
        return [_inlined(item, shapes) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inlined(shapes[part["$ref"].rpartition("/")[2]], shapes)
    return {key: _inlined(item, shapes) for key, item in part.items() if key not in ("$defs", "discriminator")}


_SCHEMA = ModelSelector.model_json_schema()


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorResolve:
    """`selector`: `required` and `preferred`, each a list of constraints on tags."""

    selector: Annotated[JsonObject, Meta(extra_json_schema=_inlined(_SCHEMA, _SCHEMA.get("$defs")))]


async def resolve_model(call: Call, asked: SelectorResolve) -> ModelResolution:
    """Which model a selector chooses, and why no other. Nothing is chosen for any session by this."""
    return decode(ModelResolution, await call.ozzie.models.resolve(asked.selector))
