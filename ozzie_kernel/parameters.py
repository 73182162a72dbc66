"""A notebook's parameters: named values, `{name}` in messages and variables in Python."""

import json
import keyword
import re
from collections.abc import MutableMapping
from typing import Any

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import dumps, loads

HINT = 'Write `%parameter month = "May"`: a name, and a value as JSON, text in quotes.'

_LINE = re.compile(r"(\w+)[ \t]*=[ \t]*(.*)", re.DOTALL)
_PLACE = re.compile(r"\{(\w+)\}")


class Parameters:
    """The parameters of one kernel. `variables` are those of its Python, which get each parameter too."""

    def __init__(self, variables: MutableMapping[str, Any]) -> None:
        self.values: dict[str, Json] = {}
        self._variables = variables

    def set(self, name: str, value: Json) -> None:
        self.values[name] = value
        self._variables[name] = value

    def fill(self, text: str) -> str:
        """Replace `{name}` of known parameters by their values, once; other braces stay."""
        return _PLACE.sub(lambda place: shown(self.values[place[1]]) if place[1] in self.values else place[0], text)


def read(argument: str) -> tuple[str, Json]:
    """Parse `NAME = JSON`. Raises InputError."""
    found = _LINE.fullmatch(argument)
    if found is None:
        raise InputError("A parameter is a name, an equals sign and a value.", hint=HINT, code="magic.usage")
    name, value = found[1], found[2]
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise InputError(f"{name} is not a valid name for a parameter.", hint=HINT, code="magic.usage")
    try:
        return name, loads(value)
    except InputError as error:
        raise InputError(f"The value of {name} is not JSON.", hint=HINT, code="magic.usage") from error


def line(name: str, value: Any) -> str:
    """Return the command that sets the parameter, for `read`; values without a JSON form become text."""
    return f"%parameter {name} = {json.dumps(value, ensure_ascii=False, default=str)}"


def shown(value: Json) -> str:
    """Return the value as part of a sentence: text as it is, all else as JSON."""
    return value if isinstance(value, str) else dumps(value)
