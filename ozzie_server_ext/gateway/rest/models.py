"""`models`: what can answer (MD-1)."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from msgspec import Meta

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.rest.model_shapes import ModelDetails, ModelResolution, Models
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.usage import usage_of
from ozzie_server_ext.models.registry import UnknownModel
from ozzie_server_ext.models.selector import ModelSelector
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.tasks.today import DayUsage


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
    """`selector`: `required` and `preferred`, each a list of constraints on tags (S0 §6.4)."""

    selector: Annotated[JsonObject, Meta(extra_json_schema=_inlined(_SCHEMA, _SCHEMA.get("$defs")))]


async def resolve_model(call: Call, asked: SelectorResolve) -> ModelResolution:
    """Which model a selector chooses, and why no other. Nothing is chosen for any session by this."""
    return decode(ModelResolution, await call.ozzie.models.resolve(asked.selector))
