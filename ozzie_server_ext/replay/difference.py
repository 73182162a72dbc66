"""The comparison of an event that a replay would record with the one that was recorded."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from ozzie_server_ext.domain.events import Draft, Event, EventBody
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.replay.ids import Comparison

_MEASURED = frozenset({"latency_ms", "duration_ms", "took_ms", "ttft_ms", "day", "project"})
"""Fields that no two runs have in common: how long something took, the date, and the folder where the gateway ran."""
_PROOFS = frozenset({"binds", "card"})
"""Hashes over what a tool had planned, which the log has only in parts; what is asked is compared in words."""
_UNCOMPARED = _MEASURED | _PROOFS
_ADDED = frozenset({"targets", "known_from", "standing"})
"""Fields that earlier versions did not record: an empty one says nothing of then."""
_PLAIN = frozenset({str, int, float, bool, tuple, type(None)})
"""Types whose values are equal if Python says so. In JSON, 1 is not true."""
_TIMES = frozenset({"expires_at"})
_APART_S = 2.0
"""How far the times in two equal events may lie apart, beyond the time that recording the event took then: a replay
takes none, and notes a time as that of the event before it."""
_LEAST_PAUSE, _MOST_PAUSE = 0.99, 3.01
"""The share of a pause with chance in it that another chance gives: a pause is 0.5 to 1.5 times its base, and a replay
takes the shortest."""

UNRECORDED = "checkpoint.saved"
"""The type of event that is left out on both sides: how many there are depends on timing alone."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first field in which two events differ: its path, such as `args.path`, and both values, None for a field that
    is not there. `field` is "type" if the events have different types."""

    field: str
    then: Json
    now: Json


Expand: TypeAlias = Callable[[Json], Json]
"""Returns the content of a reference, or anything else as it is."""


class Comparing(msgspec.Struct, frozen=True, kw_only=True):
    """How events are compared. What differs is compared once more by its content if it is a reference (`expand`).
    `comparable` returns a body without what does not count."""

    expand: Expand
    comparable: Callable[[EventBody], EventBody] = lambda body: body

    def difference(self, now: Draft, then: Event, ids: Comparison, at: datetime) -> Difference | None:
        """Return the first difference between what would be recorded `now`, at this time of the replay, and what was
        recorded `then`, or None."""
        apart_s = _APART_S + max(0.0, (then.ts - at).total_seconds())
        if now.body.type != then.type:
            return Difference(field="type", then=then.type, now=now.body.type)
        for name, of_now, of_then in _envelopes(now, then):
            if of_now != of_then and not _equal(of_now, of_then, ids):
                return Difference(field=name, then=of_then, now=of_now)
        body_now, body_then = self.comparable(now.body), self.comparable(then.body)
        for field in body_then.__struct_fields__:
            if field in _UNCOMPARED:
                continue
            of_now, of_then = getattr(body_now, field), getattr(body_then, field)
            if field in _ADDED and not of_then:
                continue
            if type(of_now) is type(of_then) and type(of_now) in _PLAIN and of_now == of_then:
                continue
            now_json, then_json = msgspec.to_builtins(of_now), msgspec.to_builtins(of_then)
            if (found := _first(now_json, then_json, field, ids, self.expand, apart_s)) is not None:
                return found
        return None


def _first(now: Json, then: Json, path: str, ids: Comparison, expand: Expand, apart_s: float) -> Difference | None:
    if isinstance(now, dict) and isinstance(then, dict):
        for key in [*then, *(key for key in now if key not in then)]:
            below = _first(now.get(key), then.get(key), f"{path}.{key}", ids, expand, apart_s)
            if below is not None:
                return below
        return None
    if isinstance(now, list | tuple) and isinstance(then, list | tuple):
        for index, (a, b) in enumerate(zip(now, then, strict=False)):
            if (found := _first(a, b, f"{path}[{index}]", ids, expand, apart_s)) is not None:
                return found
        if len(now) == len(then):
            return None
        index = min(len(now), len(then))
        return Difference(field=f"{path}[{index}]", then=_at(then, index), now=_at(now, index))
    if _equal(now, then, ids) or _are_near(path, now, then, apart_s):
        return None
    whole_now, whole_then = expand(now), expand(then)
    if whole_now is now and whole_then is then:
        return Difference(field=path, then=then, now=now)
    return _first(whole_now, whole_then, path, ids, lambda ref: ref, apart_s)


def _at(values: Sequence[Json], index: int) -> Json:
    return values[index] if index < len(values) else None


def _envelopes(now: Draft, then: Event) -> Iterator[tuple[str, Json, Json]]:
    yield "session_id", now.session_id, then.session_id
    yield "task_id", now.task_id, then.task_id
    yield "actor", now.actor, then.actor
    yield "source", now.source, then.source
    yield "labels", list(now.labels), list(then.labels)
    yield "sources", list(now.sources), list(then.sources)
    yield "idempotency_key", now.idempotency_key, then.idempotency_key


def _are_near(path: str, now: Json, then: Json, apart_s: float) -> bool:
    if path in _TIMES and isinstance(now, str) and isinstance(then, str):
        return abs((datetime.fromisoformat(now) - datetime.fromisoformat(then)).total_seconds()) <= apart_s
    if path == "again_in_s" and isinstance(now, int | float) and isinstance(then, int | float):
        return now == then or (now > 0 and _LEAST_PAUSE <= then / now <= _MOST_PAUSE)
    return False


def _equal(now: Json, then: Json, ids: Comparison) -> bool:
    """Whether two values are equal up to ids. True is not 1, as it is for Python."""
    if isinstance(now, str) and isinstance(then, str):
        return ids.are_equal(now, then)
    if isinstance(now, bool) or isinstance(then, bool):
        return now is then
    if isinstance(now, int | float) and isinstance(then, int | float):
        return now == then
    if isinstance(now, list) and isinstance(then, list):
        return len(now) == len(then) and all(_equal(a, b, ids) for a, b in zip(now, then, strict=True))
    return now is None and then is None


def translated(body: EventBody, ids: Callable[[str], str]) -> EventBody:
    """Return a body with other ids in all of its texts."""
    raw = msgspec.json.encode(body).decode()
    found = ids(raw)
    return body if found == raw else msgspec.json.decode(found, type=type(body))
