"""A cell of a notebook, as nbformat 4 has it, and what of it a model is told."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ozzie_server_ext.domain.json import Json, JsonObject

MAX_CELL_ID = 64
"""In characters (nbformat 4.5)."""
_TEXT = "text/plain"


class CellKind(StrEnum):
    CODE = "code"
    MARKDOWN = "markdown"
    RAW = "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`whole` is the cell as it stands in the notebook, outputs and all. Of a cell that has no id of its own, `cell_id`
    is `name_of` it."""

    cell_id: str
    kind: CellKind
    source: str
    whole: JsonObject = field(repr=False, compare=False, default_factory=dict[str, Json])

    @property
    def version(self) -> str:
        """What the cell is called where somebody has to have seen it before it is changed: by its kind and its source,
        as outputs come and go while one works."""
        return version_of(self.kind, self.source)

    @property
    def outputs(self) -> tuple[JsonObject, ...]:
        found = self.whole.get("outputs")
        return tuple(each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()

    @property
    def forms(self) -> tuple[str, ...]:
        """In which forms it has outputs, each once: media types, "stream", "error"."""
        return tuple(dict.fromkeys(form for output in self.outputs for form in _forms(output)))

    @property
    def printed(self) -> str:
        """The outputs as text, one below the other; of a picture and the like, that there is one."""
        return "\n".join(text.removesuffix("\n") for output in self.outputs if (text := _printed(output)))


def version_of(kind: CellKind, source: str) -> str:
    return hashlib.sha256(f"{kind}\0{source}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notebook:
    """The cells in their order. `named`: they have ids of their own, as new ones get (nbformat 4.5)."""

    cells: tuple[Cell, ...]
    named: bool = True
    language: str = ""

    @classmethod
    def of(cls, cells: Sequence[object], *, named: bool = True, language: str = "") -> "Notebook":
        """From the cells as nbformat has them. Raises ValueError for what is none."""
        return cls(cells=tuple(_cell(*each, named) for each in enumerate(cells)), named=named, language=language)

    def find(self, cell_id: str) -> Cell | None:
        """The one that is called so; None where none is, or two are."""
        found = [cell for cell in self.cells if cell.cell_id == cell_id]
        return found[0] if len(found) == 1 else None


def joined(text: object) -> str:
    """What nbformat calls a multiline string: a text, or a list of its lines. Raises ValueError."""
    if isinstance(text, str):
        return text
    if isinstance(text, list):
        lines = [line for line in text if isinstance(line, str)]
        if len(lines) == len(text):
            return "".join(lines)
    raise ValueError("a text is neither a text nor a list of lines")


def lines(text: str) -> list[Json]:
    """As nbformat writes a text of several lines."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


def name_of(index: int, kind: CellKind, source: str) -> str:
    """What a cell without an id is called: by where it stands, from 0, and what it says. It means no other cell."""
    return f"{index + 1}-{version_of(kind, source)}"


def _cell(index: int, whole: Any, named: bool) -> Cell:
    if not isinstance(whole, dict):
        raise ValueError("a cell is no object")
    try:
        kind = CellKind(whole.get("cell_type", ""))
    except ValueError:
        raise ValueError("a cell is of no kind that is known") from None
    source = joined(whole.get("source", ""))
    own = whole.get("id") if named else None
    if own is not None and not (isinstance(own, str) and 0 < len(own) <= MAX_CELL_ID and own.isprintable()):
        raise ValueError("a cell has an id that is none")
    return Cell(cell_id=own or name_of(index, kind, source), kind=kind, source=source, whole=whole)


def _forms(output: JsonObject) -> Iterator[str]:
    data = output.get("data")
    if isinstance(data, dict):
        yield from sorted(data)
    else:
        yield str(output.get("output_type", ""))[:40]


def _printed(output: JsonObject) -> str:
    try:
        match output.get("output_type"):
            case "stream":
                return joined(output.get("text", ""))
            case "error":
                return f"{output.get('ename', '')}: {output.get('evalue', '')}"
            case _:
                data = output.get("data")
                if isinstance(data, Mapping) and _TEXT in data:
                    return joined(data[_TEXT])
                return f"[{', '.join(_forms(output))}]"
    except ValueError:
        return ""
