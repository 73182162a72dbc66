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
from dataclasses import dataclass
from types import ModuleType, NoneType
from typing import Any

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.messages import mentioned_pictures
from ozzie_server_ext.render.text import counted, visible_label

MOST_CHARACTERS = 6_000
"""Of the description of one variable; what is longer is cut, and says so."""
MOST_INLINE = 200
"""Characters of a value in the middle of a sentence."""
MOST_COLUMNS = 30
FIRST_ROWS = 5
MOST_ROWS = 100_000
"""Rows from which statistics are made: more of them would take seconds."""
MOST_CELL = 60
"""Characters of one cell of a table."""
MOST_ITEMS = 20
"""Values of an array."""
PICTURE_DPIS = (100, 50)
"""Dots per inch at which a figure is saved: the second if the first is too large."""
MOST_PICTURE_BYTES = 600_000
"""Of all pictures of a message. Their base64, beside the text, fits into a frame of 1 MiB (SPEC)."""

_PLACE = re.compile(r"\{\{|\}\}|\{(?P<name>[^\W\d]\w*)(?P<rest>[.\[(!:][^{}\n]*)?\}")


@dataclass(frozen=True, slots=True)
class Filled:
    """A message with the values of its variables, and the pictures among them, as `message.send` takes them. `named`
    are the pictures of the project that the message names as it was typed: a value can name none."""

    text: str
    pictures: list[JsonObject]
    named: list[Json]

    @property
    def params(self) -> JsonObject:
        """The parameters of `message.send` for its pictures."""
        return {"pictures": [*self.pictures], "named": self.named}


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

    filled = "\n\n".join([_PLACE.sub(value, text), *below.values()])
    # A lone surrogate, as in the name of a file, is no text.
    whole = filled.encode("utf-8", "replace").decode()
    return Filled(whole, pictures, [*mentioned_pictures(text)])


def _told(name: str, value: Any, below: dict[str, str], pictures: list[JsonObject]) -> str:
    """Return what stands for the variable in the sentence; add to what follows the message."""
    try:
        inline = _inline(value)
        if inline is not None:
            return inline
        if name not in below:
            below[name] = _below(name, value, pictures)
    except InputError:
        raise
    except Exception as error:  # code of a library or the user's own runs here: repr, savefig, describe
        raise InputError(f"{name} can't be handed over: {_reason(error)}", code="handover.value") from None
    return f"`{name}`"


def _below(name: str, value: Any, pictures: list[JsonObject]) -> str:
    described = _described(value)
    picture = _picture(value) if described is None else None
    if picture is None:
        return _cut(f"`{name}`: {_plain(value) if described is None else described}")
    data, ending = picture
    size = sum(len(str(other["data"])) * 3 // 4 for other in pictures) + len(data)
    if size > MOST_PICTURE_BYTES:
        most = f"{MOST_PICTURE_BYTES / 1e6:.1f} MB of pictures"
        sentence = f"With {name}, the message has {size / 1e6:.1f} MB; it can bring {most}."
        raise InputError(
            sentence, hint="Make the pictures smaller, or write several messages.", code="handover.picture"
        )
    file = f"picture-{len(pictures) + 1}.{ending}"
    pictures.append({"name": file, "data": base64.b64encode(data).decode()})
    return f"`{name}`: the picture {file}"


def _inline(value: Any) -> str | None:
    """Return a short value as part of a sentence; None if it is none."""
    if type(value) is str and "\n" in value:
        return None
    is_short = type(value) in (str, bool, int, float, NoneType) or (
        type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    )
    if not is_short or (type(value) is int and value.bit_length() > MOST_INLINE):
        return None
    said = str(value)
    return said if len(said) <= MOST_INLINE else None


def _described(value: Any) -> str | None:
    """Return a description of a frame, an array or a long text; None for all else."""
    for module, kind, describe in _KINDS:
        found = sys.modules.get(module)  # a library that is not loaded can't have made the value
        if found is not None and isinstance(value, getattr(found, kind)):
            return describe(value)
    return f"a text of {counted(len(value), 'character')}:\n\n{value}" if isinstance(value, str) else None


def _plain(value: Any) -> str:
    try:
        size = f" of {len(value):,}"
    except Exception:  # a class has a `__len__` and no length
        size = ""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        shown = repr(value)
    return f"{type(value).__qualname__}{size}:\n\n{shown}"


# --- pandas and numpy --------------------------------------------------------------------------------------


def _pandas_frame(frame: Any) -> str:
    pandas = sys.modules["pandas"]
    rows, columns = frame.shape
    has_index = not isinstance(frame.index, pandas.RangeIndex)
    looked_at = frame.iloc[:MOST_ROWS]
    named = [*(looked_at.index.to_frame(index=False).items() if has_index else ()), *looked_at.items()][:MOST_COLUMNS]
    about = [[str(name), str(each.dtype), f"{int(each.isna().sum()):,}", _statistics(each)] for name, each in named]
    first = frame.iloc[:FIRST_ROWS]
    first = (first.reset_index(allow_duplicates=True) if has_index else first).iloc[:, :MOST_COLUMNS]
    kind = f"a pandas DataFrame of {counted(rows, 'row')} and {counted(columns, 'column')}"
    kind += ", after its index" if has_index else ""
    kind += f"; the first {MOST_COLUMNS} of them" if columns > MOST_COLUMNS else ""
    kind += f"; statistics of the first {MOST_ROWS:,} rows" if rows > MOST_ROWS else ""
    told = _table(["column", "type", "missing", "statistics"], about)
    if not rows:
        return f"{kind}\n\n{told}"
    begin = _table(
        [str(name) for name in first.columns], [list(map(str, row)) for row in first.itertuples(index=False)]
    )
    return f"{kind}\n\n{told}\n\nIts beginning:\n\n{begin}"


def _pandas_series(series: Any) -> str:
    name = "value" if series.name is None else series.name
    return f"a pandas Series, as {_pandas_frame(series.to_frame(name))}"


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


def _array(array: Any) -> str:
    numpy: Any = sys.modules["numpy"]
    shape = " × ".join(f"{size:,}" for size in array.shape) or "no dimension"
    kind = f"a numpy array, {shape}, of {array.dtype}"
    if not array.size:
        return f"{kind}, empty"
    looked_at = numpy.asarray(array).ravel()[:MOST_ROWS]
    numbers = looked_at[~numpy.isnan(looked_at)] if array.dtype.kind in "iuf" else looked_at[:0]
    of = f" of the first {MOST_ROWS:,} values" if array.size > MOST_ROWS else ""
    told = f"min {numbers.min():g}, mean {numbers.mean():g}, max {numbers.max():g}{of}. " if numbers.size else ""
    first = looked_at[:MOST_ITEMS]
    items = ", ".join(_cell(item) for item in (first.astype(str) if array.dtype.kind in "mM" else first).tolist())
    return f"{kind}. {told}The first values: {items}{', …' if array.size > MOST_ITEMS else ''}"


_KINDS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("pandas", "DataFrame", _pandas_frame),
    ("pandas", "Series", _pandas_series),
    ("numpy", "ndarray", _array),
)


