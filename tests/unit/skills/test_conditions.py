"""Conditions compare values, and do nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.skills.conditions import MAX_CHARS, BadCondition, UnfitValues, read_condition
from ozzie_server_ext.skills.templates import BadTemplate, Reference

VALUES: dict[str, Json] = {
    "env": "prod",
    "count": 3,
    "empty": "",
    "five": " 5.0",
    "nothing": None,
    "ok": True,
    "tags": ["a", "b"],
    "report": {"score": 7},
    "steps.test-all.output.passed": True,
}


def find(reference: Reference) -> Json:
    return VALUES[str(reference)]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("{{env}} == 'prod'", True),
        ('{{env}} != "prod"', False),
        ("{{count}} >= 3 and {{count}} < 4", True),
        ("1 < {{count}} < 3", False),
        ("{{steps.test-all.output.passed}} == true", True),
        ("not {{ok}}", False),
        ("{{empty}}", False),
        ("{{nothing}} == null", True),
        ("{{env}} in ['test', 'prod']", True),
        ("'ro' in {{env}}", True),
        ("'c' not in {{tags}}", True),
        ("'score' in {{report}}", True),
        ("(  {{ok}} or {{nothing}}  ) and {{count}} == 3", True),
        ("{{ok}} == 1", False),
        ("{{count}} == 3.0", True),
        ("-1 < -0.5", True),
        ("{{env}} == 'prod'\n and {{ok}}", True),
        ("  {{ok}}", True),
        ("{{five}} > 3 and {{five}} == 5 and 10 >= {{five}}", True),
        ("{{five}} == '5.0'", False),
        ("{{env}} == 5", False),
    ],
)
def test_a_condition_holds_or_does_not(text: str, holds: bool) -> None:
    assert read_condition(text).holds(find) is holds


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "{{env}}.upper() == 'PROD'",
        "{{tags}}[0] == 'a'",
        "[x for x in {{tags}}]",
        "lambda: 1",
        "{{count}} + 1 == 4",
        "f'{1}' == '1'",
        "b'a' == b'a'",
        "1 if {{ok}} else 2",
        "(x := 1)",
        "env == 'prod'",
        "True",
        "...",
        "1j == 1j",
        "{{ok}} is true",
        "",
        "   ",
        "==",
        "{{ok}} = true",
        "'\\d' == 1",
        "(" * 300,
        "not " * 120 + "{{ok}}" + ")",
        "\0",
        "1; 2",
        "*{{tags}}",
    ],
)
def test_anything_but_a_comparison_is_refused(text: str) -> None:
    with pytest.raises(BadCondition):
        read_condition(text)


def test_the_place_of_a_mistake_is_counted_in_characters_of_the_text() -> None:
    with pytest.raises(BadCondition) as caught:
        read_condition("  'é' == {{env}} and x")
    assert caught.value.at == len("  'é' == {{env}} and ")


def test_a_condition_has_a_length() -> None:
    with pytest.raises(BadCondition, match="500"):
        read_condition(" " * MAX_CHARS + "1")


@pytest.mark.parametrize("text", ["{{env}} < 3", "{{nothing}} > 1", "{{ok}} < true", "1 in {{env}}", "1 in {{count}}"])
def test_values_without_an_order_are_told_and_not_guessed(text: str) -> None:
    with pytest.raises(UnfitValues):
        read_condition(text).holds(find)


@given(st.text(max_size=80))
def test_whatever_stands_there_it_is_read_or_refused(text: str) -> None:
    try:
        condition = read_condition(text)
    except (BadCondition, BadTemplate):
        return
    try:
        assert condition.holds(lambda reference: None) in (True, False)
    except UnfitValues:
        return
