"""A notebook's parameters: set by a command, read back, filled into messages."""

import math
from datetime import date
from typing import Any

import pytest

from ozzie_kernel.parameters import Parameters, line, read
from ozzie_server_ext.domain.errors import InputError


@pytest.mark.parametrize(
    ("argument", "name", "value"),
    [
        ('month = "May"', "month", "May"),
        ("limit=3", "limit", 3),
        ("share =\t0.5", "share", 0.5),
        ('files = ["a", "b = {c}"]', "files", ["a", "b = {c}"]),
        ('größe = {"a": null, "b": true}', "größe", {"a": None, "b": True}),
        ('sum = "1 = 1"', "sum", "1 = 1"),
    ],
)
def test_a_parameter_is_a_name_and_json(argument: str, name: str, value: Any) -> None:
    assert read(argument) == (name, value)


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("month", "a name, an equals sign and a value"),
        ('= "May"', "a name, an equals sign and a value"),
        ("two words = 1", "a name, an equals sign and a value"),
        ("month = May", "The value of month is not JSON."),
        ("month =", "The value of month is not JSON."),
        ("month = NaN", "The value of month is not JSON."),
        ('month = {"a": 1, "a": 2}', "The value of month is not JSON."),
        ("3rd = 1", "3rd is not a valid name for a parameter."),
        ("class = 1", "class is not a valid name for a parameter."),
        ("_ = 1", "_ is not a valid name for a parameter."),
    ],
)
def test_what_is_none_is_refused_with_how_to_write_it(argument: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        read(argument)

    assert 'month = "May"' in refused.value.hint


@pytest.mark.parametrize(
    "value", ["May", 'say "hi" \\ {x}', "two\nlines", "größe 🙂", 3, -0.5, True, None, [1, "a"], {"a": [1]}]
)
def test_what_is_written_is_read_back(value: Any) -> None:
    written = line("name", value)

    assert "\n" not in written, "a command is one line"
    assert read(written.removeprefix("%parameter ")) == ("name", value)


def test_a_value_that_json_has_no_form_for_is_its_text() -> None:
    assert line("day", date(2026, 2, 28)) == '%parameter day = "2026-02-28"'
    with pytest.raises(InputError, match="not JSON"):
        read(line("ratio", math.inf).removeprefix("%parameter "))


def test_messages_get_the_values_and_python_the_variables() -> None:
    variables: dict[str, Any] = {}
    parameters = Parameters(variables)
    parameters.set("month", "May")
    parameters.set("files", ["a.csv"])

    assert parameters.fill("Sum up {month} of {files}, {month}.") == 'Sum up May of ["a.csv"], May.'
    assert variables == {"month": "May", "files": ["a.csv"]}


def test_every_other_brace_stays_what_it_is() -> None:
    parameters = Parameters({})
    text = 'Explain {month}, {"month": 1}, {{x}}, f"{ month }" and {}.'
    assert parameters.fill(text) == text
    parameters.set("month", "{limit}")
    parameters.set("limit", 3)

    assert parameters.fill("{month} {year}") == "{limit} {year}", "a value is not filled in turn"
