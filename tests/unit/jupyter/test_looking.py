"""Looking at values: whatever a class of the user's could answer, it is not asked."""

import datetime
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.jupyter.kernels import MIME, expression, inspection_of
from ozzie_server_ext.jupyter.looking import describe

asked: list[str] = []


def _answers(name: str) -> Callable[..., Any]:
    def answer(*args: object, **how: object) -> Any:
        asked.append(name)
        raise SystemExit(name)

    return answer


_SPECIAL = (
    "__repr__",
    "__str__",
    "__format__",
    "__bytes__",
    "__len__",
    "__iter__",
    "__next__",
    "__getattr__",
    "__getattribute__",
    "__getitem__",
    "__bool__",
    "__hash__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__int__",
    "__float__",
    "__index__",
    "__call__",
    "__dir__",
    "__sizeof__",
    "__reduce__",
    "__deepcopy__",
    "__contains__",
    "__array__",
    "__array_interface__",
    "_repr_html_",
    "_repr_mimebundle_",
    "_ipython_display_",
    "_repr_pretty_",
)


class Meta(type):
    """One whose classes answer for their names, too."""

    def __getattribute__(cls, name: str) -> Any:
        asked.append(f"class {name}")
        raise SystemExit(name)

    def __instancecheck__(cls, instance: object) -> bool:
        asked.append("__instancecheck__")
        return True

    def __repr__(cls) -> str:
        asked.append("class repr")
        raise SystemExit


def hostile(base: type = object, *arguments: object) -> Any:
    """An object of a class below `base` that answers everything, by ending the program."""
    names = [name for name in _SPECIAL if not (base is not object and name in ("__getattribute__",))]
    body: dict[str, Any] = {name: _answers(name) for name in names}
    body["__class__"] = property(_answers("__class__"))
    made = Meta("Hostile", (base,), body)
    return base.__new__(made, *arguments)  # type: ignore[call-overload]


VALUES: dict[str, Callable[[], object]] = {
    "object": hostile,
    "list": lambda: hostile(list),
    "dict": lambda: hostile(dict),
    "int": lambda: hostile(int, 3),
    "str": lambda: hostile(str, "x"),
    "float": lambda: hostile(float, 1.0),
    "tuple": lambda: hostile(tuple, (1,)),
    "bytes": lambda: hostile(bytes, b"x"),
    "class": lambda: Meta("Hostile", (), {}),
    "in a list": lambda: [hostile(), [hostile()]],
    "in a tuple": lambda: (hostile(),),
    "in a dictionary": lambda: {"a": hostile(), 1: {"b": hostile()}},
    "in a data frame": lambda: pd.DataFrame({"a": pd.Series([hostile(), None, 1], dtype=object)}),
    "in a series": lambda: pd.Series([hostile()], dtype=object),
    "in an array": lambda: _array(hostile()),
    "attributes of a frame": lambda: _with_attrs(pd.DataFrame({"a": [1]})),
    "attributes of a series": lambda: _with_attrs(pd.Series([1])),
    "below a frame": lambda: _below(pd.DataFrame)({"a": [1]}),
    "below an array": lambda: np.zeros(3).view(_below(np.ndarray)),
    "a time zone": lambda: datetime.datetime(2026, 1, 1, tzinfo=_Zone()),
    "named by a text of its own": lambda: type(_Text("Hostile"), (), {})(),
}


def _array(item: object) -> object:
    found = np.empty(1, dtype=object)
    found[0] = item
    return found


def _with_attrs(value: Any) -> object:
    value.attrs["a"] = hostile()
    return value


def _below(kind: Any) -> Any:
    class Below(kind):
        def __repr__(self) -> str:
            asked.append("repr")
            return ""

        def __len__(self) -> int:
            asked.append("len")
            return 0

        @property
        def shape(self) -> Any:
            asked.append("shape")
            return (0,)

    return Below


class _Zone(datetime.tzinfo):
    def utcoffset(self, dt: Any) -> Any:
        asked.append("utcoffset")
        return datetime.timedelta(0)


class _Text(str):
    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        asked.append("text")
        return "x"

    encode = __len__ = __str__ = __getitem__  # type: ignore[assignment]


def test_the_traps_do_go_off() -> None:
    asks: tuple[Callable[[Any], object], ...] = (repr, len, lambda value: value.x, lambda value: type(value).__name__)
    for ask in asks:
        asked.clear()
        with pytest.raises(SystemExit):
            ask(hostile())
        assert asked


@pytest.mark.parametrize("kind", [*VALUES])
def test_nothing_of_the_users_is_asked_for_anything(kind: str) -> None:
    value = VALUES[kind]()
    asked.clear()
    listed, one = describe({"x": value}, ""), describe({"x": value}, "x")
    assert asked == []
    assert listed["variables"][0]["name"] == "x"
    assert json.loads(json.dumps(one))["variable"]["type"]


