"""papermill support: how `-p NAME VALUE` is written into an Ozzie notebook.

papermill has no entry point for translators, but loads every engine that a package names, so this is registered as one.
Only papermill imports it.
"""

from collections.abc import Mapping
from typing import Any

from papermill.engines import NBClientEngine
from papermill.models import Parameter
from papermill.translators import Translator, papermill_translators

from ozzie_kernel.cells import MagicLine, parse
from ozzie_kernel.parameters import line, read, shown
from ozzie_server_ext.domain.errors import InputError


class OzzieTranslator(Translator):
    """One `%parameter` per line."""

    @classmethod
    def codify(cls, parameters: Mapping[str, Any], comment: str = "Parameters") -> str:
        """Return the cell to insert. It has no comment: a cell of commands has no other lines."""
        return "\n".join(line(name, value) for name, value in parameters.items())

    @classmethod
    def inspect(cls, parameters_cell: Mapping[str, Any]) -> list[Parameter]:
        """Return the parameters of the notebook's own cell, with their values as defaults."""
        cell = parse(str(parameters_cell["source"]))
        found: list[Parameter] = []
        for magic in cell if isinstance(cell, tuple) else ():
            if magic.name == "parameter" and (parameter := _parameter(magic)) is not None:
                found.append(parameter)
        return found


class OzzieEngine(NBClientEngine):
    """papermill's own engine: an Ozzie notebook runs like any other."""


def _parameter(magic: MagicLine) -> Parameter | None:
    try:
        name, value = read(magic.argument)
    except InputError:
        return None
    return Parameter(name, type(value).__name__, shown(value), "")


papermill_translators.register("ozzie", OzzieTranslator)
