"""The tree of errors: stable codes, hints, and branches that tell who must react."""

import pytest

from ozzie_server_ext.domain import errors
from ozzie_server_ext.domain.errors import (
    Conflict,
    IllegalTransition,
    InputError,
    NotFound,
    OzzieError,
    RetryLater,
    VersionConflict,
)

ALL = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OzzieError)]


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in ALL]

    assert len(set(codes)) == len(codes)
    assert all(code and code == code.lower() for code in codes)


def test_an_error_is_a_sentence_with_a_next_step() -> None:
    error = InputError("The message is empty.", hint="Write what you want to ask.", code="message.empty")

    assert (str(error), error.hint, error.code) == (
        "The message is empty.",
        "Write what you want to ask.",
        "message.empty",
    )
    assert InputError.code == "input.invalid", "one error's code must not become that of its class"


@pytest.mark.parametrize(
    ("error", "branch"),
    [
        (NotFound("x"), InputError),
        (VersionConflict("task:1", 2, 3), Conflict),
        (IllegalTransition("SUCCEEDED", "task.started"), Conflict),
    ],
)
def test_a_special_error_is_handled_as_its_branch(error: OzzieError, branch: type[OzzieError]) -> None:
    assert isinstance(error, branch)


def test_a_version_conflict_tells_both_versions() -> None:
    error = VersionConflict("task:1", 2, 3)

    assert (error.stream, error.expected, error.actual) == ("task:1", 2, 3)
    assert str(error) == "task:1 is at version 3, not 2."


def test_who_may_try_again_is_told_when() -> None:
    assert RetryLater("busy", after_s=2.5).after_s == 2.5
    assert RetryLater("busy").after_s is None
