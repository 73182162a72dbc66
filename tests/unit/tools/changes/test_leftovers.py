"""What a killed change leaves: what is cleared away, what is kept, and what it tells."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.replace import KEPT, Cleared, clear_leftovers, complete_name, new_part, replace
from ozzie_server_ext.tools.changes.seen import FileSeen, Seen, look
from ozzie_server_ext.tools.changes.several import was_replaced
from tests.hostile.leftovers import leftovers

NEW = b"new\n"
NEW_HASH = sha256(NEW).hexdigest()


def whole(project: Path, path: str) -> Path:
    """Where the new version of `path` would lie once it is whole."""
    seen = look(project, path).seen
    return (project / path).parent / complete_name(new_part(seen.name), NEW, seen)


def test_a_new_version_is_removed_whole_or_not_and_so_is_the_one_that_was_replaced(project: Path) -> None:
    part = project / new_part("readme.md")
    part.write_text("ne")
    new, old = whole(project, "readme.md"), whole(project, "readme.md")
    new.write_bytes(NEW)
    old.write_text("hello\n")

    assert set(leftovers(project, "readme.md")) == {part.name, new.name, old.name}
    assert set(clear_leftovers(project, "readme.md").removed) == {part.name, new.name, old.name}
    assert sorted(os.listdir(project)) == ["data", "readme.md"]


def test_what_is_neither_is_kept(project: Path) -> None:
    edited, link, folder = (whole(project, "readme.md") for _ in range(3))
    edited.write_text("somebody's")
    link.symlink_to("readme.md")
    folder.mkdir()

    kept = clear_leftovers(project, "readme.md")

    assert kept == Cleared((), tuple(sorted((edited.name, link.name, folder.name))))
    assert edited.read_text() == "somebody's"


def test_a_leftover_that_a_program_writes_to_is_kept(project: Path) -> None:
    old = whole(project, "readme.md")
    old.write_text("hello\n")

    with open(old, "ab"):
        assert clear_leftovers(project, "readme.md").kept == (old.name,)

    assert clear_leftovers(project, "readme.md").removed == (old.name,)


def test_leftovers_of_a_file_whose_own_name_looks_like_one_are_told_by_their_end(project: Path) -> None:
    path = "x.ozzie-01234567.part"
    (project / path).write_text("hello\n")
    between = whole(project, path)
    between.write_text("somebody's")

    assert clear_leftovers(project, path) == Cleared((), (between.name,))


def test_what_a_change_kept_because_it_could_not_tell_whose_it_is_stays_whatever_it_holds(project: Path) -> None:
    seen, old = look(project, "readme.md").seen, whole(project, "readme.md")
    kept = old.with_name(f"{old.name}{KEPT}")
    kept.write_text("hello\n")

    assert clear_leftovers(project, "readme.md") == Cleared((), (kept.name,))
    assert was_replaced(project, seen, NEW_HASH) is None


@pytest.mark.parametrize(
    "name",
    [
        ".readme.md.swp",
        ".readme.md.ozzie-0123456.part",
        ".readme.md.ozzie-01234567.parts",
        ".readme.md.ozzie-01234567-aaaa-bbbb",
        "readme.md.ozzie-01234567.part",
        ".readme.mdx.ozzie-01234567.part",
        ".other.md.ozzie-01234567.part",
    ],
)
def test_names_of_others_are_not_touched(project: Path, name: str) -> None:
    (project / name).write_text("x")

    assert leftovers(project, "readme.md") == ()
    assert clear_leftovers(project, "readme.md") == Cleared((), ())
    assert (project / name).exists()


def test_where_the_folder_is_missing_there_is_nothing_left(project: Path) -> None:
    assert leftovers(project, "no/where.txt") == ()
    with pytest.raises(ToolFailed, match="is gone"):
        clear_leftovers(project, "no/where.txt")


@given(name=st.text(min_size=1, max_size=255).filter(lambda name: len(name.encode("utf-8", "replace")) <= 255))
def test_the_names_that_a_change_uses_fit_the_file_system_and_are_hidden(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    file = FileSeen(device=1, inode=1, mode=0, owner=0, group=0, size=0, mtime_ns=0, sha256="a" * 64)
    part = new_part(name)
    longest = complete_name(part, NEW, Seen(path=name, anchor=(1, 1), missing=(), file=file))
    for used in (part, longest, f"{longest}{KEPT}"):
        assert used.startswith(".")
        assert len(used.encode()) <= 255


def test_after_a_change_it_came_to_be(project: Path) -> None:
    for path in ("readme.md", "new.md", "a/new.md"):
        seen = look(project, path).seen
        replace(project, seen, NEW)

        assert was_replaced(project, seen, NEW_HASH) is True


def test_before_a_change_of_a_file_it_did_not_come_to_be(project: Path) -> None:
    assert was_replaced(project, look(project, "readme.md").seen, NEW_HASH) is False


def test_before_a_file_is_made_it_did_not_come_to_be_whether_or_not_its_folder_is_there(project: Path) -> None:
    seen, below = look(project, "new.md").seen, look(project, "a/new.md").seen
    assert was_replaced(project, seen, NEW_HASH) is False
    (project / "a").mkdir()
    assert was_replaced(project, below, NEW_HASH) is False

    whole(project, "new.md").write_bytes(NEW)
    assert was_replaced(project, seen, NEW_HASH) is False


def test_of_a_new_file_in_whose_place_lies_another_one_nobody_knows(project: Path) -> None:
    seen = look(project, "new.md").seen
    (project / "new.md").write_text("somebody else's\n")

    assert was_replaced(project, seen, NEW_HASH) is None


def test_a_leftover_of_an_older_change_does_not_hide_that_this_one_was_not_made(project: Path) -> None:
    """It was made once, its leftover stayed, and somebody took the file back before it was asked for again."""
    seen, old = look(project, "readme.md").seen, whole(project, "readme.md")
    old.write_text("hello\n")

    assert was_replaced(project, seen, NEW_HASH) is False


def test_of_a_file_that_was_changed_again_only_the_replaced_version_tells(project: Path) -> None:
    seen, old = look(project, "readme.md").seen, whole(project, "readme.md")
    (project / "readme.md").write_text("somebody else's\n")
    assert was_replaced(project, seen, NEW_HASH) is None

    old.write_text("hello\n")
    assert was_replaced(project, seen, NEW_HASH) is True


def test_where_somebody_saved_in_the_moment_of_the_change_a_person_has_to_look(project: Path) -> None:
    seen, between = look(project, "readme.md").seen, whole(project, "readme.md")
    (project / "readme.md").write_bytes(NEW)
    between.write_text("somebody else's\n")

    assert was_replaced(project, seen, NEW_HASH) is None


def test_what_lies_beside_from_another_change_tells_nothing(project: Path) -> None:
    seen, old = look(project, "readme.md").seen, whole(project, "readme.md")
    old.write_text("hello\n")

    assert was_replaced(project, seen, sha256(b"other").hexdigest()) is False


def test_a_link_in_the_place_of_the_file_gives_no_answer(project: Path) -> None:
    seen = look(project, "readme.md").seen
    (project / "readme.md").unlink()
    (project / "readme.md").symlink_to("../secret.txt")

    assert was_replaced(project, seen, NEW_HASH) is None
