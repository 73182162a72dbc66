"""What a schema may say, and whether an answer fits it."""

from typing import Any

import pytest

from ozzie_server_ext.agent.structured_output import (
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    check_schema,
    enforcement,
    expect_bounded,
    misfit,
    without_metadata,
)
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.answers import value_in, value_of
from ozzie_server_ext.protocol.jsontext import InvalidJson, canonical_bytes, loads
from ozzie_server_ext.protocol.ndjson import decode_line, encode_line
from ozzie_server_ext.render.turnview import Part, TextPart, TurnView, WorkPart

CITY: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["city"],
}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        CITY,
        {"type": "array", "items": {"$ref": "#/$defs/one"}, "$defs": {"one": {"type": "number"}}},
        {"enum": ["yes", "no"]},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
        {"const": {"$ref": "http://127.0.0.1:9/x"}, "default": {"$ref": "other.json"}, "examples": [{"$ref": "no"}]},
        {"properties": {"$ref": {"type": "string"}}},
    ],
)
def test_a_schema_is_taken(schema: JsonObject) -> None:
    check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"type": "text"}, 'The schema is no JSON Schema, at $.type: "text" is not valid'),
        ({"properties": 3}, 'The schema is no JSON Schema, at $.properties: 3 is not of type "object".'),
        ({"$ref": "#/$defs/none"}, "The schema is no JSON Schema, at $: Pointer '/$defs/none' does not exist."),
        ({"pattern": "(?=a)b"}, 'The schema is no JSON Schema, at $.pattern: "(?=a)b" is not a "regex".'),
        ({"pattern": "(a{1000}){1000}"}, "The schema is no JSON Schema, at $.pattern: "),
        (
            {"$schema": "http://json-schema.org/draft-07/schema"},
            "The schema says that it is written in http://json-schema.org/draft-07/schema; it has to be draft 2020-12.",
        ),
        ({"$schema": 7}, "The schema says that it is written in 7;"),
        ({"$ref": "http://127.0.0.1:9/x"}, "The schema refers to http://127.0.0.1:9/x; it may refer only to"),
        ({"items": {"$ref": "other.json"}}, "The schema refers to other.json; it may refer only to itself."),
        ({"unknown": {"$ref": "http://127.0.0.1:9/x"}, "$ref": "#/unknown"}, "The schema "),
        ({"anyOf": [{"$ref": "file:///etc/passwd"}]}, "The schema refers to file:///etc/passwd"),
    ],
)
def test_what_is_no_schema_or_leads_outside_is_refused(schema: JsonObject, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        check_schema(schema)

    assert str(refused.value).startswith(sentence)
    assert (refused.value.code, bool(refused.value.hint)) == ("schema.invalid", True)


def nested(levels: int) -> JsonObject:
    schema: JsonObject = {}
    for _ in range(levels - 1):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize("schema", [{"title": "x" * MAX_SCHEMA_BYTES}, nested(MAX_SCHEMA_DEPTH + 1)])
def test_a_schema_that_is_too_large_or_too_deep_is_refused(schema: JsonObject) -> None:
    with pytest.raises(InputError, match="it may have 32 kB and 32 levels") as refused:
        expect_bounded(schema)
    assert refused.value.code == "schema.invalid"


def test_the_deepest_schema_passes_through_everything_that_it_travels_in() -> None:
    """Frames and lines have levels of their own, and are read with one limit."""
    schema = nested(MAX_SCHEMA_DEPTH)
    expect_bounded(schema)
    sent = {"payload": {"answer_schema": schema}}

    assert loads(canonical_bytes([{"event": sent}])) == [{"event": sent}]
    assert decode_line(encode_line({"request": {"schema": schema}})) == {"request": {"schema": schema}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"city": "Rome"}', {"city": "Rome"}),
        (" \n[1, 2.5]\n", [1, 2.5]),
        ('```json\n{"city": "Rome"}\n```', {"city": "Rome"}),
        ("```\n7\n```", 7),
    ],
)
def test_a_value_is_read_alone_or_from_one_block_of_code(text: str, value: Any) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize("text", ["", "Rome", '{"city": "Rome"} is it', "```\n```", '{"a": 1, "a": 2}', '{"a": NaN}'])
def test_anything_else_is_no_value(text: str) -> None:
    with pytest.raises(InvalidJson):
        value_of(text)
    assert misfit({}, text).startswith("It is not one JSON value: ")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ('{"city": "Rome", "people": 3}', ""),
        ('{"people": 3}', 'At $: "city" is a required property.'),
        ('{"city": 3}', 'At $.city: the value is not of type "string".'),
        ('{"city": "Rome", "people": -1}', "At $.people: the value is less than the minimum of 0."),
    ],
)
def test_a_misfit_is_told_with_its_place(answer: str, problem: str) -> None:
    assert misfit(CITY, answer) == problem


def test_a_long_value_does_not_hide_what_is_wrong_with_it() -> None:
    assert misfit({"type": "string"}, str(list(range(5000)))) == 'At $: the value is not of type "string".'


def test_a_number_without_end_is_told_without_a_setting_of_pythons() -> None:
    assert misfit({}, "9" * 5000) == "It is not one JSON value: A number has too many digits."


