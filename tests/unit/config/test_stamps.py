"""A change of a file is noticed without reading it, also one that hides itself."""

import os
from pathlib import Path

import pytest

from ozzie_server_ext.config.files import is_one_of, stamps_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "rules").write_text("old")
    return tmp_path / "rules"


def test_a_file_that_nobody_touches_keeps_its_stamp(file: Path) -> None:
    assert stamps_of([file]) == stamps_of([file])


def test_a_file_that_is_replaced_by_one_of_its_size_and_time_is_noticed(file: Path, tmp_path: Path) -> None:
    before, info = stamps_of([file]), file.stat()
    (tmp_path / "kept").hardlink_to(file)  # or the new file may have the old one's number
    other = tmp_path / "other"
    other.write_text("new")
    os.utime(other, ns=(info.st_atime_ns, info.st_mtime_ns))
    other.rename(file)

    assert stamps_of([file]) != before


def test_a_file_whose_time_is_set_back_is_noticed(file: Path) -> None:
    before, info = stamps_of([file]), file.stat()
    for _ in range(100_000):  # until the file system's clock has gone on
        file.write_text("new")
        os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
        if file.stat().st_ctime_ns != info.st_ctime_ns:
            break

    assert file.stat().st_mtime_ns == info.st_mtime_ns
    assert stamps_of([file]) != before


def test_a_link_to_the_same_content_is_noticed(file: Path, tmp_path: Path) -> None:
    before = stamps_of([file])
    file.rename(tmp_path / "moved")
    file.symlink_to("moved")

    assert stamps_of([file]) != before


def test_a_file_that_can_not_be_looked_at_is_told_from_one_that_is_gone(file: Path) -> None:
    below = file / "rules"
    before = stamps_of([below])
    file.unlink()

    assert stamps_of([below]) != before


def test_a_file_is_known_by_another_name(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    other = tmp_path / "other"
    other.write_text("old")

    assert is_one_of(link, [other, file])
    assert not is_one_of(other, [file, tmp_path / "none"])
    assert not is_one_of(tmp_path / "none", [tmp_path / "none"])
