"""Variables of a Python notebook in messages: what a model reads of each, and what is refused."""

import base64
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from IPython.display import Image
from matplotlib.figure import Figure
from pydantic import BaseModel

from ozzie_kernel.handover import MOST_CHARACTERS, MOST_PICTURE_BYTES, fill, made_by, schema_of
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.messages import media_type_of, mentioned_pictures

PRICES = pd.DataFrame(
    {
        "tea": ["Green", "Black", None, "Green"],
        "price": [3.85, 4.35, float("nan"), 4.0],
        "when": pd.to_datetime(["2026-05-01", "2026-05-02", "2026-05-03", "2026-05-04"]),
        "left": [True, False, True, True],
    }
)


def told(value: Any) -> str:
    """What a message says of one variable."""
    return fill("See {x}", {"x": value}).text


def figure(edge: float = 4.0) -> Figure:
    made = Figure(figsize=(edge, edge))
    made.subplots().plot([1, 3, 2])
    return made


@pytest.mark.parametrize(
    ("value", "said"),
    [("green tea", "green tea"), (3.5, "3.5"), (7, "7"), (True, "True"), (None, "None"), (np.float64(2.5), "2.5")],
)
def test_a_short_value_stands_in_the_sentence(value: object, said: str) -> None:
    assert fill("Is {x} much, {x}?", {"x": value}).text == f"Is {said} much, {said}?"


def test_only_names_in_braces_are_filled_in_and_each_once() -> None:
    text = r"{{x}} {x} \\frac{1}{2} {} { x } {a b} {\"k\": 1}"

    assert fill(text, {"x": "{y}", "y": 1}).text == r"{x} {y} \\frac{1}{2} {} { x } {a b} {\"k\": 1}"


def test_a_frame_is_its_shape_types_statistics_and_first_rows() -> None:
    text = told(PRICES)

    assert text.startswith("See `x`\n\n`x`: a pandas DataFrame of 4 rows and 4 columns\n")
    for line in (
        "| tea | str | 1 | 2 different: Green (2), Black (1) |",
        "| price | float64 | 1 | min 3.85, mean 4.06667, max 4.35 |",
        "| left | bool | 0 | 2 different: True (3), False (1) |",
        "| Green | 3.85 | 2026-05-01 00:00:00 | True |",
    ):
        assert line in text.replace("| object |", "| str |").splitlines(), text
    assert "min 2026-05-01 00:00:00, max 2026-05-04 00:00:00" in text
    assert "Its beginning:" in text


def test_of_a_large_frame_only_a_part_is_sent_and_it_says_so() -> None:
    wide = pd.DataFrame(np.zeros((10_000, 300)), columns=[f"c{number}" for number in range(300)])

    text = told(wide)

    assert "of 10,000 rows and 300 columns; the first 30 of them" in text
    assert "Its beginning:" in text
    assert "c30" not in text
    assert len(text) <= MOST_CHARACTERS + 100


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (PRICES["price"], "a pandas Series, as a pandas DataFrame of 4 rows and 1 column\n"),
        (pd.DataFrame(), "a pandas DataFrame of 0 rows and 0 columns"),
        (pd.DataFrame({1: [2], ("a", "b"): [3]}), "| 1 | int64 | 0 | min 2, mean 2, max 2 |"),
        (pd.DataFrame({"a": pd.Categorical(["x"]), "b": [b"\\x00|"]}), "| x | b'\\\\x00\\|' |"),
        (np.arange(100.0).reshape(10, 10), "a numpy array, 10 × 10, of float64. min 0, mean 49.5, max 99."),
        (np.array([np.nan, 1.0]), "min 1, mean 1, max 1. The first values: nan, 1.0"),
        (np.array([]), "a numpy array, 0, of float64, empty"),
        (np.array(["a", "b"]), "of <U1. The first values: a, b"),
        (np.array(["2026-01-01"], dtype="M8[ns]"), "The first values: 2026-01-01T00:00:00.000000000"),
        (np.array("A" * 300), "a numpy array, no dimension, of <U300."),
        (10**4000, "int:\n\n1000"),
        (pd.Series({"Rome": 2, "Oslo": 1}, name="teas"), "| Rome | 2 |\n| Oslo | 1 |"),
        (pd.DataFrame({"a": [1]}, index=["x"]), "of 1 row and 1 column, after its index\n"),
        (pd.DataFrame({"savefig": [1]}), "| savefig | int64 | 0 |"),
        (dict, "type:\n\n<class 'dict'>"),
        ([1, 2, {"a": None}], 'list of 3:\n\n[1, 2, {"a": null}]'),
        ({date(2026, 5, 1)}, "set of 1:\n\n{datetime.date(2026, 5, 1)}"),
        ("two\nlines", "a text of 9 characters:\n\ntwo\nlines"),
    ],
)
def test_anything_else_is_described_below_the_message(value: object, said: str) -> None:
    text = told(value)

    assert text.startswith("See `x`\n\n`x`: ")
    assert said in text


