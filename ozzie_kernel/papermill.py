"""What papermill knows of Ozzie's notebooks: how `-p NAME VALUE` is written in one.

papermill has no entry point for that, but loads every engine that a package names, so this is loaded as one. Only
papermill imports it.
"""

from collections.abc import Mapping
from typing import Any

from papermill.engines import NBClientEngine
from papermill.models import Parameter
from papermill.translators import Translator, papermill_translators

from ozzie_kernel.cells import Magic, parse
from ozzie_kernel.parameters import line, read, shown
from ozzie_server_ext.domain.errors import InputError


class OzzieTranslator(Translator):
    """A `%parameter` a line."""

    @classmethod
    def codify(cls, parameters: Mapping[str, Any], comment: str = "Parameters") -> str:
        """The cell that is put into the notebook. It holds no comment: a cell of commands has no other lines."""
        return "\n".join(line(name, value) for name, value in parameters.items())

    @classmethod
    def inspect(cls, parameters_cell: Mapping[str, Any]) -> list[Parameter]:
        """The parameters that the notebook's own cell sets, with their values as defaults."""
        cell = parse(str(parameters_cell["source"]))
        found: list[Parameter] = []
        for magic in cell if isinstance(cell, tuple) else ():
            if magic.name == "parameter" and (parameter := _parameter(magic)) is not None:
                found.append(parameter)
        return found


class OzzieEngine(NBClientEngine):
    """papermill's own: an Ozzie notebook runs like any other."""


def _parameter(magic: Magic) -> Parameter | None:
    try:
        name, value = read(magic.argument)
    except InputError:
        return None
    return Parameter(name, type(value).__name__, shown(value), "")


papermill_translators.register("ozzie", OzzieTranslator)
