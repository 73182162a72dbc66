"""Describe the variables of a kernel. This file is sent there as text, and runs beside the user's code.

So it imports nothing of ours, leaves no name behind, and calls nothing that a class of the user's can override: neither
`repr`, `len` nor an attribute of what is not exactly a built-in type, or one of NumPy's and pandas' that are loaded
already. For everything else it gives only the type's name, as the interpreter has it.
"""

import sys

MIME = "application/vnd.ozzie.variables+json"
MOST_VARIABLES = 200
MOST_COLUMNS = 60
MOST_LOOKED_AT = 20_000_000
"""Elements of an array that are searched for the smallest, the largest, and missing ones."""
MOST_OBJECTS = 100_000
_NAME = type.__dict__["__name__"].__get__
_HIDDEN = ("In", "Out", "exit", "quit", "open", "get_ipython")
_TEXTS = {"O": "object", "M": "datetime64", "m": "timedelta64", "V": "structured"}
_INDEXES = ("Index", "RangeIndex", "DatetimeIndex", "TimedeltaIndex", "CategoricalIndex", "PeriodIndex")
_MASKED = ("IntegerArray", "FloatingArray", "BooleanArray")
_NUMBERS = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
_FUNCTION, _MODULE = type(lambda: None), type(sys)


class Answer:
    """The answer, in a form for which no formatter of the user's is called."""

    def __init__(self, data):
        self.data = data

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": "", MIME: self.data}


def describe(user: dict, name: str) -> dict:
    """Return the variables of a namespace, or one of them; {} if there is none of that name."""
    if name:
        return {"variable": {"name": name, **_whole(user[name])}} if name in user else {}
    names = sorted(each for each in list(user) if type(each) is str and _is_users(each, user[each]))
    return {
        "variables": [{"name": _text(each, 100), **_short(user[each])} for each in names[:MOST_VARIABLES]],
        "left_out": max(len(names) - MOST_VARIABLES, 0),
    }


def _is_users(name, value):
    return not name.startswith("_") and name not in _HIDDEN and type(value) is not _MODULE


def _short(value):
    found = {"type": type_name(value)}
    try:
        size, text = _size(value), brief(value)
    except Exception:
        size, text = "", ""
    if size:
        found["size"] = size
    if text:
        found["value"] = text
    return found


def _whole(value):
    found = _short(value)
    try:
        more = _more(value)
    except Exception:
        more = {"note": "It could not be looked at further."}
    return {**found, **more}


def _more(value):
    kind = type(value)
    if kind is str:
        return {"value": _text(value, 4000)}
    if kind is dict:
        return {"items": [f"{brief(key)}: {brief(each)}" for key, each in _first(value.items(), 30)]}
    if kind in (list, tuple, set, frozenset):
        return {"items": [brief(each) for each in _first(value, 30)]}
    if _is(value, "numpy", "ndarray"):
        return _array(value)
    if _is(value, "pandas", "DataFrame"):
        return _frame(value)
    if _is(value, "pandas", "Series"):
        return _series(value)
    if "value" in _short(value):
        return {}
    return {"note": "Only its type is told: to look further would run code of its own."}


def type_name(value):
    return _text("".join((_NAME(type(value)),)), 100)


def _text(text, most):
    """Return `text` cut and sendable: a lone surrogate is not."""
    return text[:most].encode("utf-8", "backslashreplace").decode("utf-8") + ("…" if len(text) > most else "")


def _first(values, count):
    found = []
    for each in values:
        found.append(each)
        if len(found) == count:
            break
    return found


def _size(value):
    kind = type(value)
    if kind is str:
        return f"{len(value):,} characters"
    if kind in (bytes, bytearray):
        return f"{len(value):,} bytes"
    if kind in (list, tuple, set, frozenset, dict, range):
        return f"{len(value):,} items"
    if _is(value, "numpy", "ndarray"):
        return f"{' × '.join(f'{each:,}' for each in value.shape) or 'no dimensions'}, {_dtype(value.dtype)}"
    if _is(value, "pandas", "DataFrame"):
        columns, index = value._mgr.axes
        return f"{_count(index)} rows × {_count(columns)} columns"
    if _is(value, "pandas", "Series"):
        return f"{_count(value._mgr.axes[0])} rows, {_kind_of(_held(value))}"
    return ""


