"""Which contents go first, and which never for their age."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ozzie_server_ext.artifacts.erasing import StoredContents, Worth, is_too_old, worth_of
from ozzie_server_ext.domain.artifacts import Artifact
from ozzie_server_ext.domain.ids import ArtifactId, CallId

MADE = datetime(2026, 1, 1, tzinfo=UTC)
NEWER = ArtifactId("newer")
UNDO = {"replaced_by": "fs.write"}


def artifact(artifact_id: str = "a", **changes: Any) -> Artifact:
    """The newest version of a result of a tool, made at `MADE`."""
    known: dict[str, Any] = {
        "artifact_id": ArtifactId(artifact_id),
        "session_id": None,
        "task_id": None,
        "ts": MADE,
        "kind": "log",
        "name": "out.txt",
        "version": 1,
        "storage_ref": f"artifact://{artifact_id}",
        "mime": "text/plain",
        "size": 10,
        "hash": artifact_id,
        "call_id": CallId("c"),
        "meta": {},
        "labels": (),
        "sources": (),
        "superseded_by": None,
        "superseded_at": None,
        "erased": None,
        "position": 1,
    }
    return Artifact(**{**known, **changes})


@pytest.mark.parametrize(
    ("changes", "worth"),
    [
        ({"superseded_by": NEWER}, Worth.OLD),
        ({"superseded_by": NEWER, "kind": "markdown"}, Worth.OLD),
        ({}, Worth.RESULT),
        ({"kind": "json"}, Worth.RESULT),
        ({"superseded_by": NEWER, "meta": UNDO, "kind": "file"}, Worth.OLDER_UNDO),
        ({"meta": UNDO, "kind": "file"}, Worth.CURRENT),
        ({"kind": "markdown"}, Worth.CURRENT),
        ({"kind": "file", "call_id": None}, Worth.CURRENT),
        ({"call_id": None}, Worth.CURRENT),
    ],
)
def test_what_can_be_made_again_is_worth_less_than_what_undoes_a_change(changes: dict[str, Any], worth: Worth) -> None:
    assert worth_of(artifact(**changes)) == worth


def test_a_result_goes_behind_its_days_and_not_before() -> None:
    assert not is_too_old(artifact(), MADE + timedelta(days=90), 90)
    assert is_too_old(artifact(), MADE + timedelta(days=90, seconds=1), 90)


def test_the_days_of_an_old_version_begin_when_it_was_replaced() -> None:
    """What was the newest for years can still be got back the day after."""
    replaced = artifact(superseded_by=NEWER, superseded_at=MADE + timedelta(days=1000))

    assert not is_too_old(replaced, MADE + timedelta(days=1089), 90)
    assert is_too_old(replaced, MADE + timedelta(days=1091), 90)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "markdown"},
        {"kind": "markdown", "superseded_by": NEWER, "superseded_at": MADE},
        {"kind": "file", "meta": UNDO},
        {"kind": "file", "meta": UNDO, "superseded_by": NEWER, "superseded_at": MADE},
        {"call_id": None},
    ],
)
def test_notes_and_what_undoes_a_change_never_go_for_their_age(changes: dict[str, Any]) -> None:
    assert not is_too_old(artifact(**changes), MADE + timedelta(days=10_000), 1)


def gone(most_bytes: int, *noted: tuple[Artifact, bool]) -> list[str]:
    contents = StoredContents()
    for each, may_go in noted:
        contents.note(each, may_go=may_go)
    return [artifact_id for together in contents.beyond(most_bytes) for artifact_id in together]


def test_the_oldest_of_what_is_worth_least_goes_first_until_it_fits() -> None:
    noted = [
        (artifact("note", kind="markdown", position=1), True),
        (artifact("undo", kind="file", meta=UNDO, superseded_by=NEWER, position=2), True),
        (artifact("result", position=3), True),
        (artifact("newer", superseded_by=NEWER, position=9), True),
        (artifact("older", superseded_by=NEWER, position=4), True),
    ]

    assert gone(50, *noted) == []
    assert gone(49, *noted) == ["older"]
    assert gone(30, *noted) == ["older", "newer"]
    assert gone(1, *noted) == ["older", "newer", "result", "undo", "note"]


def test_a_content_that_several_have_counts_once_and_goes_with_the_most_worthy_of_them() -> None:
    shared = [
        (artifact("old", hash="h", superseded_by=NEWER, position=1), True),
        (artifact("result", position=2), True),
        (artifact("note", hash="h", kind="markdown", position=3), True),
    ]

    assert gone(20, *shared) == []
    assert gone(19, *shared) == ["result"], "erasing the old version alone would free nothing"
    assert gone(5, *shared) == ["result", "old", "note"]


def test_what_may_not_go_stays_with_all_that_have_its_content() -> None:
    noted = [
        (artifact("old", hash="h", superseded_by=NEWER), True),
        (artifact("used", hash="h", superseded_by=NEWER), False),
        (artifact("empty", size=0, superseded_by=NEWER), True),
        (artifact("result"), True),
    ]

    assert gone(0, *noted) == ["result"]
