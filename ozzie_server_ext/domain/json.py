"""The type of parsed JSON, what may stand in an event, a frame or a tool's arguments; and lists of objects in it."""

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
