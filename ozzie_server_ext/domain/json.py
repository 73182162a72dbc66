"""The type of parsed JSON: what may stand in an event, a frame or a tool's arguments."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
    JsonObject: TypeAlias = "dict[str, Json]"
else:
    # The codec builds decoders from annotations and can't follow a type that refers to itself.
    Json = Any
    JsonObject = dict[str, Any]
