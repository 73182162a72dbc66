"""Which model a selector chooses: S0's examples, any registry against a plain reference, and what is no selector."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.config.jsonc import parse
from ozzie_server_ext.config.settings import ModelsSettings
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.models.selector import (
    InvalidSelector,
    NoCandidate,
    Resolution,
    Tag,
    parse_selector,
    resolve,
)

S0 = Path(__file__).parents[1] / "config" / "examples" / "s0_models.jsonc"


def s0_resolution(selector: Mapping[str, Any]) -> Resolution:
    """What the selector comes to among the models of the specification."""
    document = parse(S0.read_text(), str(S0)).value
    settings = ModelsSettings.model_validate(document["models"])  # pyright: ignore
    return ModelRegistry(settings, {}).select(parse_selector(dict(selector)))


def fitting(found: Resolution) -> list[str]:
    return [each.name for each in found.weighed if each.fits]


# --- the worked examples of the specification -------------------------------------------------------------------


def test_the_daily_digest_gets_haiku() -> None:
    found = s0_resolution(
        {
            "required": [{"key": "security", "op": "Gte", "value": 2}],
            "preferred": [
                {"key": "cost", "op": "Eq", "value": "low"},
                {"key": "speed", "op": "Eq", "value": "very-fast"},
            ],
        }
    )
    assert fitting(found) == ["sonnet", "haiku", "infomaniak-llm", "local-llama", "compliance-ft"]
    assert {each.name: each.score for each in found.weighed if each.fits} == {
        "sonnet": 0,
        "haiku": 2,
        "infomaniak-llm": 0,
        "local-llama": 0,
        "compliance-ft": 0,
    }
    assert found.expect() == "haiku"


def test_the_compliance_checker_gets_the_tuned_model_at_level_four() -> None:
    found = s0_resolution(
        {
            "required": [
                {"key": "security", "op": "Gte", "value": 4},
                {"key": "capability", "op": "In", "values": ["compliance", "general"]},
            ],
            "preferred": [{"key": "capability", "op": "Eq", "value": "compliance"}],
        }
    )
    assert fitting(found) == ["local-llama", "compliance-ft"]
    assert [each.score for each in found.weighed if each.fits] == [0, 1]
    assert found.expect() == "compliance-ft"


def test_the_compliance_checker_as_a_skill_file_has_it_gets_the_tuned_model_at_level_three() -> None:
    found = s0_resolution(
        {
            "required": [
                {"key": "security", "op": "Gte", "value": 3},
                {"key": "capability", "op": "In", "values": ["compliance", "general"]},
            ],
            "preferred": [
                {"key": "capability", "op": "Eq", "value": "compliance"},
                {"key": "cost", "op": "Eq", "value": "free"},
            ],
        }
    )
    assert fitting(found) == ["infomaniak-llm", "local-llama", "compliance-ft"]
    assert [each.score for each in found.weighed if each.fits] == [0, 1, 2]
    assert found.expect() == "compliance-ft"


def test_the_first_declared_of_equals_is_chosen() -> None:
    assert s0_resolution({"required": [{"key": "security", "op": "Gte", "value": 4}]}).expect() == "local-llama"


def test_a_selector_that_asks_for_nothing_takes_the_first_model() -> None:
    assert s0_resolution({}).expect() == "sonnet"


# --- any registry, any selector -----------------------------------------------------------------------

_KEYS = st.sampled_from(["a", "b", "c"])
_TEXTS = st.sampled_from(["x", "y", "1", ""])
_NUMBERS = st.one_of(st.integers(-2, 2), st.sampled_from([-0.5, 1.0, 2.0]))
_TAGS = st.one_of(_TEXTS, _NUMBERS, st.booleans())


@st.composite
def constraints(draw: st.DrawFn) -> dict[str, Any]:
    op = draw(st.sampled_from(["Eq", "NotEq", "In", "NotIn", "Gte", "Lte", "Exists"]))
    found: dict[str, Any] = {"key": draw(_KEYS), "op": op}
    if op in ("In", "NotIn"):
        found["values"] = draw(st.lists(_TEXTS, min_size=1, max_size=3))
    elif op in ("Gte", "Lte"):
        found["value"] = draw(_NUMBERS)
    elif op != "Exists":
        found["value"] = draw(_TAGS)
    return found


def _type(value: object) -> str:
    return {"str": "text", "bool": "bool"}.get(type(value).__name__, "number")


def plain_match(constraint: dict[str, Any], tags: Mapping[str, Tag]) -> bool:
    """S0's table of operators, said once more: no tag or another type is no match."""
    key, op = constraint["key"], constraint["op"]
    if key not in tags:
        return False
    tag: Any = tags[key]
    if op == "Exists":
        return True
    if op in ("In", "NotIn"):
        return _type(tag) == "text" and (tag in constraint["values"]) == (op == "In")
    value = constraint["value"]
    if _type(tag) != _type(value):
        return False
    compared = {"Eq": tag == value, "NotEq": tag != value}
    if op in compared:
        return compared[op]
    return tag >= value if op == "Gte" else tag <= value


