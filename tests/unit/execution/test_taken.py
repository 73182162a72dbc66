"""What a job changed in the copy of a folder: all of it, or nothing."""

import hashlib
import io
import os
import tarfile
from collections.abc import Callable

import pytest

from ozzie_server_ext.execution.runner import Collected, FileState, JobFile
from ozzie_server_ext.execution.sandbox_files import MAX_CHANGED, MAX_CHANGED_FILES, collected
from tests.unit.execution.test_copies import archive, page


def changes(content: bytes, before: dict[str, FileState], *, room: int = 1 << 20) -> Collected:
    empty, descriptor = page(archive()), page(content, room)
    try:
        return collected(empty, descriptor, before, whole=True)
    finally:
        os.close(descriptor)
        os.close(empty)


def was(content: bytes, *, executable: bool = False) -> FileState:
    return FileState(sha256=hashlib.sha256(content).hexdigest(), executable=executable)


def test_of_a_copy_only_what_is_different_counts() -> None:
    many = {f"f{index}": was(b"same") for index in range(MAX_CHANGED_FILES + 1)}
    content = archive(*[(name, b"same") for name in many], ("new", b"1"))

    found = changes(content, {**many, "gone": was(b"0")})

    assert ([file.path for file in found.changed], found.deleted, found.incomplete) == (["new"], ("gone",), "")
    assert found.before == {"gone": was(b"0")}


@pytest.mark.parametrize(
    "much",
    [
        lambda: archive(*[(f"{index:04}", b"") for index in range(MAX_CHANGED_FILES + 1)]),
        lambda: archive(("a", b"1"), ("big", b"\0" * MAX_CHANGED)),
    ],
    ids=["many files", "many bytes"],
)
def test_of_too_many_changes_none_is_taken(much: Callable[[], bytes]) -> None:
    found = changes(much(), {"gone": was(b"0")})

    assert (found.changed, found.deleted, dict(found.before)) == ((), (), {})
    assert found.incomplete == "More than 200 files or 8 MiB were changed, which is more than can be kept."


def test_of_a_copy_that_is_cut_off_no_change_is_taken() -> None:
    whole = archive(("a", b"1"), ("b", b"2" * 5000))

    found = changes(whole[:2048], {"gone": was(b"0")}, room=0)

    assert (found.changed, found.deleted) == ((), ())
    assert found.incomplete == "The changed folder could not be read whole: it is damaged."


def test_a_file_whose_rights_changed_is_a_changed_one() -> None:
    info = tarfile.TarInfo("run.sh")
    info.size, info.mode = 1, 0o755
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(b"1"))

    found = changes(buffer.getvalue(), {"run.sh": was(b"1")})

    assert found.changed == (JobFile(path="run.sh", content=b"1", executable=True),)
    assert changes(buffer.getvalue(), {"run.sh": was(b"1", executable=True)}).changed == ()


def test_what_is_hidden_in_a_copy_is_told_once_and_left_there() -> None:
    found = changes(archive((".cache/a", b"1"), (".cache/b", b"2"), ("src/.x", b"3"), ("src/y", b"4")), {})

    assert [file.path for file in found.changed] == ["src/y"]
    assert found.left_out == (".cache (hidden)", "src/.x (hidden)")


def test_a_file_under_a_name_that_is_no_text_is_not_gone_where_it_is_as_it_was() -> None:
    name = os.fsdecode(b"bad\xff")
    same = changes(archive((name, b"1")), {name: was(b"1")})
    other = changes(archive((name, b"2")), {name: was(b"1")})
    gone = changes(archive(), {name: was(b"1")})

    assert (same.changed, same.deleted, same.left_out) == ((), (), ())
    for found in (other, gone):
        assert (found.changed, found.deleted) == ((), ())
        assert found.left_out == ("bad\N{REPLACEMENT CHARACTER} (its name can't be used)",)


def test_a_file_in_whose_place_something_else_is_is_gone_for_a_folder_and_left_for_a_link() -> None:
    folder = changes(archive(("a", b""), kind=tarfile.DIRTYPE), {"a": was(b"1")})
    link = changes(archive(("a", b""), kind=tarfile.SYMTYPE), {"a": was(b"1")})

    assert (folder.deleted, folder.left_out) == (("a",), ())
    assert (link.deleted, link.left_out) == ((), ("a (no plain file)",))
