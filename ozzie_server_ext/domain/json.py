"""The type of parsed JSON, as in events, frames and arguments of tools."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
    JsonObject: TypeAlias = "dict[str, Json]"
else:
    # The codec builds decoders from annotations and can't follow a type that refers to itself.
    Json = Any
    JsonObject = dict[str, Any]


JsonType: TypeAlias = Literal["string", "number", "integer", "boolean", "array", "object"]
"""The types of JSON Schema that a variable or an argument may have."""
_OF_TYPE: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


def is_of(type_: JsonType, value: Json) -> bool:
    """Whether the value has that type; true and false are no numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _OF_TYPE[type_]) and (type_ == "boolean" or not isinstance(value, bool))


def objects(value: Json) -> list[JsonObject]:
    """Return the objects in a list, without its other items; none if `value` is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def paths(value: Json, below: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each part of a value as keys and indices, beginning with () for the value itself."""
    yield below
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, inner in parts:
        yield from paths(inner, (*below, part))
