"""The JSON values in answers that have to fit a schema."""

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads

_FENCE = "```"


def value_of(text: str) -> Json:
    """Return the JSON value of an answer, which may be in one code block. Raises InvalidJson."""
    stripped = text.strip()
    if stripped.startswith(_FENCE) and stripped.endswith(_FENCE) and "\n" in stripped:
        stripped = stripped.partition("\n")[2].removesuffix(_FENCE)
    return loads(stripped)


def value_in(last_text: str) -> Json:
    """Return the value of a turn whose answer fits its schema, by its last text; None if that was erased since."""
    try:
        return value_of(last_text)
    except InvalidJson:
        return None