@pytest.mark.parametrize("value", ["see @secret.png", pd.DataFrame({"a": ["at @plans/secret.png"]}), ["x @secret.png"]])
def test_no_value_can_name_a_picture_of_the_project(value: object) -> None:
    filled = fill("Compare {x} with @plot.png.", {"x": value})

    assert list(mentioned_pictures(filled.text)) != ["plot.png"], "it would be taken for a mention"
    assert filled.params["named"] == ["plot.png"]


def test_what_is_long_is_cut_and_says_how_long_it_is() -> None:
    text = told("word " * 100_000)

    assert len(text) < MOST_CHARACTERS + 200
    assert text.endswith("(cut: it has 500,036 characters)")


def test_a_variable_that_is_named_twice_is_described_once() -> None:
    assert fill("{x} and {x}", {"x": PRICES}).text.count("a pandas DataFrame") == 1


@pytest.mark.parametrize("of", ["figure", "axes", "image"])
def test_a_figure_is_a_picture(of: str) -> None:
    made = figure()
    with_png = {"figure": made, "axes": made.axes[0], "image": Image(data=base64.b64decode(_png(made)))}

    filled = fill("What is wrong in {plot}?", {"plot": with_png[of]})

    assert filled.text == "What is wrong in `plot`?\n\n`plot`: the picture picture-1.png"
    (picture,) = filled.pictures
    assert picture["name"] == "picture-1.png"
    assert media_type_of(base64.b64decode(str(picture["data"]))) == "image/png"


def test_a_large_figure_is_made_smaller_or_refused() -> None:
    noise = np.random.default_rng(0).random((700, 700, 3))
    made = Figure(figsize=(7, 7))
    made.figimage(noise)

    (picture,) = fill("{x}", {"x": made}).pictures

    assert len(base64.b64decode(str(picture["data"]))) <= MOST_PICTURE_BYTES
    with pytest.raises(InputError, match=r"^With x, the message has 1\.0 MB; it can bring 0\.6 MB of pictures\.$"):
        fill("{x}", {"x": Image(data=b"\x89PNG\r\n\x1a\n" + bytes(1_000_000))})


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        ("{prices}", "There is no variable prices.", "{{prices}}"),
        ("{x.columns}", "{x.columns} is no name of a variable.", "(x = x.columns)"),
        ("{x[0]}", "{x[0]} is no name of a variable.", "{{ }} are braces"),
        ("{x!r}", "{x!r} is no name of a variable.", "{{ }} are braces"),
        ("{x:.2f}", "{x:.2f} is no name of a variable.", "{{ }} are braces"),
        ("{Öl}", "There is no variable Öl.", "{{Öl}}"),
        ("{bad}", "bad can't be handed over: RuntimeError: no more\\u001b[2J", ""),
    ],
)
def test_what_can_not_be_handed_over_is_refused_in_words(text: str, sentence: str, hint: str) -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no\nmore\x1b[2J")

    with pytest.raises(InputError) as refused:
        fill(text, {"x": PRICES, "bad": Bad()})
    assert str(refused.value) == sentence
    assert hint in refused.value.hint


class Price(BaseModel):
    tea: str
    price: float


def test_a_schema_is_a_dict_or_a_class_of_pydantic() -> None:
    assert schema_of({"type": "array"}) == {"type": "array"}
    assert schema_of(Price)["required"] == ["tea", "price"]
    assert made_by(Price, {"tea": "Green", "price": 3.5}) == Price(tea="Green", price=3.5)
    for value in ({"type": str}, {"a": {1, 2}}):
        with pytest.raises(InputError, match=r"^This is no JSON Schema: TypeError"):
            schema_of(value)
    for value, kind in ((7, "int"), (int, "type"), (Price(tea="a", price=1), "Price")):
        with pytest.raises(InputError, match=f"^A {kind} is no schema"):
            schema_of(value)
    with pytest.raises(InputError, match="Price refuses it: ValidationError: 1 validation error"):
        made_by(Price, {"tea": "Green"})


def _png(made: Figure) -> str:
    return str(fill("{x}", {"x": made}).pictures[0]["data"])
