"""The parameters of a notebook: values with names, for its messages as `{name}` and for its Python as variables."""

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
    """Those of one kernel, until it ends. `variables` are its Python's, which get each one too."""

    def __init__(self, variables: MutableMapping[str, Any]) -> None:
        self.values: dict[str, Json] = {}
        self._variables = variables

    def set(self, name: str, value: Json) -> None:
        self.values[name] = value
        self._variables[name] = value

    def fill(self, text: str) -> str:
        """`text` with values in the places that have the name of one. Every other brace stays what it is, and what a
        value holds is not looked at again."""
        return _PLACE.sub(lambda place: shown(self.values[place[1]]) if place[1] in self.values else place[0], text)


def read(argument: str) -> tuple[str, Json]:
    """Name and value of `NAME = JSON`. Raises InputError."""
    found = _LINE.fullmatch(argument)
    if found is None:
        raise InputError("A parameter is a name, an equals sign and a value.", hint=HINT, code="magic.usage")
    name, value = found[1], found[2]
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise InputError(f"{name} is no name for a parameter.", hint=HINT, code="magic.usage")
    try:
        return name, loads(value)
    except InputError as error:
        raise InputError(f"The value of {name} is no JSON.", hint=HINT, code="magic.usage") from error


def line(name: str, value: Any) -> str:
    """The command that sets it, which `read` understands; of what JSON has no form for, the text."""
    return f"%parameter {name} = {json.dumps(value, ensure_ascii=False, default=str)}"


def shown(value: Json) -> str:
    """The value within a sentence: text as it is, all else as JSON."""
    return value if isinstance(value, str) else dumps(value)
