"""The type of parsed JSON, as in events, frames and arguments of tools."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
    JsonObject: TypeAlias = "dict[str, Json]"
else:
    # The codec builds decoders from annotations and can't follow a type that refers to itself.
    Json = Any
    JsonObject = dict[str, Any]


def objects(value: Json) -> list[JsonObject]:
    """Return the objects in a list, without its other items; none if `value` is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def paths(value: Json, below: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each part of a value as keys and indices, beginning with () for the value itself."""
    yield below
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, inner in parts:
        yield from paths(inner, (*below, part))
