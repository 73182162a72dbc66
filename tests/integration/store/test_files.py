"""Blobs on disk: private, whole or not there, healed by putting them again."""

import stat
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.store.blobs import FileBlobs
from ozzie_server_ext.store.log import DamagedStore


def file_of(folder: Path, ref: BlobRef) -> Path:
    digest = ref.removeprefix("sha256:")
    return folder / digest[:2] / digest[2:]


def modes(folder: Path) -> dict[str, int]:
    found = [folder, *folder.rglob("*")]
    return {"folder" if path.is_dir() else "file": stat.S_IMODE(path.stat().st_mode) for path in found}


def names(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def damage(path: Path) -> None:
    path.write_bytes(b"something else")


def link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


async def test_blobs_are_for_the_users_eyes_only(tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    ref = await FileBlobs(folder).put(b"hello")
    assert modes(folder) == {"folder": 0o700, "file": 0o600}
    assert names(folder) == [file_of(folder, ref)]


async def test_another_store_on_the_same_folder_finds_them(tmp_path: Path) -> None:
    ref = await FileBlobs(tmp_path).put(b"hello")
    assert await FileBlobs(tmp_path).get(ref) == b"hello"


async def test_a_damaged_blob_is_never_returned_and_is_healed_by_putting_it_again(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    ref = await blobs.put(b"hello")
    damage(file_of(tmp_path, ref))
    with pytest.raises(DamagedStore):
        await blobs.get(ref)
    assert await blobs.put(b"hello") == ref
    assert await blobs.get(ref) == b"hello"


async def test_a_blob_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "blobs")
    ref = await blobs.put(b"hello")
    damage(tmp_path / "elsewhere")
    link(file_of(tmp_path / "blobs", ref), tmp_path / "elsewhere")
    with pytest.raises(DamagedStore):
        await blobs.get(ref)
    await blobs.put(b"hello")
    assert await blobs.get(ref) == b"hello"
    assert (tmp_path / "elsewhere") in names(tmp_path)


async def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    damage(tmp_path / "blobs")
    with pytest.raises(Unavailable, match="blobs"):
        await FileBlobs(tmp_path / "blobs").put(b"hello")
