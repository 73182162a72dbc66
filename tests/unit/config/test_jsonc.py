"""JSON with comments: what is taken, where everything stands, and every complaint with its line and column."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.config.jsonc import MAX_CHARS, JsoncError, SourceLocation, parse
from ozzie_server_ext.domain.json import Json

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 2]))
def test_whatever_is_json_means_the_same_here(value: Any, indent: int | None) -> None:
    assert parse(json.dumps(value, indent=indent), "f").value == value


@given(st.text() | st.text(st.sampled_from('{}[]",:/*\\n1e-+.tu \n')))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    place = SourceLocation("f", 0, 0)
    try:
        parse(text, "f")
    except JsoncError as error:
        place = error.place
        assert place.line <= text.count("\n") + 1
        assert place.column >= 1
    assert place.file == "f"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // one\n "b": 2}', {"a": 1, "b": 2}),
        ('/* head */ {"a": /* in the middle */ 1} // tail', {"a": 1}),
        ("/* of\nmany\nlines */ [1]", [1]),
        ("/***/ 1", 1),
        ('{"a": 1,}', {"a": 1}),
        ("[1, 2,\n]", [1, 2]),
        ("{}", {}),
        ("[ ]", []),
        ('{"url": "http://h/*not*/"}', {"url": "http://h/*not*/"}),
        ('"\\u00e9\\n\\"\\\\"', 'é\n"\\'),
        ("\ufeff{}", {}),
        ("[true, false, null]", [True, False, None]),
        ("[-0.5, 1e3, 1E+2, 0, -7]", [-0.5, 1000.0, 100.0, 0, -7]),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("[" * 64 + "]" * 64, json.loads("[" * 64 + "]" * 64)),
    ],
)
def test_comments_and_trailing_commas_are_passed_over(text: str, value: Json) -> None:
    assert parse(text, "f").value == value


def test_whole_numbers_stay_whole() -> None:
    assert [type(item) for item in json.loads("[1, 1.0, 1e2]")] == [int, float, float]
    assert [type(item) for item in _list(parse("[1, 1.0, 1e2]", "f").value)] == [int, float, float]


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value


def test_every_key_and_element_has_its_place() -> None:
    document = parse('// head\n{\n  "a": {"b": 1},\n\t"list": [true,\n    false]\n}', "c.jsonc")

    assert {path: (place.line, place.column) for path, place in document.places.items()} == {
        (): (2, 1),
        ("a",): (3, 3),
        ("a", "b"): (3, 9),
        ("list",): (4, 2),
        ("list", 0): (4, 11),
        ("list", 1): (5, 5),
    }
    assert str(document.places["a", "b"]) == "c.jsonc, line 3, column 9"


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("", 1, 1, "the file ends where a value should be"),
        ("// only a comment", 1, 18, "the file ends"),
        ("{", 1, 2, "expected a key in double quotes"),
        ('{"a"', 1, 5, 'expected ":" after "a"'),
        ('{"a":', 1, 6, "the file ends"),
        ('{"a": 1', 1, 8, 'expected "," or "}"'),
        ('{"a": 1\n "b": 2}', 2, 2, 'expected "," or "}"'),
        ('{"a" 1}', 1, 6, 'expected ":" after "a"'),
        ("{a: 1}", 1, 2, "expected a key in double quotes"),
        ("{'a': 1}", 1, 2, "expected a key in double quotes"),
        ("{,}", 1, 2, "expected a key"),
        ('{"a": 1,, "b": 2}', 1, 9, "expected a key"),
        ('{\n  "a": 1,\n  "a": 2\n}', 3, 3, 'the key "a" appears twice'),
        ("[1", 1, 3, 'expected "," or "]"'),
        ("[1 2]", 1, 4, 'expected "," or "]"'),
        ("[,]", 1, 2, "expected a value, found ',]'"),
        ("[1,,2]", 1, 4, "expected a value"),
        ("[\n\n  nul]", 3, 3, "expected a value, found 'nul]'"),
        ("True", 1, 1, "expected a value"),
        ("NaN", 1, 1, "expected a value"),
        ("+1", 1, 1, "expected a value"),
        (".5", 1, 1, "expected a value"),
        ("-", 1, 1, "expected a value"),
        ("01", 1, 2, "more text after the end"),
        ("1.", 1, 2, "more text after the end"),
        ("0x10", 1, 2, "more text after the end"),
        ("[1e999]", 1, 2, "too large"),
        ("[" + "1" * 400 + "]", 1, 2, "too large"),
        ('{"a": "never closed}', 1, 7, "never closed on its line"),
        ('["two\nlines"]', 1, 2, "never closed on its line"),
        ('["tab\there"]', 1, 2, "never closed on its line"),
        ('["\\x"]', 1, 2, "invalid escape"),
        ('["\\ud800"]', 1, 2, "invalid escape"),
        ("{} {}", 1, 4, "more text after the end"),
        ("1 /* open\n\n", 1, 3, "this comment is never closed"),
        ("[1, /* open ]", 1, 5, "this comment is never closed"),
        ("1 / 2", 1, 3, "more text after the end"),
        ("[" * 65 + "]" * 65, 1, 65, "deeper than 64"),
        ('{"a":' * 64 + "[]" + "}" * 64, 1, 321, "deeper than 64"),
    ],
)
def test_a_mistake_is_named_where_it_stands(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(JsoncError) as refused:
        parse(text, "c.jsonc")

    assert (refused.value.place.line, refused.value.place.column) == (line, column)
    assert says in str(refused.value)
    assert str(refused.value).startswith(f"c.jsonc, line {line}, column {column}: ")
    assert refused.value.hint


def test_a_file_beyond_reason_is_refused() -> None:
    with pytest.raises(JsoncError, match="larger than 1,048,576 characters"):
        parse(" " * MAX_CHARS + "1", "f")
