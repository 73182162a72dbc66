"""Secrets in a file that a passphrase opens."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.vault.errors import BadSecret, NewerVault, WrongPassphrase
from ozzie_server_ext.vault.scope import EVERYBODY, Scope, Secret
from ozzie_server_ext.vault.transfer import NoExport, export_to, import_from
from ozzie_server_ext.vault.vault import Entry

PASSPHRASE = "correct horse battery"
ENTRIES = (
    Entry(name="KEY", scope=EVERYBODY, value=Secret("sk-everybody")),
    Entry(name="KEY", scope=Scope("plugin", "telegram"), value=Secret("ключ ✓")),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "export"
    export_to(path, ENTRIES, PASSPHRASE)
    return path


def test_what_was_exported_comes_back_with_its_passphrase_and_no_other(file: Path) -> None:
    assert import_from(file, PASSPHRASE) == ENTRIES
    with pytest.raises(WrongPassphrase, match=r"This passphrase does not open .*export, or the file was changed\."):
        import_from(file, "another passphrase")


def test_the_file_is_for_its_owner_and_shows_no_name_and_no_value(file: Path) -> None:
    text = file.read_text()

    assert file.stat().st_mode & 0o777 == 0o600
    # Not "KEY" by itself, which random letters may spell.
    assert not [word for word in ('"KEY', "telegram", "everybody", "sk-") if word in text]


def test_a_file_that_is_there_is_not_written_over(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(BadSecret, match=r"The file .*export exists already\."):
        export_to(file, ENTRIES, PASSPHRASE)

    assert file.read_bytes() == before


def test_a_short_passphrase_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadSecret, match="at least 8 characters"):
        export_to(tmp_path / "export", ENTRIES, "short")

    assert list(tmp_path.iterdir()) == []


def _changed(path: Path, **fields: object) -> None:
    path.write_bytes(canonical_bytes({**loads_object(path.read_bytes()), **fields}))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda path: path.write_bytes(b"{}"), NoExport, "is not an intact file of ozzie secrets export"),
        (lambda path: path.write_bytes(b"\xff"), NoExport, "is not an intact file of ozzie secrets export"),
        (lambda path: _changed(path, version=2), NewerVault, r"has a newer format \(2\)"),
        (
            lambda path: _changed(path, cost={"passes": 3, "lanes": 1, "memory_kib": 8}),
            NoExport,
            "is not an intact file of ozzie secrets export",
        ),
        (lambda path: _changed(path, salt="AAAAAAAAAAAAAAAAAAAAAA=="), WrongPassphrase, "or the file was changed"),
        (lambda path: path.unlink(), BadSecret, "There is no file"),
        (lambda path: (path.unlink(), path.mkdir()), BadSecret, "can't be read: Is a directory"),
    ],
)
def test_what_is_no_export_is_refused(
    file: Path, change: Callable[[Path], object], error: type[Exception], says: str
) -> None:
    change(file)

    with pytest.raises(error, match=says):
        import_from(file, PASSPHRASE)
