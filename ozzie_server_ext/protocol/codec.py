"""Convert between typed objects and JSON: strict in decoding, with the field named in each error."""

from typing import Any, TypeVar

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject

T = TypeVar("T")


class InvalidShape(InputError):
    """JSON of another shape than expected; the message names the field."""

    code = "input.shape"


def decode(kind: type[T], value: Json) -> T:
    """Return `value` as a `kind` (a dataclass). Unknown fields are ignored, as a newer peer may send them. Raise
    InvalidShape."""
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidShape(f"{str(error).replace('`', '')}.") from None


def encode(value: Any) -> JsonObject:
    """Return a dataclass as a JSON object."""
    return msgspec.to_builtins(value)
