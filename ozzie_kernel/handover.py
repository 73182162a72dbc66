"""Handing variables of a Python notebook over to a model, on purpose: `{name}` in a message.

A short value stands in the sentence. Of anything else, the sentence has the name, and a description follows the
message: of a frame its shape, types, first rows and statistics, of a figure the picture. Nothing else is sent.
"""

import base64
import io
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject

MOST_CHARACTERS = 6_000
"""Of the description of one variable; what is longer is cut, and says so."""
MOST_INLINE = 200
"""Characters of a value in the middle of a sentence."""
MOST_COLUMNS = 30
FIRST_ROWS = 5
MOST_CELL = 60
"""Characters of one cell of a table."""
MOST_ITEMS = 20
"""Of an array or a list of other things."""
PICTURE_DPIS = (100, 50)
"""Dots per inch at which a figure is saved: the second if the first is too large."""
MOST_PICTURE_BYTES = 600_000
"""Its base64, beside the text, fits into a frame of 1 MiB (SPEC)."""

_PLACE = re.compile(r"\{\{|\}\}|\{(?P<name>[A-Za-z_]\w*)(?P<rest>[.\[(][^{}\n]*)?\}")


@dataclass(frozen=True, slots=True)
class Filled:
    """A message with the values of its variables, and the pictures among them, as `message.send` takes them."""

    text: str
    pictures: list[JsonObject] = field(default_factory=list[JsonObject])


def fill(text: str, variables: Mapping[str, Any]) -> Filled:
    """Replace each `{name}` by that variable. `{{` and `}}` are single braces; braces around anything but a name stay.

    Raises InputError for a name that is no variable, and for a value that can't be handed over.
    """
    below: dict[str, str] = {}
    pictures: list[JsonObject] = []

    def value(place: "re.Match[str]") -> str:
        name = place["name"]
        if name is None:
            return place[0][0]
        if place["rest"]:
            hint = f"Give the value a name first (x = {name}{place['rest']}), and write {{x}}; {{{{ }}}} are braces."
            raise InputError(f"{place[0]} is no name of a variable.", hint=hint, code="handover.name")
        if name not in variables:
            hint = f"Write {{{{{name}}}}} if you mean the braces."
            raise InputError(f"There is no variable {name}.", hint=hint, code="handover.name")
        return _told(name, variables[name], below, pictures)

    filled = _PLACE.sub(value, text)
    return Filled("\n\n".join([filled, *below.values()]), pictures)


def _told(name: str, value: Any, below: dict[str, str], pictures: list[JsonObject]) -> str:
    """Return what stands for the variable in the sentence; add to what follows the message."""
    try:
        inline = _inline(value)
        if inline is not None:
            return inline
        if name not in below:
            picture = _picture(value)
            if picture is None:
                below[name] = _cut(f"`{name}`: {_described(value)}")
            else:
                pictures.append({"name": f"{name}.png", "data": base64.b64encode(picture).decode()})
                below[name] = f"`{name}`: the picture {name}.png"
    except InputError:
        raise
    except Exception as error:  # code of a library or the user's own runs here: repr, savefig, describe
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:MOST_INLINE]
        raise InputError(f"{name} can't be handed over: {reason}", code="handover.value") from None
    return f"`{name}`"


def _inline(value: Any) -> str | None:
    """Return a short value as part of a sentence; None if it is none."""
    if isinstance(value, str) and len(value) <= MOST_INLINE and "\n" not in value:
        return value
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    # A number of numpy has no dimensions.
    return str(value) if getattr(value, "shape", None) == () else None


def _described(value: Any) -> str:
    """Return a description that begins with the kind of the value."""
    for module, kind, describe in _KINDS:
        found = sys.modules.get(module)  # what is not loaded has made no value
        if found is not None and isinstance(value, getattr(found, kind)):
            return describe(value)
    if isinstance(value, str):
        return f"a text of {len(value):,} characters:\n\n{value}"
    return _plain(value)


def _plain(value: Any) -> str:
    kind = type(value).__qualname__
    size = f" of {len(value):,}" if hasattr(value, "__len__") else ""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        shown = repr(value)
    return f"a {kind}{size}:\n\n```\n{shown}\n```"


# --- pandas and numpy --------------------------------------------------------------------------------------


def _pandas_frame(frame: Any) -> str:
    rows, columns = frame.shape
    about = [
        [
            str(name),
            str(column.dtype),
            f"{int(column.isna().sum()):,}",
            _statistics(column),
        ]
        for name, column in list(frame.items())[:MOST_COLUMNS]
    ]
    first = frame.iloc[:FIRST_ROWS, :MOST_COLUMNS]
    return _frame(
        f"a pandas DataFrame of {rows:,} rows and {columns:,} columns",
        columns,
        _table(["column", "type", "missing", "statistics"], about),
        _table([str(name) for name in first.columns], [list(map(str, row)) for row in first.itertuples(index=False)]),
        rows,
    )


