"""What opens the vault, and what is said where nothing does."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.vault.errors import (
    BadSecret,
    DamagedVault,
    NoKeyring,
    UnsafeFile,
    VaultLocked,
    WrongPassphrase,
)
from ozzie_server_ext.vault.scope import EVERYBODY, ProjectReader, Secret
from ozzie_server_ext.vault.slots import KeyGone
from ozzie_server_ext.vault.vault import Vault

NewVault = Callable[[], Vault]

OZZIE = ProjectReader(project="/w/shop")
PASSPHRASE = "correct horse battery"


class MemoryKeyring(KeyringBackend):
    """A keyring as the system's is, that forgets at the end of the test."""

    priority = 5.0  # pyright: ignore[reportAssignmentType]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.is_shut = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.is_shut:
            raise KeyringLocked("the words of a backend")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("not there")


@pytest.fixture
def ring() -> Iterator[MemoryKeyring]:
    before, ring = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


@pytest.fixture
def no_ring() -> Iterator[None]:
    from keyring.backends.fail import Keyring

    before = keyring.get_keyring()
    keyring.set_keyring(Keyring())
    yield
    keyring.set_keyring(before)


def key_file(keys: Path) -> Path:
    (found,) = keys.iterdir()
    return found


@pytest.fixture
def kept(vault: Vault) -> Vault:
    """A vault with a secret in it, that its key file opens."""
    vault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    return vault


def test_the_key_file_is_for_its_owner_alone_and_lies_elsewhere(kept: Vault, keys: Path) -> None:
    assert key_file(keys).stat().st_mode & 0o777 == 0o600
    assert kept.path.stat().st_mode & 0o777 == 0o600
    assert kept.path.parent.stat().st_mode & 0o777 == 0o700
    assert keys.stat().st_mode & 0o777 == 0o700
    assert not key_file(keys).is_relative_to(kept.path.parent)


def test_without_its_key_file_the_vault_says_what_is_lost(kept: Vault, new_vault: NewVault, keys: Path) -> None:
    path = key_file(keys)
    path.unlink()

    with pytest.raises(KeyGone, match="is gone") as caught:
        new_vault().reveal("KEY", OZZIE)
    assert str(path) in str(caught.value)
    assert "Without it the values are lost." in caught.value.hint
    with pytest.raises(KeyGone):
        new_vault().set("OTHER", EVERYBODY, Secret("x"), by="ann")


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (b"x" * 32, DamagedVault, "its keyfile does not open it, so one of the two was changed"),
        (b"", KeyGone, "was damaged"),
        (b"x" * 33, KeyGone, "was damaged"),
    ],
)
def test_another_key_file_opens_nothing(
    kept: Vault, new_vault: NewVault, keys: Path, content: bytes, error: type[Unavailable], says: str
) -> None:
    key_file(keys).write_bytes(content)

    with pytest.raises(error, match=says):
        new_vault().reveal("KEY", OZZIE)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o601])
def test_a_key_file_that_others_could_use_is_not_used(kept: Vault, new_vault: NewVault, keys: Path, mode: int) -> None:
    key_file(keys).chmod(mode)

    with pytest.raises(UnsafeFile, match="can be read or changed by others, so it is not used") as caught:
        new_vault().reveal("KEY", OZZIE)
    assert f"chmod 600 {key_file(keys)}" in caught.value.hint


def test_a_vault_that_others_could_read_is_not_used(kept: Vault, new_vault: NewVault) -> None:
    kept.path.chmod(0o644)

    with pytest.raises(UnsafeFile, match="can be read or changed by others"):
        new_vault().reveal("KEY", OZZIE)


def test_links_and_pipes_are_not_used(kept: Vault, new_vault: NewVault, keys: Path, tmp_path: Path) -> None:
    path = key_file(keys)
    path.rename(tmp_path / "moved.key")
    path.symlink_to(tmp_path / "moved.key")
    with pytest.raises(UnsafeFile, match="is a link, so it is not used"):
        new_vault().reveal("KEY", OZZIE)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(UnsafeFile, match="is not a file of yours, so it is not used"):
        new_vault().reveal("KEY", OZZIE)