def plain_choice(selector: dict[str, Any], models: Mapping[str, Mapping[str, Tag]]) -> str | None:
    chosen, best = None, -1
    for name, tags in models.items():
        if all(plain_match(each, tags) for each in selector["required"]):
            score = sum(plain_match(each, tags) for each in selector["preferred"])
            if score > best:
                chosen, best = name, score
    return chosen


@given(
    models=st.dictionaries(st.sampled_from("pqrstuv"), st.dictionaries(_KEYS, _TAGS), max_size=7),
    required=st.lists(constraints(), max_size=3),
    preferred=st.lists(constraints(), max_size=4),
)
def test_a_choice_is_that_of_the_algorithm_as_it_is_written(
    models: dict[str, dict[str, Tag]], required: list[dict[str, Any]], preferred: list[dict[str, Any]]
) -> None:
    selector = {"required": required, "preferred": preferred}
    found = resolve(parse_selector(json.loads(json.dumps(selector))), models)

    assert found.chosen == plain_choice(selector, models)
    assert [each.name for each in found.weighed] == list(models)
    for each in found.weighed:
        assert each.fits == all(plain_match(wanted, models[each.name]) for wanted in required)
        assert each.score == sum(plain_match(wished, models[each.name]) for wished in preferred)
        assert all(failed.reason for failed in each.failed)
    if found.chosen is None:
        with pytest.raises(NoCandidate):
            found.expect()


# --- types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraint", "tag", "reason"),
    [
        ({"op": "Eq", "value": 1}, True, "its k is true, which is no number"),
        ({"op": "Eq", "value": True}, 1, "its k is 1, which is no yes or no"),
        ({"op": "NotEq", "value": "us"}, 3, "its k is 3, which is no text"),
        ({"op": "NotIn", "values": ["us"]}, 3, "its k is 3, which is no text"),
        ({"op": "Gte", "value": 3}, "4", "its k is 4, which is no number"),
        ({"op": "Gte", "value": 3}, 2.5, "its k is 2.5"),
        ({"op": "Lte", "value": 3}, 3.5, "its k is 3.5"),
        ({"op": "In", "values": ["eu", "ch"]}, "us", "its k is us"),
    ],
)
def test_why_a_model_does_not_match_is_said(constraint: dict[str, Any], tag: Tag, reason: str) -> None:
    found = resolve(parse_selector({"required": [{"key": "k", **constraint}]}), {"m": {"k": tag}})
    assert [failed.reason for failed in found.weighed[0].failed] == [reason]


@pytest.mark.parametrize("op", [{"op": "NotEq", "value": "us"}, {"op": "NotIn", "values": ["us"]}])
def test_what_nobody_said_of_a_model_does_not_make_it_eligible(op: dict[str, Any]) -> None:
    found = resolve(parse_selector({"required": [{"key": "jurisdiction", **op}]}), {"m": {}})
    assert [failed.reason for failed in found.weighed[0].failed] == ['it has no tag "jurisdiction"']


# --- nothing fits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ({}, "No model is configured, so none can be chosen by its tags."),
        ({"a": {"s": 1, "t": 1}, "b": {"s": 2}}, "No configured model meets s >= 3 or u exists."),
        (
            {"a": {"s": 4}, "b": {"s": 1, "u": "x"}},
            'No configured model meets all that is required. The nearest is "a", which lacks u exists: '
            'it has no tag "u".',
        ),
    ],
)
def test_the_constraint_that_failed_is_named(models: dict[str, dict[str, Tag]], said: str) -> None:
    selector = parse_selector({"required": [{"key": "s", "op": "Gte", "value": 3}, {"key": "u", "op": "Exists"}]})
    with pytest.raises(NoCandidate) as caught:
        resolve(selector, models).expect()
    assert str(caught.value) == said


