"""What can be wrong with the vault and with those who ask it, each with what to do next. No value stands in any."""

from pathlib import Path

from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, PolicyError, Unavailable

ANEW = "Put a backup of it back, or move it away and set the secrets again: ozzie secrets set, or ozzie secrets import."


class BadSecret(InputError):
    """A name, a scope or a value that the vault does not take. What was given is not repeated."""

    code = "secret.invalid"


class NoSecret(NotFound):
    """There is no secret of this name where it was looked for."""

    code = "secret.not_found"


class SecretDenied(PolicyError):
    """The reader was not granted this name; says nothing of whether there is such a secret."""

    code = "secret.denied"


class VaultLocked(Unavailable):
    """Nothing here opens the vault without a person."""

    code = "vault.locked"

    def __init__(self) -> None:
        super().__init__("The vault is locked.", hint="Unlock it with ozzie secrets unlock.")


class WrongPassphrase(InputError):
    """The passphrase opens none of what it should."""

    code = "vault.passphrase"

    def __init__(self, what: str = "the vault") -> None:
        super().__init__(f"This passphrase does not open {what}.", hint="Try again; nothing was changed.")


class DamagedVault(Unavailable):
    """The file is not what was written. It is left as it is."""

    code = "vault.damaged"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is not what Ozzie wrote there: {reason}.", hint=ANEW)


class NewerVault(Unavailable):
    """The file is of a format that this Ozzie does not know."""

    code = "vault.newer"

    def __init__(self, path: Path, version: object) -> None:
        super().__init__(
            f"{path} is of a newer format ({version}) than this Ozzie knows.", hint="Update jupyter-ozzie."
        )


class UnsafeFile(Unavailable):
    """A file or folder of the vault that others can read, or that is somebody else's: it is not used."""

    code = "vault.unsafe"


class VaultUnusable(Unavailable):
    """The system does not let the vault be read or written."""

    code = "vault.unusable"


class VaultBusy(Conflict):
    """Another process holds the vault's lock."""

    code = "vault.busy"

    def __init__(self) -> None:
        super().__init__("Another process is changing the vault.", hint="Try again when it is done.")


class NoKeyring(Unavailable):
    """There is no keyring of the operating system that could keep a key."""

    code = "vault.keyring"
