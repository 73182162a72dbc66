"""Between typed objects and JSON: strict towards us, each complaint naming the field."""

from typing import Any, TypeVar

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject

T = TypeVar("T")


class InvalidShape(InputError):
    """JSON of another shape than was asked for; the message names the field."""

    code = "input.shape"


def decode(kind: type[T], value: Json) -> T:
    """`value` as a `kind` (a dataclass). Fields that `kind` does not have are passed over: a newer peer may send them.

    Raises InvalidShape.
    """
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidShape(f"{str(error).replace('`', '')}.") from None


def encode(value: Any) -> JsonObject:
    """A dataclass as a JSON object."""
    return msgspec.to_builtins(value)