def test_what_is_not_asked_is_told_by_its_type_as_the_interpreter_has_it() -> None:
    assert describe({"x": hostile()}, "x")["variable"] == {
        "name": "x",
        "type": "Hostile",
        "note": "Only its type is told: to look further would run code of its own.",
    }


@pytest.mark.parametrize(
    "value",
    [
        10**100_000,
        "x" * 50_000_000,
        b"x" * 50_000_000,
        [[[[[0] * 1000] * 1000] * 1000] * 1000] * 1000,
        {str(number): "x" * 1000 for number in range(100_000)},
        set(range(1_000_000)),
        np.zeros((5000, 2000)),
        pd.DataFrame(np.zeros((10, 3000))),
        pd.DataFrame({"a": ["x" * 100_000] * 100}),
        range(10**30),
        "\ud800\udfff",
        np.array(["\ud800"]),
    ],
    ids=[
        "int",
        "str",
        "bytes",
        "list",
        "dict",
        "set",
        "array",
        "wide",
        "long texts",
        "range",
        "halves",
        "half in an array",
    ],
)
def test_what_is_huge_or_odd_is_told_in_little(value: object) -> None:
    for name in ("", "x"):
        assert len(json.dumps(describe({"x": value}, name)).encode()) < 40_000


def test_a_list_that_holds_itself_is_told() -> None:
    own: list[Any] = [1]
    own.append(own)
    assert describe({"x": own}, "x")["variable"]["value"] == "[1, [1, […]]]"


def test_of_many_variables_some_are_told_and_the_others_counted() -> None:
    described = describe({f"v{number:04}": number for number in range(1000)}, "")
    assert (len(described["variables"]), described["left_out"]) == (200, 800)


def test_a_frame_of_all_kinds_is_told_by_column() -> None:
    frame = pd.DataFrame(
        {
            "whole": [1, 2],
            "text": ["x", None],
            "half": [0.5, float("nan")],
            "day": pd.to_datetime(["2026-01-02", None]),
            "zoned": pd.to_datetime(["2026-01-02", "2026-01-03"]).tz_localize("UTC"),
            "kind": pd.Categorical(["u", None]),
            "maybe": pd.array([1, None], dtype="Int64"),
            "took": pd.to_timedelta([1, 2], unit="s"),
            7: [True, False],
        }
    )
    variable = describe({"x": frame}, "x")["variable"]
    assert [(each["name"], each["dtype"], each["missing"]) for each in variable["columns"]] == [
        ("whole", "int64", 0),
        ("text", "string", 1),
        ("half", "float64", 1),
        ("day", "datetime64", 1),
        ("zoned", "datetime64, in UTC", 0),
        ("kind", "category", 1),
        ("maybe", "Int64", 1),
        ("took", "timedelta64", 0),
        ("7", "bool", 0),
    ]
    assert variable["first"][1] == [
        "2",
        "nan",
        "nan",
        "NaT",
        "2026-01-03T00:00:00.000000",
        "missing",
        "missing",
        "0:00:02",
        "False",
    ]


def test_an_array_is_told_with_its_smallest_and_largest() -> None:
    value = np.array([[1.5, np.nan], [3.0, -2.0]])
    assert describe({"x": value}, "x")["variable"] == {
        "name": "x",
        "type": "ndarray",
        "size": "2 × 2, float64",
        "shape": [2, 2],
        "dtype": "float64",
        "bytes": 32,
        "min": "-2.0",
        "max": "3.0",
        "first": ["1.5", "nan", "3.0", "-2.0"],
    }


def test_the_expression_finds_the_users_names_and_leaves_none() -> None:
    own: dict[str, Any] = {"x": 1, "__builtins__": __builtins__}
    given = eval(expression("x"), own, own)
    assert inspection_of({"status": "ok", "data": given._repr_mimebundle_()}, "x") == {
        "variable": {"name": "x", "type": "int", "value": "1"}
    }
    assert sorted(own) == ["__builtins__", "x"]


@pytest.mark.parametrize("name", ["__import__('os')", "a.b", "a\n", "lambda", "'", "a" * 201])
def test_an_expression_holds_a_plain_name_or_is_not_made(name: str) -> None:
    with pytest.raises(InputError, match="is no plain name of a variable"):
        expression(name)


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, {"data": []}, {"data": {MIME: "text"}}, {"data": {MIME: {"a": float("nan")}}}, {"data": {MIME: []}}],
)
def test_what_a_kernel_gives_instead_is_not_taken(answer: object) -> None:
    with pytest.raises(InputError if answer == {"data": {MIME: {"a": float("nan")}}} else Exception):
        inspection_of(answer)
