"""`secrets`: tell the gateway about changes of the vault. No secret is sent or answered here."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Done


class SecretsRefresh(msgspec.Struct, frozen=True, kw_only=True):
    """No parameters."""


async def refresh_secrets(call: Call, request: SecretsRefresh) -> Done:
    """Read the vault again and record its changes."""
    await call.ozzie.secrets.refresh(patiently=True)
    return Done()


class SecretsUnlock(msgspec.Struct, frozen=True, kw_only=True):
    passphrase: Annotated[str, Meta(min_length=1, max_length=4096)]

    def __repr__(self) -> str:
        return "SecretsUnlock(passphrase=…)"


async def unlock_secrets(call: Call, request: SecretsUnlock) -> Done:
    """Open the vault with its passphrase while this gateway runs. The passphrase is not stored."""
    await call.ozzie.secrets.unlock(request.passphrase)
    return Done()


class SecretsLock(msgspec.Struct, frozen=True, kw_only=True):
    """No parameters."""


async def lock_secrets(call: Call, request: SecretsLock) -> Done:
    """Lock the vault. Model calls in progress go on."""
    await call.ozzie.secrets.lock()
    return Done()
