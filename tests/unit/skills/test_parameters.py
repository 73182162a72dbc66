"""What a skill is given: typed as key=value, with defaults, and nothing that it does not take."""

from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.skills.library import read
from ozzie_server_ext.skills.parameters import fitted, parameters_of, typed, usage
from ozzie_server_ext.skills.spec import Skill


def skill(variables: str, more: str = "") -> Skill:
    return read(Path("FILE"), f'{{"name": "s", "vars": {variables}{more}}}'.encode()).skill


SEVERAL = skill(
    """{"env": {"required": true, "description": "Where"}, "count": {"type": "integer", "default": 3},
        "dry": {"type": "boolean", "default": false}, "tags": {"type": "array"}, "level": {"enum": ["low", "high"]}}"""
)
FREE = read(Path("FILE"), b'{"name": "free"}').skill


def test_its_schema_says_what_its_file_does() -> None:
    assert parameters_of(SEVERAL) == {
        "type": "object",
        "properties": {
            "env": {"type": "string", "description": "Where"},
            "count": {"type": "integer", "default": 3},
            "dry": {"type": "boolean", "default": False},
            "tags": {"type": "array"},
            "level": {"type": "string", "enum": ["low", "high"]},
        },
        "required": ["env"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["env=prod"], {"env": "prod"}),
        (["env=a=b", "count=5", "dry=true"], {"env": "a=b", "count": 5, "dry": True}),
        (["env=3", 'tags=["x", 1]'], {"env": "3", "tags": ["x", 1]}),
        (["env="], {"env": ""}),
    ],
)
def test_words_become_values_of_the_type_that_is_wanted(words: list[str], given: dict[str, Json]) -> None:
    assert typed(SEVERAL, words) == given


def test_a_skill_of_one_text_takes_it_without_a_name() -> None:
    assert typed(FREE, ["compare", "a=1", "with b"]) == {"input": "compare a=1 with b"}
    assert typed(FREE, ["input=x"]) == {"input": "x"}


def test_what_is_left_out_has_its_default_or_is_nothing() -> None:
    assert fitted(SEVERAL, {"env": "prod"}) == {"env": "prod", "count": 3, "dry": False, "tags": None, "level": None}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["prod"], '"prod" is not key=value.'),
        (["env=a", "env=b"], '"env" is given twice.'),
        (["env=a", "count=many"], "\"count\" must be a whole number; it is 'many'."),
        (["env=a", "tags=x"], "\"tags\" must be a list; it is 'x'."),
        (["env=a", "count=NaN"], "\"count\" must be a whole number; it is 'NaN'."),
    ],
)
def test_words_that_can_not_be_read_are_refused_in_words(words: list[str], says: str) -> None:
    with pytest.raises(InputError) as caught:
        typed(SEVERAL, words)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, 's needs "env".'),
        ({"env": None}, 's needs "env".'),
        ({"env": "a", "x": 1}, 's takes no "x".'),
        ({"env": 1}, '"env" must be a text.'),
        ({"env": "a", "count": 1.5}, '"count" must be a whole number.'),
        ({"env": "a", "count": True}, '"count" must be a whole number.'),
        ({"env": "a", "dry": 1}, '"dry" must be true or false.'),
        ({"env": "a", "level": "mid"}, '"level" must be one of "low", "high".'),
    ],
)
def test_values_that_do_not_fit_are_refused_with_how_it_is_called(given: dict[str, Json], says: str) -> None:
    with pytest.raises(InputError) as caught:
        fitted(SEVERAL, given)
    assert str(caught.value) == says
    assert caught.value.hint == "Call it like this: s env=… [count=3] [dry=false] [tags=…] [level=…]"


def test_how_it_is_called_fits_in_a_line() -> None:
    assert usage(FREE) == "Call it like this: free input=…"


def test_a_schema_of_its_own_is_the_skills_and_its_required_ones_are_asked_for() -> None:
    own = read(
        Path("FILE"),
        b'{"name": "s", "input_model": {"properties": {"n": {"type": "integer"}}, "required": ["n"]}}',
    ).skill
    assert parameters_of(own)["properties"] == {"n": {"type": "integer"}}
    assert typed(own, ["n=4"]) == {"n": 4}
    with pytest.raises(InputError, match='s needs "n"'):
        fitted(own, {})
