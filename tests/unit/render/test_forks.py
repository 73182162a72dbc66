"""What is said about a fork."""

from collections.abc import Sequence

import pytest

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.render.forks import MOST_NAMED, MOST_TOLD, about_fork
from ozzie_server_ext.render.page import page_markdown, page_text

WRITE: JsonObject = {"turn": 3, "tool": "write_file", "path": "a.md", "outcome": "2 lines"}
RUN: JsonObject = {"turn": 0, "tool": "run", "path": "", "outcome": ""}
HOSTILE = "\x1b[2Ja</p><script>alert(1)</script>\n# b"


def said(
    *, names: bool = True, left_out: Sequence[Json] = (), done: Sequence[Json] = (), files: Sequence[Json] = ()
) -> str:
    fork: JsonObject = {"left_out": [*left_out], "done": [*done], "files": [*files]}
    return page_text(about_fork(fork, names=names))


@pytest.mark.parametrize(
    ("left_out", "done", "files", "says"),
    [
        ([], [], [], ""),
        ([2], [], [], "Turn 2 is not over, and is no part of it."),
        ([2, 3], [], [], "The turns 2, 3 are not over, and are no part of it."),
        ([], [WRITE], [], "What was done since then is not undone:\n\n- turn 3: write_file a.md (2 lines)"),
        ([], [RUN], [], "What was done since then is not undone:\n\n- run"),
        (
            [],
            [WRITE] * MOST_TOLD + [RUN],
            [],
            "6 calls made since then are not undone: write_file 5 times, run.",
        ),
        (
            [],
            [],
            [{"path": "a.md", "how": "gone"}],
            "Files are not restored: a file has changed since the fork's turns read or wrote it: a.md (gone).",
        ),
        (
            [],
            [],
            [{"path": "a.md", "how": "changed"}, {"path": "b", "how": "not readable"}],
            "Files are not restored: 2 files have changed since the fork's turns read or wrote them: a.md, "
            "b (not readable).",
        ),
    ],
)
def test_it_says_what_a_history_does_not_tell(
    left_out: list[int], done: list[JsonObject], files: list[JsonObject], says: str
) -> None:
    assert " ".join(said(left_out=left_out, done=done, files=files).split()) == " ".join(says.split())


def test_many_files_are_counted() -> None:
    files: list[Json] = [{"path": f"{number}.md", "how": "changed"} for number in range(MOST_NAMED + 2)]

    assert said(files=files).endswith("19.md and 2 others.")


def test_without_names_there_are_only_tools_and_numbers() -> None:
    told = " ".join(said(names=False, done=[WRITE], files=[{"path": "b.md", "how": "gone"}]).split())

    assert told == (
        "A call made since then is not undone: write_file. Files are not restored: a file has changed since the fork's "
        "turns read or wrote it."
    )


def test_hostile_names_do_nothing() -> None:
    fork: JsonObject = {
        "left_out": [],
        "done": [{"turn": 1, "tool": HOSTILE, "path": HOSTILE, "outcome": HOSTILE}],
        "files": [{"path": HOSTILE, "how": "changed"}],
    }

    text, source = page_text(about_fork(fork)), page_markdown(about_fork(fork))

    assert "\x1b" not in text + source
    assert "<script>" not in source
    assert not any(line.startswith("#") for line in (text + source).splitlines())
