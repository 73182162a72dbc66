"""Errors of the vault, each with a hint. None contains a secret's value."""

from pathlib import Path

from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, PolicyError, Unavailable

RESTORE = (
    "Restore a backup of it, or move it away and set the secrets again: ozzie secrets set, or ozzie secrets import."
)


class BadSecret(InputError):
    """A name, scope or value that the vault rejects. The error does not repeat it."""

    code = "secret.invalid"


class NoSecret(NotFound):
    """No secret has this name in the scopes that were searched."""

    code = "secret.not_found"


class SecretDenied(PolicyError):
    """The reader was not granted this name; the error does not reveal whether the secret exists."""

    code = "secret.denied"


class VaultLocked(Unavailable):
    """Opening the vault needs a person."""

    code = "vault.locked"

    def __init__(self) -> None:
        super().__init__("The vault is locked.", hint="Unlock it with ozzie secrets unlock.")


class WrongPassphrase(InputError):
    """The passphrase is wrong."""

    code = "vault.passphrase"

    def __init__(self, what: str = "the vault") -> None:
        super().__init__(f"This passphrase does not open {what}.", hint="Try again; nothing was changed.")


class DamagedVault(Unavailable):
    """The file was changed. It is left as it is."""

    code = "vault.damaged"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is not what Ozzie wrote there: {reason}.", hint=RESTORE)


class NewerVault(Unavailable):
    """The file's format is newer than this Ozzie."""

    code = "vault.newer"

    def __init__(self, path: Path, version: object) -> None:
        super().__init__(f"{path} has a newer format ({version}) than this Ozzie knows.", hint="Update jupyter-ozzie.")


class UnsafeFile(Unavailable):
    """A file or folder that others can read, or that belongs to somebody else, is not used."""

    code = "vault.unsafe"


class VaultUnusable(Unavailable):
    """The operating system denies reading or writing the vault."""

    code = "vault.unusable"


class VaultBusy(Conflict):
    """Another process holds the vault's lock."""

    code = "vault.busy"

    def __init__(self) -> None:
        super().__init__("Another process is changing the vault.", hint="Try again when it is done.")


class NoKeyring(Unavailable):
    """The operating system has no keyring that can store a key."""

    code = "vault.keyring"