# --- what is no selector ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "selector: must be an object in braces."),
        ({"required": {}}, "required: must be a list."),
        ({"required": "ab"}, "required: must be a list."),
        ({"requird": []}, "requird: there is no such key."),
        ({"required": [3]}, "required[0]: must be an object in braces."),
        ({"required": [{"key": "a"}]}, 'required[0]: it has no "op".'),
        ({"required": [{"op": "Exists"}]}, "required[0].key: it is missing."),
        ({"required": [{"key": "", "op": "Exists"}]}, "required[0].key: must not be empty."),
        ({"required": [{"key": "a" * 201, "op": "Exists"}]}, "required[0].key: has more than 200."),
        ({"required": [{"key": 3, "op": "Exists"}]}, "required[0].key: must be a text."),
        ({"required": [{"key": "a", "op": "Exists", "extra": 1}]}, "required[0].extra: there is no such key."),
        ({"required": [{"key": "a", "op": "Exists", "value": True}]}, "required[0].value: there is no such key."),
        (
            {"required": [{"key": "a", "op": "Equals", "value": 1}]},
            "required[0]: \"op\" must be one of 'Eq', 'NotEq', 'In', 'NotIn', 'Gte', 'Lte', 'Exists'.",
        ),
        (
            {"required": [{"key": "a", "op": 3}]},
            "required[0]: \"op\" must be one of 'Eq', 'NotEq', 'In', 'NotIn', 'Gte', 'Lte', 'Exists'.",
        ),
        (
            {"preferred": [{"key": "a", "op": "Eq", "value": [1]}]},
            "preferred[0].value: must be a text, a number, true or false.",
        ),
        (
            {"preferred": [{"key": "a", "op": "NotEq", "value": None}]},
            "preferred[0].value: must be a text, a number, true or false.",
        ),
        ({"required": [{"key": "a", "op": "Eq"}]}, "required[0].value: it is missing."),
        ({"required": [{"key": "a", "op": "Gte", "value": "3"}]}, "required[0].value: must be a number."),
        ({"required": [{"key": "a", "op": "Lte", "value": True}]}, "required[0].value: must be a number."),
        ({"required": [{"key": "a", "op": "NotIn", "values": []}]}, "required[0].values: must not be empty."),
        ({"required": [{"key": "a", "op": "In", "values": "xy"}]}, "required[0].values: must be a list."),
        ({"required": [{"key": "a", "op": "In", "values": ["x", 1]}]}, "required[0].values[1]: must be a text."),
        ({"required": [{"key": "a", "op": "In", "values": ["x"] * 1001}]}, "required[0].values: has more than 1000."),
        ({"preferred": [{"key": "a", "op": "Exists"}] * 65}, "preferred: has more than 64."),
    ],
)
def test_an_operator_unfit_for_its_value_is_refused_with_its_place(raw: Any, said: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        parse_selector(raw)
    assert str(caught.value) == said


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(InvalidSelector) as caught:
        parse_selector({"required": [{"key": "a", "op": "Gte", "value": "x"}], "preferred": [{"op": "Exists"}]})
    assert str(caught.value).splitlines() == [
        "required[0].value: must be a number.",
        "preferred[0].key: it is missing.",
    ]


@pytest.mark.parametrize(
    "constraint", [{"op": "In", "value": "x"}, {"op": "NotEq", "values": ["x"]}, {"op": "Gte", "values": ["x"]}]
)
def test_the_key_that_an_operator_does_not_take_is_named_with_the_one_that_it_does(constraint: Any) -> None:
    with pytest.raises(InvalidSelector) as caught:
        parse_selector({"required": [{"key": "a", **constraint}]})
    given, wanted = ("value", "values") if "value" in constraint else ("values", "value")
    assert set(str(caught.value).splitlines()) == {
        f"required[0].{wanted}: it is missing.",
        f"required[0].{given}: there is no such key.",
    }
