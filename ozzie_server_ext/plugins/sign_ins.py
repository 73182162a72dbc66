"""Sign-ins to MCP servers at an address (OAuth), in the vault: a token for each call, renewed by one process at a time.

A connection gets an access token alone. What renews it goes from the vault to the tool host for one request, and comes
back as something new, which replaces it in the vault. A token goes only to the address that it was given for.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import shlex
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import Conflict, OzzieError
from ozzie_server_ext.plugins.servers import slug_of
from ozzie_server_ext.plugins.tool_host import OnRenew, ServerFailed, ToolHost
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object
from ozzie_server_ext.protocol.tool_host import Grant, Remote
from ozzie_server_ext.vault.document import Change
from ozzie_server_ext.vault.scope import MAX_VALUE_BYTES, PluginReader, Scope, checked_value
from ozzie_server_ext.vault.vault import Vault

RENEWED_BY = "Ozzie, renewing a sign-in"
"""Who changed the vault, as its record says: nobody did anything, so nothing else is to follow from it."""
_OWNER = "OAuth."
"""How the owners of sign-ins begin in the vault. No plugin's name has a capital letter, so none can read them."""
_EARLY_S = 60
"""So long before it expires, a token is renewed."""
_REFRESH_S = 30.0
_LOCK_S = 45.0
_POLL_S = 0.05


class SignIns:
    """The user's sign-ins. `note` remembers a token that goes to a server, so that it is removed from what comes
    back."""

    def __init__(
        self, home: Home, vault: Vault, host: ToolHost, note: Callable[[str], None] = lambda value: None
    ) -> None:
        self._home = home
        self._vault = vault
        self._host = host
        self._note = note
        self._renewing: dict[str, asyncio.Task[Grant | None]] = {}

    def known(self, key: str, name: str, url: str) -> Grant | None:
        """Return the sign-in to a server at this address, by the server's key and name. Raises OzzieError."""
        if not is_signed_in(self._vault, key, name):
            return None
        secret, scope = _place(key, name)
        try:
            content = self._vault.reveal(secret, _reader(scope)).reveal().encode()
            grant = decode(Grant, loads_object(content, max_bytes=MAX_VALUE_BYTES))
        except (InvalidJson, InvalidShape):
            return None
        return grant if grant.url == url else None

    async def replace(self, key: str, name: str, grant: Grant, *, by: str) -> None:
        """Store a sign-in in place of an earlier one. Raises OzzieError."""
        async with _one_at_a_time(self._lock_file(key, "renewal")):
            await asyncio.to_thread(self._keep, key, name, grant, by)

    async def forget(self, key: str, name: str, *, by: str) -> bool:
        """Remove a sign-in; return whether there was one. Raises OzzieError."""
        secret, scope = _place(key, name)
        async with _one_at_a_time(self._lock_file(key, "renewal")):
            if not is_signed_in(self._vault, key, name):
                return False
            await asyncio.to_thread(self._vault.remove, secret, scope, by=by)
            return True

    def _keep(self, key: str, name: str, grant: Grant, by: str) -> None:
        secret, scope = _place(key, name)
        self._vault.set(secret, scope, checked_value(json.dumps(encode(grant))), by=by)

    async def signed(self, key: str, name: str, remote: Remote) -> tuple[Remote, OnRenew]:
        """Return the server with a token, if there is a sign-in, and what renews it. Raises ServerFailed."""

        async def renew(rejected: str) -> str:
            return await self._token(key, name, remote.url, rejected)

        return msgspec.structs.replace(remote, token=await self._token(key, name, remote.url, "")), renew

    async def _token(self, key: str, name: str, url: str, rejected: str) -> str:
        """Return a token other than the one that was rejected; "" without a sign-in. Raises ServerFailed."""
        try:
            grant = await asyncio.to_thread(self.known, key, name, url)
            if grant is not None and not _is_good(grant, rejected):
                # Not ended with the call: once it was used, the old refresh token may not count any more.
                if (renewing := self._renewing.get(key)) is None:
                    renewing = self._renewing[key] = asyncio.create_task(self._renew(key, name, url, rejected))
                    renewing.add_done_callback(lambda task: self._end_renewal(key, task))
                grant = await asyncio.shield(renewing)
        except ServerFailed:
            raise
        except OzzieError as error:  # of the vault
            raise ServerFailed(str(error), code=error.code, hint=error.hint) from None
        if grant is None:
            return ""
        self._note(grant.access_token)
        return grant.access_token

    def _end_renewal(self, key: str, task: "asyncio.Task[Grant | None]") -> None:
        del self._renewing[key]
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; nobody may

    async def _renew(self, key: str, name: str, url: str, rejected: str) -> Grant | None:
        async with _one_at_a_time(self._lock_file(key, "renewal")):
            grant = await asyncio.to_thread(self.known, key, name, url)  # another process may have renewed it
            return grant if grant is None or _is_good(grant, rejected) else await self._renewed(key, name, grant)

    async def _renewed(self, key: str, name: str, grant: Grant) -> Grant:
        if not grant.refresh_token:
            raise ServerFailed("Your sign-in has expired.", code="mcp.signed_out")
        try:
            fresh = await self._host.refresh(grant, within_s=_REFRESH_S)
        except ServerFailed as error:
            if error.code == "mcp.signed_out":  # how Ozzie is known there stays, for the next sign-in
                spent = msgspec.structs.replace(grant, refresh_token="", expires_at=1)
                await asyncio.to_thread(self._keep, key, name, spent, RENEWED_BY)
            raise
        await asyncio.to_thread(self._keep, key, name, fresh, RENEWED_BY)
        return fresh

    @contextmanager
    def signing_in(self, key: str) -> Generator[None]:
        """Hold off others who sign in to the same server: they would register twice, and ask twice. Raises Conflict."""
        with _opened(self._lock_file(key, "login")) as descriptor:
            if not _is_locked(descriptor):
                raise Conflict(
                    "Somebody signs in to it in another terminal just now.", hint="End that first.", code="mcp.busy"
                )
            yield

    def _lock_file(self, key: str, what: str) -> Path:
        self._home.create()
        return self._home.root / "run" / f"sign-in-{_hash(key)}.{what}"