def _pandas_series(series: Any) -> str:
    return _pandas_frame(series.to_frame(series.name if series.name is not None else "value")).replace(
        "a pandas DataFrame", "a pandas Series, as a DataFrame", 1
    )


def _statistics(column: Any) -> str:
    """Return smallest, middle and largest of numbers and times, the most frequent of all else."""
    there = column.dropna()
    if not len(there):
        return ""
    kind = getattr(there.dtype, "kind", "O")
    if kind in "iuf":
        return f"min {there.min():g}, mean {there.mean():g}, max {there.max():g}"
    if kind in "mM":
        return f"min {there.min()}, max {there.max()}"
    counts = there.astype(str).value_counts()
    top = ", ".join(f"{_cell(name)} ({count:,})" for name, count in counts.head(3).items())
    return f"{len(counts):,} different: {top}"


def _frame(kind: str, columns: int, about: str, first: str, rows: int) -> str:
    left_out = f"; the first {MOST_COLUMNS} columns" if columns > MOST_COLUMNS else ""
    shown = min(rows, FIRST_ROWS)
    return f"{kind}{left_out}\n\n{about}\n\n" + (f"The first {shown} rows:\n\n{first}" if shown else "It has no rows.")


def _array(array: Any) -> str:
    shape = " × ".join(f"{size:,}" for size in array.shape) or "one"
    kind = f"a numpy array, {shape}, of {array.dtype}"
    numbers = array[~_not_numbers(array)] if array.dtype.kind in "iuf" else array[:0]
    told = f"min {numbers.min():g}, mean {numbers.mean():g}, max {numbers.max():g}. " if numbers.size else ""
    first = ", ".join(_cell(item) for item in array.ravel()[:MOST_ITEMS].tolist())
    more = ", …" if array.size > MOST_ITEMS else ""
    return f"{kind}. {told}The first values: {first}{more}" if array.size else f"{kind}, empty"


def _not_numbers(array: Any) -> Any:
    return sys.modules["numpy"].isnan(array)


_KINDS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("pandas", "DataFrame", _pandas_frame),
    ("pandas", "Series", _pandas_series),
    ("numpy", "ndarray", _array),
)


# --- pictures ---------------------------------------------------------------------------------------------------


def _picture(value: Any) -> bytes | None:
    """Return a figure as PNG: one that can be saved, as matplotlib's, or that shows itself as such; None for all else.
    Raises InputError if it is too large for a message."""
    # matplotlib's axes have a figure
    figure: Any = value if hasattr(value, "savefig") else getattr(value, "figure", None)
    if hasattr(figure, "savefig"):
        picture = b""
        for dpi in PICTURE_DPIS:
            out = io.BytesIO()
            figure.savefig(out, format="png", dpi=dpi, bbox_inches="tight")
            picture = out.getvalue()
            if len(picture) <= MOST_PICTURE_BYTES:
                break
    else:
        shows = getattr(type(value), "_repr_png_", None)
        found = shows(value) if shows is not None else None
        picture = found[0] if isinstance(found, tuple) else found  # the second is its metadata
        if isinstance(picture, str):  # IPython's own pictures are in base64 already
            picture = base64.b64decode(picture)
    if not isinstance(picture, bytes) or not picture:
        return None
    if len(picture) > MOST_PICTURE_BYTES:
        size = f"{len(picture) / 1e6:.1f} MB; a message can bring {MOST_PICTURE_BYTES / 1e6:.1f} MB"
        raise InputError(f"The picture has {size}.", hint="Make it smaller.", code="handover.picture")
    return picture


# --- tables -----------------------------------------------------------------------------------------------------


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(value: object) -> str:
    text = " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= MOST_CELL else f"{text[: MOST_CELL - 1]}…"


def _cut(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}…\n(cut: it has {len(text):,} characters)"


def schema_of(value: Any) -> JsonObject:
    """Return the JSON Schema that a variable stands for: a dict, or a class with `model_json_schema`, as pydantic's.

    Raises InputError for anything else.
    """
    maker = getattr(value, "model_json_schema", None)
    found: Any = maker() if isinstance(value, type) and callable(maker) else value
    if not isinstance(found, dict):
        raise InputError(
            f"A {type(value).__qualname__} is no schema.",
            hint="Name a dict with a JSON Schema, or a class of pydantic.",
            code="handover.schema",
        )
    return found


def made_by(maker: Any, value: Json) -> Any:
    """Return the object that a class of pydantic makes of a value that fits its schema. Raises InputError if the class
    asks for more than the schema says."""
    try:
        return maker.model_validate(value)
    except ValueError as error:
        reason = " ".join(str(error).split())[:MOST_INLINE]
        raise InputError(
            f"The answer fits the schema, and {maker.__name__} refuses it: {reason}", code="handover.schema"
        ) from None
