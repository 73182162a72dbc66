"""Strict JSON: what is refused, what is repaired, and that what is taken comes back the same."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.protocol.jsontext import (
    LONG_TEXT,
    MAX_BYTES,
    InvalidJson,
    canonical_bytes,
    canonical_parts,
    dumps,
    loads,
    loads_object,
    parts_around,
    repair_text,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**80), max_value=2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), VALUES, max_size=6), st.lists(VALUES))
def test_parts_are_the_canonical_json_with_each_item_of_the_list_apart(value: dict[str, Any], items: list[Any]) -> None:
    value["messages"] = items
    parts = canonical_parts(value, "messages")
    assert b"".join(parts) == canonical_bytes(value)
    assert [loads(part.removeprefix(b",")) for part in parts[1:-1]] == items


LONG = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(lambda text: text * LONG_TEXT)


@given(st.lists(st.fixed_dictionaries({"role": st.text("abc"), "content": LONG | st.just("short")})))
def test_a_long_text_is_a_part_by_itself_wherever_it_is_written(items: list[Any]) -> None:
    parts = canonical_parts({"alias": "a", "messages": items}, "messages", text="content")
    assert b"".join(parts) == canonical_bytes({"alias": "a", "messages": items})
    for text in (item["content"] for item in items if item["content"] != "short"):
        answer = canonical_bytes({"cost": 0, "text": text, "usage": {}})
        assert b"".join(parts_around(answer, text)) == answer
        assert canonical_bytes(text) in parts
        assert canonical_bytes(text) in parts_around(answer, text)


def test_what_is_short_or_written_otherwise_stays_whole() -> None:
    for written, text in ((b'{"text":"short"}', "short"), (b'{"text":"***"}', "x" * LONG_TEXT), (b"{}", None)):
        assert parts_around(written, text) == [written]


@given(VALUES)
def test_what_is_written_is_read_back_the_same(value: Any) -> None:
    for raw in (dumps(value), dumps(value).encode(), canonical_bytes(value)):
        assert loads(raw) == value


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(), max_size=6))
def test_the_canonical_spelling_does_not_depend_on_the_order_of_keys(value: dict[str, int]) -> None:
    assert canonical_bytes(value) == canonical_bytes(dict(reversed(value.items())))


@given(st.text() | st.binary())
def test_any_text_is_read_or_refused_in_words(text: str | bytes) -> None:
    refused, value = "", None
    try:
        value = loads(text)
    except InvalidJson as error:
        refused = str(error)

    assert refused or loads(dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("NaN", "NaN"),
        ('{"a": Infinity}', "Infinity"),
        ("[-Infinity]", "-Infinity"),
        ("1e999", "too large"),
        ("[-1e999]", "too large"),
        ("1" * 5000, "too many digits"),
        ('{"a":1,"a":2}', 'The key "a" stands twice'),
        ('[{"b":{"a":1,"\\u0061":2}}]', "stands twice"),
        ("", "Not JSON"),
        ("{} {}", "Not JSON"),
        ("{'a':1}", "Not JSON"),
        ("[1,]", "Not JSON"),
        ("// c\n1", "Not JSON"),
        ('"\t"', "Not JSON"),
        ('"\\ud800"', "surrogate"),
        ('{"\\udfff":1}', "surrogate"),
        ('["\\ude00\\ud83d"]', "surrogate"),
        ('"\ud800"', "surrogate"),
        ("\ufeff1", "Not JSON"),
    ],
)
def test_what_is_not_json_as_ozzie_takes_it_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidJson, match=says.replace("[", "\\[")):
        loads(text)


@pytest.mark.parametrize("raw", [b'"\xff"', b'"\xed\xa0\x80"', b"\xff\xfe1\x00", b'"\xc3'])
def test_bytes_that_are_not_utf_8_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidJson, match="not UTF-8"):
        loads(raw)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_64_levels_are_taken_and_65_are_not(opening: str, closing: str) -> None:
    assert loads(opening * 64 + "1" + closing * 64) is not None
    with pytest.raises(InvalidJson, match="deeper than 64"):
        loads(opening * 65 + "1" + closing * 65)


def test_empty_containers_count_as_levels_too() -> None:
    assert loads("[" * 64 + "]" * 64)
    with pytest.raises(InvalidJson, match="deeper than 64"):
        loads("[" * 65 + "]" * 65)


def test_brackets_in_a_text_are_no_levels() -> None:
    assert loads('"' + "[" * 500 + '"') == "[" * 500


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_an_enormous_depth_is_refused_and_does_not_crash(opening: str) -> None:
    with pytest.raises(InvalidJson):
        loads(opening * 150_000)
    with pytest.raises(InvalidJson, match="deeper than"):
        loads("[" * 150_000 + "]" * 150_000)


@pytest.mark.parametrize("letter", ["a", "é", "€", "😀"])
def test_the_size_is_bounded_in_bytes_of_utf_8(letter: str) -> None:
    width = len(letter.encode())
    fits = '"' + letter * ((1000 - 2) // width) + '"'
    over = '"' + letter * (1000 // width) + '"'

    for text in (fits, fits.encode()):
        assert loads(text, max_bytes=1000) == fits[1:-1]
    for text in (over, over.encode()):
        with pytest.raises(InvalidJson, match="larger than 1,000 bytes"):
            loads(text, max_bytes=1000)


def test_without_being_told_a_mebibyte_is_the_most() -> None:
    assert loads('"' + "a" * (MAX_BYTES - 2) + '"')
    with pytest.raises(InvalidJson, match="larger"):
        loads('"' + "a" * (MAX_BYTES - 1) + '"')


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ('"a\\ud800b"', "a\ufffdb"),
        ('"\\udc00"', "\ufffd"),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('["\ud800"]', ["\ufffd"]),
        ('{"\\ud800":{"b":["\\udfff"]}}', {"\ufffd": {"b": ["\ufffd"]}}),
        ('{"a":1,"b":true,"c":null}', {"a": 1, "b": True, "c": None}),
    ],
)
def test_where_it_is_asked_for_lone_surrogates_are_repaired(text: str, repaired: Any) -> None:
    assert loads(text, surrogates="repair") == repaired


@given(st.text(st.characters(categories=["Cs", "Ll", "So"])))
def test_a_repaired_text_is_utf_8_and_a_sound_one_stays_as_it_is(text: str) -> None:
    repaired = repair_text(text)

    assert repaired.encode().decode() == repaired
    assert repair_text(repaired) == repaired
    try:
        text.encode()
    except UnicodeEncodeError:
        assert repaired != text
    else:
        assert repaired == text


@pytest.mark.parametrize("text", ["[]", "1", "null", '"{}"'])
def test_where_an_object_is_needed_nothing_else_will_do(text: str) -> None:
    assert loads_object('{"a":1}') == {"a": 1}
    with pytest.raises(InvalidJson, match="object"):
        loads_object(text)


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": -math.inf}, "\ud800", {1j}, object(), b"x"])
def test_what_json_cant_say_is_not_written(value: Any) -> None:
    for write in (dumps, canonical_bytes):
        with pytest.raises(InvalidJson):
            write(value)


def test_the_canonical_spelling_is_compact_sorted_utf_8() -> None:
    assert canonical_bytes({"b": "é", "a": [1, 2.5, None]}) == '{"a":[1,2.5,null],"b":"é"}'.encode()
    assert json.loads(dumps({"b": 1, "a": 2})) == {"b": 1, "a": 2}
    assert dumps({"b": 1, "a": 2}) == '{"b":1,"a":2}'
