"""What a notebook that a tool writes may not bring with it: trust, widgets, and outputs that act (THREATS 3)."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.jupyter.cells import Cell, CellKind, Notebook
from ozzie_server_ext.tools.notebook.loading import what_loads

INERT = frozenset({"text/plain", "image/png", "image/jpeg", "image/gif", "image/webp"})
"""The forms of output that do nothing wherever they are shown: text, and pictures that stand in the notebook itself.
Markdown is none: Lab fetches what it shows pictures of."""
_WITH_DATA = frozenset({"display_data", "execute_result"})
_OUTPUTS = frozenset({"stream", "error", *_WITH_DATA})


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What is new in a notebook that was written as a whole. `problems` are sentences about what may not be brought in,
    each with where it stands; `has_code`: code is among it."""

    problems: tuple[str, ...] = ()
    has_code: bool = False


def is_inert(output: JsonObject) -> bool:
    """Whether the output can do nothing where it is shown, trusted or not."""
    kind, data = output.get("output_type"), output.get("data")
    if kind not in _OUTPUTS:
        return False
    return kind not in _WITH_DATA or (isinstance(data, dict) and INERT.issuperset(data))


def made_inert(output: JsonObject) -> JsonObject | None:
    """The output without the forms of it that act; None where nothing is left that can be shown."""
    if is_inert(output):
        return output
    data = output.get("data")
    if output.get("output_type") not in _WITH_DATA or not isinstance(data, dict):
        return None
    kept = {form: value for form, value in data.items() if form in INERT}
    return {**output, "data": kept, "metadata": {}} if kept else None


def outputs_made_inert(cell: JsonObject) -> list[Json]:
    """The outputs of a cell, as nbformat has it, as far as they do nothing where they are shown."""
    found = cell.get("outputs")
    each = [made_inert(output) for output in found if isinstance(output, dict)] if isinstance(found, list) else []
    return [output for output in each if output is not None]


def written(new: Notebook, metadata: Any, old: Notebook | None, old_metadata: Any) -> Written:
    """What a notebook brings that the one before it, if there was one, did not have. What was there already may stay:
    it is the user's own, and in a file that changed it is not trusted any more."""
    problems = [*_of_the_whole(metadata, old_metadata)]
    had = Counter(map(_spelt, (output for cell in old.cells for output in cell.outputs))) if old else Counter[str]()
    sources = Counter((cell.kind, cell.source) for cell in old.cells) if old else Counter[tuple[CellKind, str]]()
    has_code = False
    for number, cell in enumerate(new.cells, 1):
        is_new = not _taken(sources, (cell.kind, cell.source))
        problems += _of_a_cell(number, cell, is_new, had)
        has_code |= is_new and cell.kind is CellKind.CODE and bool(cell.source.strip())
    return Written(problems=tuple(problems), has_code=has_code)


def _of_the_whole(metadata: Any, before: Any) -> Iterator[str]:
    known = before if isinstance(before, dict) else {}
    for name, what in (("trusted", "a mark that it is trusted"), ("widgets", "the state of widgets")):
        if isinstance(metadata, dict) and metadata.get(name) not in (None, False, known.get(name)):
            yield f"its metadata hold {what}"


def _of_a_cell(number: int, cell: Cell, is_new: bool, had: Counter[str]) -> Iterator[str]:
    metadata = cell.whole.get("metadata")
    if isinstance(metadata, dict) and metadata.get("trusted"):
        yield f"cell {number} says that it is trusted"
    acting = [output for output in cell.outputs if not _taken(had, _spelt(output)) and not is_inert(output)]
    if acting:
        forms = sorted({form for output in acting for form in _acting(output)})
        yield f"cell {number} has outputs that act or load something ({', '.join(forms)})"
    if is_new and cell.kind is CellKind.MARKDOWN and (loaded := what_loads(cell.source)):
        yield f"cell {number} loads {loaded}"


def _acting(output: JsonObject) -> Iterator[str]:
    data = output.get("data")
    if output.get("output_type") in _WITH_DATA and isinstance(data, dict):
        yield from (form[:60] for form in data if form not in INERT)
    else:
        yield str(output.get("output_type"))[:60]


def _taken(there: "Counter[Any]", what: Any) -> bool:
    """Whether it was there, each once."""
    if there[what] <= 0:
        return False
    there[what] -= 1
    return True


def _spelt(output: Json) -> str:
    return json.dumps(output, sort_keys=True)


def told(problems: Sequence[str]) -> str:
    """The problems in one sentence."""
    some = "; ".join(problems[:5])
    return some + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