def test_what_a_misfit_says_is_bounded() -> None:
    closed: JsonObject = {"additionalProperties": False}
    assert len(misfit(closed, f'{{"{"x" * 5000}": 1}}')) < 700
    assert len(misfit({"additionalProperties": closed}, f'{{"{"x" * 5000}": {{"a": 1}}}}')) < 700


def test_no_pattern_takes_for_ever() -> None:
    """Python's `re` would need some 2^60 steps for this one."""
    schema: JsonObject = {"type": "string", "pattern": "^(a+)+$"}
    check_schema(schema)

    assert "does not match" in misfit(schema, f'"{"a" * 60}b"')


def test_a_schema_that_is_its_own_part_comes_to_an_end() -> None:
    schema: JsonObject = {"type": "array", "items": {"$ref": "#"}}
    check_schema(schema)

    assert misfit(schema, "[[], [[]]]") == ""
    assert misfit(schema, "[[7]]") == 'At $[0][0]: the value is not of type "array".'


_WORD: JsonObject = {"type": "string"}
_CLOSED: JsonObject = {"type": "object", "properties": {"a": _WORD}, "required": ["a"], "additionalProperties": False}


def with_a(part: Any) -> JsonObject:
    return {**_CLOSED, "properties": {"a": part}}


def doubling(times: int) -> JsonObject:
    """Unfolded, it has 2^times parts."""
    defs: dict[str, Any] = {"d0": _WORD}
    for n in range(1, times):
        defs[f"d{n}"] = {"anyOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2}
    return {**with_a({"$ref": f"#/$defs/d{times - 1}"}), "$defs": defs}


@pytest.mark.parametrize(
    "schema",
    [
        _CLOSED,
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        with_a(_CLOSED),
        with_a({"type": "array", "items": _CLOSED}),
        with_a({"anyOf": [_WORD, {"type": "null"}]}),
        with_a({"type": ["string", "null"]}),
        with_a({"type": "string", "enum": ["x", {"properties": 3}]}),
        with_a({"type": "string", "const": {"type": "object"}}),
        {**with_a({"$ref": "#/$defs/b"}), "$defs": {"b": {"$ref": "#/$defs/c"}, "c": _WORD}},
        doubling(5),
    ],
)
def test_a_closed_schema_is_one_that_every_provider_can_hold_to(schema: JsonObject) -> None:
    assert enforcement(schema) == "closed"


@pytest.mark.parametrize(
    "schema",
    [
        CITY,
        {**_CLOSED, "required": []},
        {**_CLOSED, "required": 3},
        {**_CLOSED, "additionalProperties": True},
        {"type": "object", "properties": {"a": _WORD}, "required": ["a"]},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        with_a({"type": "object"}),
        with_a({"type": "array"}),
        with_a({"type": ["object", "null"]}),
        with_a({"type": ["array", "null"]}),
        with_a({"type": "array", "items": True}),
        with_a({"anyOf": [_WORD, False]}),
        with_a({"enum": ["x"]}),
        with_a(True),
        {**with_a({"$ref": "#/$defs/b", "description": "a word"}), "$defs": {"b": _WORD}},
        {**_CLOSED, "anyOf": [_CLOSED]},
        {**_CLOSED, "enum": [{"a": "x"}]},
        with_a({}),
        with_a({"properties": {"b": _WORD}}),
        with_a({"type": "string", "format": "date"}),
        with_a({"anyOf": [_WORD, {"type": "object"}]}),
        {**_CLOSED, "$defs": {"b": {"allOf": [_WORD]}}},
    ],
)
def test_a_plain_schema_is_an_object_that_a_grammar_can_be_made_of(schema: JsonObject) -> None:
    assert enforcement(schema) == "plain"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        _WORD,
        {"type": ["object", "null"]},
        {"anyOf": [_CLOSED]},
        with_a({"$ref": "#"}),
        {**with_a({"$ref": "#/$defs/b"}), "$defs": {"b": {"type": "array", "items": {"$ref": "#/$defs/b"}}}},
        {**with_a({"$ref": "#/$defs/none"}), "$defs": {}},
        {**with_a({"$ref": "#/properties/b"}), "$defs": 3},
        with_a({**_WORD, "$defs": {"b": _WORD}}),
        with_a({"$dynamicRef": "#x"}),
        # What litellm would take for a reference.
        {"type": "object", "properties": {"$ref": _WORD}, "required": ["$ref"], "additionalProperties": False},
        with_a({"type": "string", "const": {"$ref": 3}}),
        {**with_a({"$ref": "#/$defs/b"}), "$defs": {"b": True}},
        doubling(40),
    ],
)
def test_a_schema_that_is_no_object_or_does_not_unfold_is_given_to_nobody(schema: JsonObject) -> None:
    assert enforcement(schema) == ""


def test_what_a_schema_says_of_itself_does_not_count() -> None:
    said = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "x", "$comment": "y", **_CLOSED}
    assert without_metadata(said) == _CLOSED


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        ((TextPart(reply_id="r", text='{"a": 1}'),), {"a": 1}),
        ((), None),
        ((TextPart(reply_id="r", text="Let me look."),), None),
        ((TextPart(reply_id="r", text="1"), WorkPart(rows=())), None),
    ],
)
def test_the_value_of_a_turn_is_its_last_answer_if_that_was_not_erased(parts: tuple[Part, ...], value: Any) -> None:
    assert value_in(TurnView(parts=parts).last_text) == value