def _is_good(grant: Grant, rejected: str) -> bool:
    is_fresh = not grant.expires_at or time.time() < grant.expires_at - _EARLY_S
    return bool(grant.access_token) and grant.access_token != rejected and is_fresh


def _place(key: str, name: str) -> tuple[str, Scope]:
    return f"SIGN_IN_{_hash(key)}", Scope("plugin", f"{_OWNER}{slug_of(name)}"[:64])


def _reader(scope: Scope) -> PluginReader:
    return PluginReader(plugin=scope.owner, project="/")


def is_signed_in(vault: Vault, key: str, name: str) -> bool:
    """Return whether there is a sign-in to a server, also in a locked vault. Raises OzzieError."""
    secret, scope = _place(key, name)
    return vault.holds(secret, _reader(scope))


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def is_renewal(change: Change) -> bool:
    """Whether a change of the vault is a renewed sign-in, which whoever needs it has already."""
    return change.by == RENEWED_BY and change.scope.startswith(f"plugin:{_OWNER}")


@contextmanager
def _opened(path: Path) -> Generator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)  # releases the lock


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@asynccontextmanager
async def _one_at_a_time(path: Path) -> AsyncGenerator[None]:
    """Hold off others, of other processes too, who renew the same sign-in: a refresh token counts once. Raises
    ServerFailed if that takes too long."""
    with _opened(path) as descriptor:
        end = time.monotonic() + _LOCK_S
        while not _is_locked(descriptor):
            if time.monotonic() > end:
                raise ServerFailed("Another program takes too long to renew your sign-in.", code="mcp.busy")
            await asyncio.sleep(_POLL_S)
        yield


# --- words ------------------------------------------------------------------------------------------------------------


def with_way(error: ServerFailed, name: str, *, granted: str = "", secrets: Sequence[str] = ()) -> str:
    """Return an error in words, with what to do if the server rejects who calls. `granted` are the rights of the
    sign-in, `secrets` the names of those that the server gets."""
    login = f"ozzie mcp login {shlex.quote(name)}"
    if error.scope:
        rights = " ".join(dict.fromkeys([*granted.split(), *error.scope.split()]))
        login += f" --scope {shlex.quote(rights)}"
    match error.code:
        case "mcp.signed_out":
            return f"{error} Sign in again: {login}"
        case "mcp.key" if secrets:
            return f"{error} Store another one: ozzie secrets set {secrets[0]}"
        case "mcp.key" | "mcp.sign_in":
            return f"{error} Sign in: {login}"
        case "mcp.auth":
            return f"{error} If it stays like that, sign in again: {login}"
        case _:
            return str(error)
