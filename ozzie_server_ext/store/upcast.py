"""Stored bodies of older shapes, brought to the present one step by step on reading (EV-1)."""

from collections.abc import Callable, Mapping

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.store.log import DamagedStore

Upcast = Callable[[JsonObject], JsonObject]
"""Turns the body of one schema version into that of the next; may change what it is given."""

UPCASTS: Mapping[tuple[str, int], Upcast] = {}
"""By event type and the schema version that the function takes. An entry stays for as long as such logs exist."""


def upcast(
    type_: str,
    body: JsonObject,
    stored: int,
    present: int,
    *,
    registry: Mapping[tuple[str, int], Upcast] = UPCASTS,
) -> JsonObject:
    """`body`, stored with schema `stored`, in the shape of schema `present`.

    Raises DamagedStore where a step is missing.
    """
    for schema in range(stored, present):
        step = registry.get((type_, schema))
        if step is None:
            raise DamagedStore(f"There is no way from version {schema} of {type_} to version {present}.")
        body = step(body)
    return body