# --- pictures ---------------------------------------------------------------------------------------------------


def _picture(value: Any) -> tuple[bytes, str] | None:
    """Return a figure with the ending of its form: one that can be saved, as matplotlib's and its axes', or that shows
    itself as a picture; None for all else."""
    figure: Any = value if _has(value, "savefig") else getattr(value, "figure", None)
    if not isinstance(value, type | ModuleType) and _has(figure, "savefig"):
        picture = b""
        for dpi in PICTURE_DPIS:
            out = io.BytesIO()
            figure.savefig(out, format="png", dpi=dpi, bbox_inches="tight")
            picture = out.getvalue()
            if len(picture) <= MOST_PICTURE_BYTES:
                break
        return picture, "png"
    for shows, ending in (("_repr_png_", "png"), ("_repr_jpeg_", "jpg")):
        found = getattr(value, shows)() if _has(value, shows) and not isinstance(value, type) else None
        picture = found[0] if isinstance(found, tuple) else found  # the second is its metadata
        if isinstance(picture, str):  # IPython's own pictures are in base64 already
            picture = base64.b64decode(picture)
        if isinstance(picture, bytes) and picture:
            return picture, ending
    return None


def _has(value: Any, method: str) -> bool:
    """Whether a method belongs to the class of a value; a frame makes an attribute of each column."""
    return callable(getattr(type(value), method, None))


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


def _reason(error: Exception) -> str:
    return visible_label(f"{type(error).__name__}: {error}")[:MOST_INLINE]


# --- schemas ----------------------------------------------------------------------------------------------------


def schema_of(value: Any) -> JsonObject:
    """Return the JSON Schema that a variable stands for: a dict, or a class with `model_json_schema`, as pydantic's.

    Raises InputError for anything else.
    """
    hint = "Name a dict with a JSON Schema, or a class of pydantic."
    makes = getattr(value, "model_json_schema", None) if isinstance(value, type) else None
    if not callable(makes) and not isinstance(value, dict):
        raise InputError(f"A {type(value).__qualname__} is no schema.", hint=hint, code="handover.schema")
    try:
        found: Any = makes() if callable(makes) else value
        json.dumps(found)
    except Exception as error:
        raise InputError(f"This is no JSON Schema: {_reason(error)}", hint=hint, code="handover.schema") from None
    return found


def made_by(maker: Any, value: Json) -> Any:
    """Return the object that a class of pydantic makes of a value that fits its schema. Raises InputError if the class
    asks for more than the schema says."""
    try:
        return maker.model_validate(value)
    except Exception as error:  # its validators are the user's own code
        raise InputError(
            f"The answer fits the schema, and {maker.__name__} refuses it: {_reason(error)}", code="handover.schema"
        ) from None
