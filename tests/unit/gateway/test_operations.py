"""The table of operations holds what its declarations promise, on every way in."""

from collections.abc import Iterator
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import Meta, structs

from ozzie_server_ext.gateway.operation import Operation
from ozzie_server_ext.gateway.routes import METHODS, OPERATIONS, REST

HELD_BELOW = {
    "message.send": {"content", "skill.words", "made_from"},
    "notebook.answer": {"error.message"},
}
"""Texts without a bound of their own here: the service refuses what a person typed with a sentence for them, and a page
says why in as much as a frame holds."""


def unbound(hint: Any, name: str) -> Iterator[str]:
    """The texts in values of this kind that may have any length."""
    origin = get_origin(hint)
    if origin is Annotated:
        base, *metas = get_args(hint)
        if not any(isinstance(meta, Meta) and (meta.max_length or meta.pattern) for meta in metas):
            yield from unbound(base, name)
    elif origin in (Union, UnionType, tuple, list):
        for part in get_args(hint):
            yield from unbound(part, name)
    elif hint is str:
        yield name
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint, include_extras=True)
        for found in structs.fields(hint):
            yield from unbound(hints[found.name], f"{name}.{found.name}".lstrip("."))
    else:
        assert not is_dataclass(hint), (name, hint)
        known = origin in (Literal, dict) or hint in (bool, int, NoneType, ...) or isinstance(hint, type)
        assert known, (name, hint)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.ws or operation.rest)
def test_every_text_that_an_operation_takes_has_a_bound(operation: Operation) -> None:
    assert {*unbound(operation.request_type, "")} == HELD_BELOW.get(operation.ws or operation.rest, set())


def test_every_operation_can_be_reached_and_has_a_name_of_its_own() -> None:
    assert all(operation.rest or operation.ws for operation in OPERATIONS)
    assert len(METHODS) == sum(bool(operation.ws) for operation in OPERATIONS)
    assert len({operation.rest for operation in REST}) == len(REST)


def test_what_a_kernel_may_use_names_what_that_is_told_by() -> None:
    for operation in METHODS.values():
        named = {found.name for found in structs.fields(operation.request_type)}
        assert {"own session": "session_id", "own task": "task_id"}.get(operation.kernels) in {None, *named}
