"""Texts with braces in them are filled in once, and with nothing but what was declared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.skills.templates import BadTemplate, Reference, fill, parse, references, resolve

VALUES: dict[str, Json] = {
    "env": "prod",
    "count": 3,
    "nothing": None,
    "list": ["a", 1],
    "evil": "{{env}} {{steps.x.output}}",
    "steps.gather-context.output": {"ok": True},
    "steps.gather-context.output.ok": True,
}


def find(reference: Reference) -> Json:
    return VALUES[str(reference)]


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("Deploy to {{env}}.", "Deploy to prod."),
        ("{{ env }}{{env}}", "prodprod"),
        ("{{count}} of {{list}}", '3 of ["a",1]'),
        ("<{{nothing}}>", "<>"),
        ("{{steps.gather-context.output}}", '{"ok":true}'),
        ("no braces, { one }, }} two", "no braces, { one }, }} two"),
        ('{{"{{"}}env{{"}}"}}', "{{env}}"),
        ("{{ '{{' }}", "{{"),
        ("", ""),
    ],
)
def test_references_are_replaced_by_what_they_stand_for(text: str, filled: str) -> None:
    assert fill(text, find) == filled


def test_braces_in_what_is_filled_in_name_nothing() -> None:
    assert fill("Read: {{evil}}", find) == "Read: {{env}} {{steps.x.output}}"


def test_a_text_that_is_one_reference_becomes_the_value_itself() -> None:
    assert resolve({"n": "{{count}}", "l": ["{{list}}", "{{count}} x"], "b": True}, find) == {
        "n": 3,
        "l": [["a", 1], "3 x"],
        "b": True,
    }


def test_references_are_found_in_all_texts_of_a_value() -> None:
    found = references({"a": "{{env}}", "b": [{"c": "x {{steps.s.output.y.0}}"}], "d": 1})
    assert [(str(each), each.step) for each in found] == [("env", ""), ("steps.s.output.y.0", "s")]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("ab {{env", 3),
        ("{{}}", 0),
        ("{{a b}}", 0),
        ("x{{1a}}", 1),
        ("{{steps.a}}", 0),
        ("{{steps.a.result}}", 0),
        ("{{a..b}}", 0),
        ("{{ .Env.KEY }}", 0),
        ('{{"{{" ', 0),
        ("{{__import__('os')}}", 0),
    ],
)
def test_what_is_no_reference_is_refused_with_its_place(text: str, at: int) -> None:
    with pytest.raises(BadTemplate) as caught:
        parse(text)
    assert caught.value.at == at


@given(st.text(max_size=60), st.text(max_size=30))
def test_any_text_is_taken_in_as_it_is_or_refused(before: str, value: str) -> None:
    """What is filled in comes through whole, whatever it is."""
    text = before.replace("{{", "").removesuffix("{") + "{{x}}"
    assert fill(text, lambda reference: value) == text.removesuffix("{{x}}") + value