def brief(value, depth=0):
    """Return a value in a few characters, as Python writes it; "" if only its type is known."""
    kind = type(value)
    if value is None or kind in (bool, float, complex):
        return repr(value)
    if kind is int:
        bits = value.bit_length()
        return repr(value) if bits <= 256 else f"(an integer of {bits:,} bits)"
    if kind is str:
        return _text(repr(value[:80]), 400) + ("…" if len(value) > 80 else "")
    if kind in (bytes, bytearray):
        return repr(bytes(value[:30])) + ("…" if len(value) > 30 else "")
    if kind is range:
        return _text(repr(value), 200)
    if kind is dict:
        return _within(
            "{", (f"{_part(key, depth)}: {_part(each, depth)}" for key, each in value.items()), "}", value, depth
        )
    for each, (begin, end) in ((list, "[]"), (tuple, "()"), (set, "{}"), (frozenset, "{}")):
        if kind is each:
            return _within(begin, (_part(item, depth) for item in value), end, value, depth)
    if kind is type:
        return "class " + _text("".join((_NAME(value),)), 100)
    if kind is _FUNCTION:
        return "function"
    return _of_library(value, kind)


def _part(value, depth):
    return brief(value, depth + 1) or f"<{type_name(value)}>"


def _within(begin, parts, end, value, depth):
    if depth == 2 and len(value):
        return f"{begin}…{end}"
    shown = ", ".join(_first(parts, 5))
    return f"{begin}{shown}{', …' if len(value) > 5 else ''}{end}"


def _of_library(value, kind):
    if value is _member("pandas", "NA") or value is _member("pandas", "NaT"):
        return "missing"
    if kind is _member("datetime", "date") or (kind is _member("datetime", "datetime") and value.tzinfo is None):
        return value.isoformat()
    if kind is _member("datetime", "timedelta"):
        return str(value)
    for name in _NUMBERS:
        if kind is _member("numpy", name):
            return repr(value.item())
    if kind is _member("numpy", "bool_"):
        return repr(bool(value))
    return ""


def _member(module, name):
    """Return a member of a module that is loaded; else `Answer`, which no value is."""
    loaded = sys.modules.get(module)
    if type(loaded) is not _MODULE:
        return Answer
    return object.__getattribute__(loaded, "__dict__").get(name, Answer)


def _is(value, module, name):
    return type(value) is _member(module, name)


# --- NumPy ---------------------------------------------------------------------------------------------


def _dtype(dtype):
    return _TEXTS.get(dtype.kind) or dtype.name


def _array(value):
    facts = {"shape": list(value.shape), "dtype": _dtype(value.dtype), "bytes": value.nbytes}
    if value.dtype.kind in "biuf" and 0 < value.size <= MOST_LOOKED_AT:
        numpy = sys.modules["numpy"]
        with numpy.errstate(all="ignore"):
            facts["min"] = brief(numpy.fmin.reduce(value, axis=None).item())
            facts["max"] = brief(numpy.fmax.reduce(value, axis=None).item())
    first = _values(value.reshape(-1)[:10] if value.flags.c_contiguous else value.flat[:10], 10)
    return facts if first is None else {**facts, "first": first}


# --- pandas --------------------------------------------------------------------------------------------


def _frame(value):
    columns, index = value._mgr.axes
    rows = _known_length(index)
    labels = _labels(columns)
    if labels is None:
        return {"note": "Its columns can't be looked at without running code of their own."}
    described, shown = [], []
    for number, label in enumerate(labels[:MOST_COLUMNS]):
        held = value._get_column_array(number)
        described.append({"name": label, "dtype": _kind_of(held), **_missing(held)})
        shown.append(_values(held, 5))
    length = min(5, rows if rows is not None else 0)
    empty = ["?"] * length
    return {
        "rows": rows,
        "columns": described,
        "left_out": max(len(labels) - MOST_COLUMNS, 0),
        "first": [list(row) for row in zip(*(each if each is not None else empty for each in shown), strict=False)],
    }


def _series(value):
    held = _held(value)
    facts = {"rows": _known_length(value._mgr.axes[0]), "dtype": _kind_of(held), **_missing(held)}
    first = _values(held, 10)
    return facts if first is None else {**facts, "first": first}


def _held(series):
    return series._mgr.blocks[0].values


def _known_length(index):
    return len(index) if any(_is(index, "pandas", name) for name in (*_INDEXES, "MultiIndex")) else None


def _count(index):
    length = _known_length(index)
    return "?" if length is None else f"{length:,}"


def _labels(index):
    """Return the names of columns; None if they are of a class of the user's."""
    if _is(index, "pandas", "RangeIndex"):
        return [brief(each) for each in _first(iter(index), MOST_COLUMNS)] + [""] * max(len(index) - MOST_COLUMNS, 0)
    if _is(index, "pandas", "MultiIndex"):
        levels = [_labels(level) for level in index._levels]
        if any(level is None for level in levels):
            return None
        codes = [code.tolist() for code in index._codes]
        parts = [_at(level, code) for level, code in zip(levels, codes, strict=False)]
        return ["(" + ", ".join(each) + ")" for each in zip(*parts, strict=False)]
    if not any(_is(index, "pandas", name) for name in _INDEXES):
        return None
    raw = _raw(index._values)
    if raw is not None and raw.dtype.kind in "OU":
        return [_text(each, 100) if type(each) is str else _part(each, 0) for each in raw[:10_000].tolist()]
    return _values(index._values, 10_000)


