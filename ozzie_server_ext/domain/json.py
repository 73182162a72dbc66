"""The type of parsed JSON, what may stand in an event, a frame or a tool's arguments; and what stands in it."""

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
    """The objects of a list; whatever else stands in it, or in its place, is passed over."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def paths(value: Json, below: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the parts of a value stand: the keys and indices that lead to each, none to the value itself."""
    yield below
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, inner in parts:
        yield from paths(inner, (*below, part))
