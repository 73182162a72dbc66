"""What a model wrote as the arguments of a call, before a contract looks at them."""

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.tools.base import InvalidArguments


def parsed(arguments: str) -> JsonObject:
    """Raises InvalidArguments for what is no JSON object."""
    try:
        return loads_object(arguments or "{}", surrogates="repair")
    except OzzieError as error:
        raise InvalidArguments(f"The arguments are not a JSON object: {error}") from None


def arguments_of(use: ToolUse) -> JsonObject:
    """Nothing where they are no JSON object."""
    try:
        return parsed(use.arguments)
    except OzzieError:
        return {}