def _at(names, codes):
    return [names[code] if 0 <= code < len(names) else "missing" for code in codes]


def _array_kind(held):
    """Return the name of the class if it is one of pandas' own arrays, else ""."""
    if _is(held, "pandas", "Categorical"):
        return "Categorical"
    arrays = _member("pandas", "arrays")
    if type(arrays) is not _MODULE:
        return ""
    inside = object.__getattribute__(arrays, "__dict__")
    for name in ("DatetimeArray", "TimedeltaArray", "StringArray", "ArrowStringArray", "NumpyExtensionArray", *_MASKED):
        kind = inside.get(name)
        # In pandas 3 those with other missing values are subclasses of these, also by pandas.
        if kind is not None and (type(held) is kind or _is_variant(type(held), kind, name)):
            return name
    return ""


def _is_variant(kind, of, name):
    if not name.endswith("StringArray"):
        return False
    module = sys.modules.get(
        "pandas.core.arrays.string_" if name == "StringArray" else "pandas.core.arrays.string_arrow"
    )
    if type(module) is not _MODULE:
        return False
    return kind is object.__getattribute__(module, "__dict__").get(f"{name}NumpySemantics", Answer)


def _raw(held):
    """Return the NumPy array that holds the values, or None."""
    if _is(held, "numpy", "ndarray"):
        return held.reshape(-1) if held.ndim > 1 else held
    if _array_kind(held) in ("DatetimeArray", "TimedeltaArray", "StringArray", "NumpyExtensionArray"):
        return _raw(held._ndarray)
    return None


def _kind_of(held):
    if _is(held, "numpy", "ndarray"):
        return _dtype(held.dtype)
    kind = _array_kind(held)
    if kind == "Categorical":
        return "category"
    if kind.endswith("StringArray"):
        return "string"
    if kind == "DatetimeArray":
        return "datetime64" if _is_plain(held.dtype) else "datetime64, in UTC"
    if kind in _MASKED:
        return _NAME(type(held.dtype)).replace("Dtype", "")
    raw = _raw(held)
    return type_name(held) if raw is None else _dtype(raw.dtype)


def _is_plain(dtype):
    return _member("numpy", "dtype") in type.__dict__["__mro__"].__get__(type(dtype))


def _values(held, count):
    """Return the first values in a few characters each; None if that would run code of their own."""
    raw = _raw(held)
    if raw is not None:
        if raw.dtype.kind == "M":
            return [_text(each, 40) for each in sys.modules["numpy"].datetime_as_string(raw[:count]).tolist()]
        if raw.dtype.kind == "m":
            return [_text(str(each), 40) for each in raw[:count].astype("timedelta64[us]").tolist()]
        if raw.dtype.kind in "biufcSUO":
            return [brief(each) or f"<{type_name(each)}>" for each in raw[:count].tolist()]
        return None
    kind = _array_kind(held)
    if kind == "Categorical":
        names = _labels(held.dtype.categories)
        codes = held._codes[:count].tolist()
        return None if names is None else _at(names, codes)
    if kind in _MASKED:
        pairs = zip(held._data[:count].tolist(), held._mask[:count].tolist(), strict=False)
        return ["missing" if masked else brief(each) for each, masked in pairs]
    if kind == "ArrowStringArray":
        inner = getattr(held, "_pa_array", None)
        return None if inner is None else [brief(each) for each in inner.slice(0, count).to_pylist()]
    return None


def _missing(held):
    """Return how many are missing, if that can be counted."""
    raw, kind = _raw(held), _array_kind(held)
    if kind == "Categorical":
        return {"missing": int((held._codes == -1).sum())}
    if kind in _MASKED:
        return {"missing": int(held._mask.sum())}
    if kind == "ArrowStringArray":
        inner = getattr(held, "_pa_array", None)
        return {} if inner is None else {"missing": int(inner.null_count)}
    if raw is None or raw.size > (MOST_OBJECTS if raw.dtype.kind == "O" else MOST_LOOKED_AT):
        return {}
    numpy = sys.modules["numpy"]
    if raw.dtype.kind in "fc":
        return {"missing": int(numpy.isnan(raw).sum())}
    if raw.dtype.kind in "mM":
        return {"missing": int(numpy.isnat(raw).sum())}
    if raw.dtype.kind == "O":
        return {"missing": sum(1 for each in raw.tolist() if each is None or _is_nothing(each))}
    return {"missing": 0}


def _is_nothing(value):
    if type(value) is float:
        return value != value
    return value is _member("pandas", "NA") or value is _member("pandas", "NaT")
