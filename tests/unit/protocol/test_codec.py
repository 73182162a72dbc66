"""Between typed objects and JSON: strict, and each complaint names the field."""

from dataclasses import dataclass, field

import pytest

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    name: str
    inner: Inner
    tags: tuple[str, ...] = ()
    extra: dict[str, int] = field(default_factory=dict[str, int])


WHOLE: dict[str, Json] = {"name": "n", "inner": {"number": 1}, "tags": ["a"], "extra": {"x": 1}}


def test_an_object_comes_back_as_it_was() -> None:
    value = Outer(name="n", inner=Inner(number=1), tags=("a",), extra={"x": 1})

    assert decode(Outer, encode(value)) == value
    assert decode(Outer, WHOLE) == value


def test_a_newer_peers_fields_are_passed_over() -> None:
    assert decode(Inner, {"number": 1, "colour": "red"}) == Inner(number=1)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({"inner": {"number": 1}}, "name"),
        ({"name": "n", "inner": {}}, "number"),
        ({"name": "n", "inner": {"number": "1"}}, "inner.number"),
        ({"name": "n", "inner": {"number": 1.5}}, "inner.number"),
        ({"name": "n", "inner": {"number": True}}, "inner.number"),
        ({"name": None, "inner": {"number": 1}}, "name"),
        ({"name": "n", "inner": {"number": 1}, "tags": ["a", 2]}, "tags"),
        ({"name": "n", "inner": {"number": 1}, "extra": {"x": "y"}}, "extra"),
        ([], "object"),
        (None, "object"),
    ],
)
def test_a_wrong_shape_is_refused_by_the_fields_name(value: Json, names: str) -> None:
    with pytest.raises(InvalidShape, match=names):
        decode(Outer, value)
