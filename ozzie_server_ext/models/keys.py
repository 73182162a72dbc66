"""Where a provider's key comes from: the vault first, then the environment (MD-3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.vault.errors import VaultLocked
from ozzie_server_ext.vault.scope import ProjectReader
from ozzie_server_ext.vault.secret import Secret
from ozzie_server_ext.vault.vault import Vault

KeyPlace: TypeAlias = Literal["", "vault", "environment", "Claude Code"]
"""Where a key lies; empty where there is none."""


class Secrets(Protocol):
    """The secrets that Ozzie itself may see."""

    def find(self, name: str) -> Secret | None:
        """The value of this name, or None. Raises VaultLocked where there is one in a locked vault, and OzzieError
        where nobody can tell."""
        ...

    def holds(self, name: str) -> bool:
        """Whether there is one, in a locked vault too. Raises OzzieError where nobody can tell."""
        ...


class NoSecrets:
    """Where there is no vault."""

    def find(self, name: str) -> Secret | None:
        return None

    def holds(self, name: str) -> bool:
        return False


class VaultSecrets:
    """The vault as Ozzie sees it at work in one project."""

    def __init__(self, vault: Vault, reader: ProjectReader) -> None:
        self._vault = vault
        self._reader = reader

    def find(self, name: str) -> Secret | None:
        return self._vault.reveal(name, self._reader) if self._vault.holds(name, self._reader) else None

    def holds(self, name: str) -> bool:
        return self._vault.holds(name, self._reader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key, and where it was found."""

    name: str
    value: Secret = field(repr=False)
    place: KeyPlace


class Keys:
    """Finds keys by the names that the configuration gives them. `env` is the process's environment and
    `$OZZIE_PATH/.env` together."""

    def __init__(self, env: Mapping[str, str], secrets: Secrets) -> None:
        self._env = env
        self._secrets = secrets

    def find(self, name: str) -> Key | None:
        """Raises VaultLocked where it lies in a vault that is locked: another of the same name does not stand in for
        it. A vault that can't be used at all is passed over where the environment has the key; else its error is
        raised."""
        try:
            secret = self._secrets.find(name)
        except VaultLocked:
            raise
        except OzzieError:
            if not self._env.get(name):
                raise
            secret = None
        if secret is not None:
            return Key(name=name, value=secret, place="vault")
        value = self._env.get(name, "")
        return Key(name=name, value=Secret(value), place="environment") if value else None

    def look(self, name: str) -> tuple[KeyPlace, str]:
        """Where the key lies, and why it can't be used, if so."""
        try:
            key = self.find(name)
        except VaultLocked:
            return "vault", f"{name} is in the vault, which is locked"
        except OzzieError as error:
            return "", f"{name} is not set, and the vault can't be used: {error}"
        return (key.place, "") if key else ("", f"{name} is not set")
