"""Bodies to canonical JSON and back, and from the shapes of older versions."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar, cast

import pytest

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import EVENT_CLASSES, Fact, SessionRenamed
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.store.codec import MAX_BODY_BYTES, UPCASTS, BodyCodec, time_text, upcast
from ozzie_server_ext.store.log import DamagedStore, NewerStore
from tests.replay.histories import Histories


class Moved(Fact, frozen=True, kw_only=True):
    """A fact whose shape changed twice: x and y were one text, and there was no unit."""

    type: ClassVar[str] = "test.moved"
    schema: ClassVar[int] = 3
    x: int
    y: int
    unit: str


def _split(body: JsonObject) -> JsonObject:
    x, y = cast(str, body["at"]).split(",")
    return {"x": int(x), "y": int(y)}


def _with_unit(body: JsonObject) -> JsonObject:
    return body | {"unit": "m"}


_UPCASTS = {("test.moved", 1): _split, ("test.moved", 2): _with_unit}
_CODEC = BodyCodec((Moved,), _UPCASTS)


def decode(raw: bytes, schema: int, codec: BodyCodec = _CODEC) -> object:
    return codec.decode("test.moved", schema, raw, position=7)


@pytest.mark.parametrize(
    ("schema", "raw"), [(1, b'{"at":"1,2"}'), (2, b'{"x":1,"y":2}'), (3, b'{"unit":"m","x":1,"y":2}')]
)
def test_every_older_shape_reads_as_the_present_one(schema: int, raw: bytes) -> None:
    assert decode(raw, schema) == Moved(x=1, y=2, unit="m")


def test_a_missing_step_is_named() -> None:
    with pytest.raises(DamagedStore, match=r"Version 1 of test\.moved"):
        decode(b"{}", 1, BodyCodec((Moved,), {("test.moved", 2): _with_unit}))


def test_the_present_shape_takes_no_step() -> None:
    body: JsonObject = {"a": 1}
    assert upcast("test.moved", body, 3, 3, registry={}) is body


def test_an_upcast_that_does_not_reach_the_shape_is_named() -> None:
    with pytest.raises(DamagedStore, match="position 7"):
        decode(b'{"x":1}', 2)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"x":"1","y":2,"unit":"m"}', b"\xff", None])
def test_what_is_no_such_body_is_named(raw: Any) -> None:
    with pytest.raises(DamagedStore, match="position 7"):
        decode(raw, 3)


def test_what_comes_from_the_future_is_named() -> None:
    with pytest.raises(NewerStore, match="version 4"):
        decode(b"{}", 4)
    with pytest.raises(NewerStore, match=r"test\.unknown"):
        _CODEC.decode("test.unknown", 1, b"{}", position=1)


def test_only_the_catalogue_is_stored() -> None:
    with pytest.raises(InputError, match="catalogue"):
        _CODEC.encode(SessionRenamed(title="a"))


def test_a_body_has_one_spelling() -> None:
    raw, body = _CODEC.encode(Moved(y=2, unit="größe", x=1))
    assert raw == '{"unit":"größe","x":1,"y":2}'.encode()
    assert body == Moved(x=1, y=2, unit="größe")


def test_a_body_that_is_too_large_belongs_into_a_blob() -> None:
    with pytest.raises(InputError, match="more than") as refused:
        _CODEC.encode(Moved(x=1, y=2, unit="x" * MAX_BODY_BYTES))
    assert "blob" in refused.value.hint


def test_every_body_survives_the_way_there_and_back() -> None:
    codec = BodyCodec()
    seen: set[str] = set()
    for seed in range(3):
        for _, drafts in Histories(seed).take(300):
            for item in drafts:
                raw, body = codec.encode(item.body)
                assert body == item.body
                assert codec.decode(body.type, body.schema, raw, position=1) == item.body
                seen.add(body.type)
    assert len(seen) > 15


def test_every_fact_of_the_catalogue_has_a_name_of_its_own() -> None:
    assert len({cls.type for cls in EVENT_CLASSES}) == len(EVENT_CLASSES)


@pytest.mark.parametrize(
    "ts",
    [
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        datetime(2026, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_times_are_written_in_utc_with_microseconds(ts: datetime) -> None:
    assert time_text(ts) == "2026-01-02T03:04:05.000000Z"


def test_upcasts_lead_only_to_known_types() -> None:
    known: dict[str, Any] = {cls.type: cls for cls in EVENT_CLASSES}
    assert all(type_ in known and schema < known[type_].schema for type_, schema in UPCASTS)


class Told(Fact, frozen=True, kw_only=True):
    """A fact with any JSON in it."""

    type: ClassVar[str] = "test.told"
    value: Any


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [{"deep": float("-inf")}], "\ud800", {"\udfff": 1}])
def test_what_json_can_t_say_is_refused_and_not_changed_on_the_way(value: object) -> None:
    with pytest.raises(InputError, match=r"[Cc]an't be"):
        BodyCodec((Told,), {}).encode(Told(value=value))


@pytest.mark.parametrize("value", [(1, (2,)), -0.0, 1e300, "é\u2028\x1f", {"b": 1, "a": [None, True]}, 2**63])
def test_a_reader_gets_what_was_written_with_its_keys_in_order(value: object) -> None:
    raw, read = BodyCodec((Told,), {}).encode(Told(value=value))

    assert cast(Told, read).value == json.loads(json.dumps(value))
    assert json.loads(raw) == {"value": json.loads(json.dumps(value))}
    assert raw.startswith(b'{"value":')
    assert b'"b":1' not in raw or raw == b'{"value":{"a":[null,true],"b":1}}'