def test_the_folder_is_closed_where_it_was_open(vault: Vault) -> None:
    vault.path.parent.mkdir(mode=0o755)
    vault.path.parent.chmod(0o755)
    vault.set("KEY", EVERYBODY, Secret("x"), by="ann")

    assert vault.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_passphrase_opens_it_for_a_person_only(kept: Vault, new_vault: NewVault, keys: Path) -> None:
    before = kept.path.read_text()
    kept.protect(["passphrase"], by="ann", passphrase=PASSPHRASE)
    locked, opened = new_vault(), new_vault()
    opened.unlock(lambda: PASSPHRASE)

    assert locked.locked
    assert not opened.locked
    assert list(keys.iterdir()) == [], "the key file opens nothing any more"
    assert opened.reveal("KEY", OZZIE).reveal() == "sk-1"
    assert kept.reveal("KEY", OZZIE).reveal() == "sk-1"
    assert before.split('"sealed":"')[1].split('"')[0] in kept.path.read_text(), "no value was sealed anew"
    with pytest.raises(VaultLocked, match="The vault is locked"):
        locked.reveal("KEY", OZZIE)
    with pytest.raises(VaultLocked) as caught:
        locked.set("OTHER", EVERYBODY, Secret("x"), by="ann")
    assert caught.value.hint == "Unlock it with ozzie secrets unlock."
    with pytest.raises(WrongPassphrase, match="This passphrase does not open the vault"):
        locked.unlock(lambda: "something else")
    assert [one.name for one in locked.listing()] == ["KEY"]
    assert locked.holds("KEY", OZZIE)

    opened.lock()
    assert opened.locked


def test_a_new_data_key_keeps_the_passphrase(kept: Vault, new_vault: NewVault) -> None:
    kept.protect(["passphrase", "keyfile"], by="ann", passphrase=PASSPHRASE)
    with pytest.raises(VaultLocked):
        new_vault().rekey(by="ann")
    new_vault().rekey(by="ann", ask=lambda: PASSPHRASE)

    assert new_vault().reveal("KEY", OZZIE).reveal() == "sk-1", "by the key file"
    assert kept.ways() == ("passphrase", "keyfile")


def test_a_passphrase_stands_in_for_a_key_file_that_is_gone(kept: Vault, new_vault: NewVault, keys: Path) -> None:
    kept.protect(["keyfile", "passphrase"], by="ann", passphrase=PASSPHRASE)
    key_file(keys).unlink()
    found = new_vault()
    with pytest.raises(VaultLocked):
        found.unlock()
    found.unlock(lambda: PASSPHRASE)

    assert found.reveal("KEY", OZZIE).reveal() == "sk-1"


def test_a_short_passphrase_changes_nothing(kept: Vault, new_vault: NewVault, keys: Path) -> None:
    before = kept.path.read_bytes()
    with pytest.raises(BadSecret, match="A passphrase has at least 8 characters"):
        kept.protect(["keyfile", "passphrase"], by="ann", passphrase="short")

    assert kept.path.read_bytes() == before
    assert key_file(keys).is_file(), "the new key file is gone again, the old one is there"
    assert new_vault().reveal("KEY", OZZIE).reveal() == "sk-1"


def test_a_vault_that_opens_by_itself_can_not_be_locked(kept: Vault) -> None:
    with pytest.raises(BadSecret, match="opens without a person, so it would not stay locked") as caught:
        kept.lock()
    assert caught.value.hint == "Have it ask for a passphrase: ozzie secrets protect --with passphrase"


def test_something_has_to_open_it(kept: Vault, new_vault: NewVault) -> None:
    with pytest.raises(BadSecret, match=r"Nothing would open the vault\."):
        kept.protect([], by="ann")
    assert new_vault().reveal("KEY", OZZIE).reveal() == "sk-1"


def test_the_systems_keyring_opens_it(kept: Vault, new_vault: NewVault, keys: Path, ring: MemoryKeyring) -> None:
    kept.protect(["keyring"], by="ann")
    found = new_vault()

    assert found.locked, "it is asked only where somebody can wait for it"
    found.unlock()
    assert found.reveal("KEY", OZZIE).reveal() == "sk-1"
    assert list(keys.iterdir()) == []
    assert len(ring.kept) == 1

    ring.is_shut = True
    with pytest.raises(VaultLocked):
        new_vault().reveal("KEY", OZZIE)
    with pytest.raises(NoKeyring, match=r"This machine's keyring does not answer \(KeyringLocked\)\."):
        new_vault().unlock()
    ring.is_shut = False
    kept.protect(["keyfile"], by="ann")
    assert ring.kept == {}


def test_a_key_that_is_gone_from_the_keyring_is_said_to_be_lost(
    kept: Vault, new_vault: NewVault, ring: MemoryKeyring
) -> None:
    kept.protect(["keyring"], by="ann")
    ring.kept.clear()

    with pytest.raises(KeyGone, match=r"The vault's key is not in this machine's keyring \(vault-[0-9a-f]{16}\)\."):
        new_vault().unlock()


@pytest.mark.usefixtures("no_ring")
def test_without_a_keyring_there_is_another_way(kept: Vault, new_vault: NewVault) -> None:
    with pytest.raises(NoKeyring, match="This machine has no keyring that could keep a key") as caught:
        kept.protect(["keyring"], by="ann")

    assert "--with passphrase" in caught.value.hint
    assert new_vault().reveal("KEY", OZZIE).reveal() == "sk-1"
