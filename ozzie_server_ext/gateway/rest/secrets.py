"""`secrets`: what a command tells the gateway of the vault. No value comes in or goes out here."""

from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Done


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsRefresh:
    """Nothing."""


async def refresh_secrets(call: Call, asked: SecretsRefresh) -> Done:
    """Look at the vault again: what was changed in it is recorded, and counts from now on."""
    await call.ozzie.secrets.refresh(patiently=True)
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsUnlock:
    passphrase: Annotated[str, Meta(min_length=1, max_length=4096)] = field(repr=False)


async def unlock_secrets(call: Call, asked: SecretsUnlock) -> Done:
    """Open the vault with its passphrase, for as long as this gateway runs. It stands nowhere afterwards."""
    await call.ozzie.secrets.unlock(asked.passphrase)
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsLock:
    """Nothing."""


async def lock_secrets(call: Call, asked: SecretsLock) -> Done:
    """Forget what opens the vault. A call of a model that was begun goes on."""
    await call.ozzie.secrets.lock()
    return Done()
