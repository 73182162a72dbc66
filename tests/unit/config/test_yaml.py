"""Plain YAML: what is read, where it stood, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.config.jsonc import ConfigError, JsoncError
from ozzie_server_ext.config.yaml import MOST_CHARS, parse_yaml

FILE = Path("a.yaml")


def read(text: str) -> Any:
    return parse_yaml(text.encode(), FILE).value


def refused(text: str) -> str:
    with pytest.raises((ConfigError, JsoncError)) as error:
        parse_yaml(text.encode(), FILE)
    return str(error.value)


def test_plain_values_are_read_and_a_date_stays_a_text() -> None:
    text = "a: 1\nb: [x, 2.5, true, null, '1', yes, 010, 0x1f, .inf, 1:30]\nc:\n  d: 2026-11-30\n"
    text += "  e: |\n    two\n    lines\n1:\n"

    assert read(text) == {
        "a": 1,
        "b": ["x", 2.5, True, None, "1", "yes", "010", "0x1f", ".inf", "1:30"],
        "c": {"d": "2026-11-30", "e": "two\nlines\n"},
        "1": None,
    }


def test_each_part_has_its_place() -> None:
    places = parse_yaml(b"a: 1\nb:\n  - x\n  - c: 2\n", FILE).places

    assert {path: (place.line, place.column) for path, place in places.items()} == {
        (): (1, 1),
        ("a",): (1, 1),
        ("b",): (2, 1),
        ("b", 0): (3, 5),
        ("b", 1): (4, 5),
        ("b", 1, "c"): (4, 5),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &x 1\nb: 2\n", "a.yaml, line 1, column 4: anchors and aliases are not read"),
        ("a: 1\nb: *x\n", "anchors and aliases are not read"),
        ("a: !!python/object/apply:os.system [ls]\n", "a.yaml, line 1, column 4: tags are not read"),
        ("a: !!binary aGk=\n", "tags are not read"),
        ("a: !!bool x\n", "tags are not read"),
        ("a: !!int ''\n", "tags are not read"),
        ("!!map {a: 1}\n", "tags are not read"),
        ("a: ! b\n", "tags are not read"),
        ('a: "\\UFFFFFFFF"\n', "a character or a number that there is not"),
        ('a: "\\U00110000"\n', "a character or a number that there is not"),
        ('a: "\\ud800"\n', "half of a character"),
        ('"\\ud800": 1\n', "half of a character"),
        ("%YAML " + "9" * 5000 + ".1\n---\na: 1\n", "this is no YAML"),
        ("a: 1e999\n", "a.yaml, line 1, column 1: this number is too large"),
        ("a: 1e00000000009999\n", "this number is too large"),
        ("b: 1\na: 1" + "0" * 350 + "\n", "a.yaml, line 2, column 1: this number is too large"),
        ("a: 1" + "0" * 5000 + "\n", "this number is too large"),
        ('"x\\nozzie: all is well": 1\n"x\\nozzie: all is well": 2\n', r"the name 'x\nozzie: all is well' stands"),
        ("a: 1\na: 2\n", "a.yaml, line 2, column 1: the name 'a' stands here twice"),
        ("<<: {a: 1}\n", "a name must be a plain text"),
        ("? [a]\n: 1\n", "a name must be a plain text"),
        ("- a\n", "expected names with values"),
        ("", "expected names with values"),
        ("a: [1\n", "this is no YAML"),
        ("a: 1\n---\nb: 2\n", "this is no YAML: expected a single document"),
        ("a: \x01\n", "this is no YAML"),
        ("a: " + "[" * 80 + "]" * 80, "is nested more than 64 deep"),
        ("a: " + "[" * 9000, "deep"),
        ("a: " + "x" * MOST_CHARS, "the file is larger than"),
    ],
)
def test_what_is_no_plain_data_is_refused_with_its_place(text: str, why: str) -> None:
    assert why in refused(text)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="not UTF-8"):
        parse_yaml(b"a: \xff", FILE)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.sampled_from([0.5, -2.25, 1e20])
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(alphabet="abc", min_size=1, max_size=8), PLAIN, min_size=1, max_size=4))
def test_what_is_written_as_yaml_is_read_again(value: dict[str, Any]) -> None:
    assert read(yaml.safe_dump(value, allow_unicode=False, default_flow_style=None)) == value
