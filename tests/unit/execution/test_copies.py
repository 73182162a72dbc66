"""Archives that a job forged: read in bounded time, and taken for no more than they are."""

import io
import os
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.execution.runner import Collected, FileState
from ozzie_server_ext.execution.sandbox_files import MAX_TAKEN, MAX_TAKEN_FILES, collected, copy_of
from tests.deep import deep_folders

WAS = FileState(sha256="0", executable=False)


def page(content: bytes, room: int = 1 << 20) -> int:
    descriptor = os.memfd_create("test")
    os.write(descriptor, content)
    os.ftruncate(descriptor, len(content) + room)
    return descriptor


def read(content: bytes) -> Collected:
    descriptor = page(content)
    try:
        return collected(descriptor, None, {}, whole=True)
    finally:
        os.close(descriptor)


def archive(*members: tuple[str, bytes], format_: int = tarfile.GNU_FORMAT, kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format_) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.type = len(content), kind
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_what_tar_writes_is_read() -> None:
    long = "deep/" * 50 + "ü.txt"
    found = read(archive(("./a", b"1"), (long, b"2" * 1000), ("empty", b"")))

    assert {file.path: file.content for file in found.out} == {"a": b"1", long: b"2" * 1000, "empty": b""}
    assert found.left_out == ()


def pax(record: bytes) -> bytes:
    """A pax header with that content, and a file behind it."""
    return archive(("x", record), kind=b"x") + archive(("a", b"1"))


@pytest.mark.parametrize(
    "forged",
    [
        lambda: pax(b"100012 comment=" + b"1" * 200_000),
        lambda: archive(*[("x", b"19 path=aaaaaaaaaa\n")] * 20_000, kind=b"x"),
        lambda: archive(("n" * 4_000_000, b"")),
        lambda: archive(*[(str(index), b"") for index in range(30_000)]),
        lambda: archive(("s", b""), kind=b"S"),
        lambda: os.urandom(3_000_000),
        lambda: b"\1" * 3_000_000,
    ],
    ids=["digits", "many headers", "a long name", "many files", "sparse", "noise", "ones"],
)
def test_a_forged_one_holds_nobody_up(forged: Callable[[], bytes]) -> None:
    content = forged()
    pauses: list[float] = []
    over = threading.Event()

    def look() -> None:
        last = time.perf_counter()
        while not over.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            pauses.append(now - last)
            last = now

    watching = threading.Thread(target=look)
    watching.start()
    began = time.process_time()
    found = read(content)
    over.set()
    watching.join()

    assert time.process_time() - began < 10
    assert all(len(name) < 200 for name in found.left_out)
    assert len(found.left_out) <= 21
    assert max(pauses) < 1.0


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "a/../../x", "a\tb", "a\x1b[31mb", "a\u202eb", "", ".", "a\nb"]
)
def test_a_name_that_is_none_is_left_out_and_told_inertly(name: str) -> None:
    found = read(archive((name, b"1")))

    assert found.out == ()
    assert all(told.isprintable() for told in found.left_out)


def test_a_name_that_is_no_text_is_told_all_the_same() -> None:
    found = read(archive((os.fsdecode(b"bad\xff"), b"1")))

    assert found.out == ()
    assert found.left_out == ("bad\N{REPLACEMENT CHARACTER} (its name can't be used)",)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, b"S", b"g", b"?"]
)
def test_what_is_no_plain_file_is_left_out(kind: bytes) -> None:
    assert read(archive(("x", b""), kind=kind)).out == ()


def test_of_two_under_one_name_the_later_one_counts() -> None:
    (file,) = read(archive(("a", b"1"), ("a", b"2"))).out

    assert file.content == b"2"


def test_more_than_is_taken_is_named() -> None:
    large = read(archive(("a", b"1"), ("big", b"\0" * (MAX_TAKEN + 1)), ("b", b"2")))
    many = read(archive(*[(f"{index:05}", b"") for index in range(MAX_TAKEN_FILES + 2)]))

    assert [file.path for file in large.out] == ["a", "b"]
    assert large.left_out == ("big (more than 32 MiB in all)",)
    assert len(many.out) == MAX_TAKEN_FILES
    assert len(many.left_out) == 2


def test_one_that_is_cut_off_gives_what_is_whole_and_says_so() -> None:
    whole = archive(("a", b"1"), ("b", b"2" * 5000))
    descriptor = page(whole[:2048], room=0)
    found = collected(descriptor, descriptor, {"gone": WAS}, whole=True)
    os.close(descriptor)

    assert [file.path for file in found.out] == ["a"]
    assert "the rest of the output" in found.left_out[0]
    assert found.deleted == (), "what can't be read was not deleted"


def test_nothing_was_deleted_where_the_copy_was_not_packed_whole() -> None:
    descriptor = page(archive(("a", b"1")))
    before = {"a": WAS, "b": WAS}
    told = [collected(descriptor, descriptor, before, whole=whole).deleted for whole in (True, False)]
    os.close(descriptor)

    assert told == [("b",), ()]


def test_folders_in_folders_without_end_are_copied_so_far(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    here = os.open(tmp_path, os.O_RDONLY)

    with deep_folders(tmp_path):
        copy = copy_of(here)

    os.close(here)
    assert list(copy.contents) == ["a"]
