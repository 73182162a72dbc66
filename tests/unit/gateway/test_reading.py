"""From a request to what it asks: strict, and in words."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.gateway.operation import Call, Operation, read
from ozzie_server_ext.gateway.rest.shapes import Done, Limit, TaskId, Title

TASK = "01M800000000000000000000ZZ"


class Query(msgspec.Struct, frozen=True, kw_only=True):
    task_id: TaskId
    limit: Limit = 50
    status: tuple[Literal["open", "done"], ...] = ()
    newest_first: bool = False
    title: Title | None = None


class Body(msgspec.Struct, frozen=True, kw_only=True):
    task_id: TaskId
    title: Title
    wait: bool = False
    count: Annotated[int, Meta(ge=1, le=9)] | None = None
    limits: dict[str, int] | None = None


async def look(call: Call, asked: Query) -> Done:
    """Look."""
    return Done()


async def change(call: Call, asked: Body) -> Done:
    """Change."""
    return Done()


GET = Operation(look, "GET /tasks/{task_id}")
POST = Operation(change, "POST /tasks/{task_id}")


def query(values: Mapping[str, list[str]], task_id: str = TASK) -> Query:
    return read(GET, {"task_id": task_id}, {name: [*map(str.encode, value)] for name, value in values.items()}, {})


def body(values: dict[str, Any]) -> Body:
    return read(POST, {"task_id": TASK}, {}, values)


def test_what_is_not_given_has_its_default() -> None:
    assert query({}) == Query(task_id=TASK)
    assert body({"title": "x"}) == Body(task_id=TASK, title="x")


def test_a_query_is_read_by_the_types_of_its_parameters() -> None:
    asked = query({"limit": ["7"], "status": ["open", "done"], "newest_first": ["true"], "title": ["true"]})

    assert asked == Query(task_id=TASK, limit=7, status=("open", "done"), newest_first=True, title="true")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"limit": ["0"]}, "limit must be a number from 1 to 500."),
        ({"limit": ["1e2"]}, "limit must be a number from 1 to 500."),
        ({"limit": ["٣"]}, "limit must be a number from 1 to 500."),
        ({"limit": [""]}, "limit must be a number from 1 to 500."),
        ({"limit": ["9" * 4000]}, "limit must be a number from 1 to 500."),
        ({"limit": ["1", "2"]}, "The parameter limit was given more than once."),
        ({"status": ["open", "x"]}, "status must be one of open, done."),
        ({"newest_first": ["1"]}, "newest_first must be true or false."),
        ({"title": [" "]}, "title must be text of at most 500 characters that says something."),
        ({"nonesuch\u202e": ["1"]}, 'There is no parameter "nonesuch\\u202e" here.'),
    ],
)
def test_a_parameter_that_can_not_be_taken_is_named(values: dict[str, list[str]], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        query(values)

    assert str(refused.value) == sentence


def test_what_stands_in_the_path_is_no_parameter() -> None:
    with pytest.raises(InputError, match='There is no parameter "task_id" here'):
        read(GET, {"task_id": TASK}, {"task_id": [TASK.encode()]}, {})


def test_a_parameter_that_is_no_utf8_is_named() -> None:
    with pytest.raises(InputError, match="The parameter title is not UTF-8"):
        read(GET, {"task_id": TASK}, {"title": [b"\xff"]}, {})


def test_what_jupyterlab_adds_to_get_around_caches_is_passed_over() -> None:
    assert query({"1793500000000": [""]}) == Query(task_id=TASK)
    assert read(POST, {"task_id": TASK}, {"1793500000000": [b""]}, {"title": "x"}) == Body(task_id=TASK, title="x")
    with pytest.raises(InputError, match="There is no parameter"):
        query({"1793500000000": ["1"]})


@pytest.mark.parametrize("task_id", ["x", TASK.lower(), f"{TASK}0", "\x1b[31m"])
def test_a_path_that_can_name_nothing_is_not_found(task_id: str) -> None:
    with pytest.raises(NotFound, match=r"^There is no task [ -~]+\.$"):
        query({}, task_id)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "The field title is missing."),
        ({"title": 1}, "title must be text of at most 500 characters that says something."),
        ({"title": None}, "title must be text of at most 500 characters that says something."),
        ({"title": "x" * 501}, "title must be text of at most 500 characters that says something."),
        ({"title": "x", "wait": "true"}, "wait must be true or false."),
        ({"title": "x", "wait": 1}, "wait must be true or false."),
        ({"title": "x", "count": 2.5}, "count must be a number from 1 to 9."),
        ({"title": "x", "count": 10.0}, "count must be a number from 1 to 9."),
        ({"title": "x", "count": "2"}, "count must be a number from 1 to 9."),
        ({"title": "x", "count": True}, "count must be a number from 1 to 9."),
        ({"title": "x", "limits": {"a": "b"}}, "limits[...]: Expected int, got str."),
        ({"title": "x", "tilte": "y"}, 'There is no field "tilte" here.'),
        ({"title": "x", "task_id": "y"}, 'There is no field "task_id" here.'),
    ],
)
def test_a_field_that_can_not_be_taken_is_named(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        body(values)

    assert str(refused.value) == sentence


def test_a_whole_number_is_an_integer_however_it_is_written() -> None:
    found = body({"title": "x", "count": 3.0}).count

    assert (found, type(found)) == (3, int)


def test_a_post_has_no_parameters() -> None:
    with pytest.raises(InputError, match='There is no parameter "title" here') as refused:
        read(POST, {"task_id": TASK}, {"title": [b"x"]}, {"title": "x"})

    assert refused.value.hint == "There is no parameter at all here."
