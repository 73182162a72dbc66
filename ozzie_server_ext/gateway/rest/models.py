"""`models`: what can answer (MD-1)."""

from dataclasses import dataclass

from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Models
from ozzie_server_ext.protocol.codec import decode


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsQuery:
    """Nothing."""


async def list_models(call: Call, asked: ModelsQuery) -> Models:
    """The models that can be chosen, the default, and what was found on this machine and is not used yet."""
    listing = await call.ozzie.models.listing()
    return decode(Models, {**listing, "items": listing["models"], "next": None})
