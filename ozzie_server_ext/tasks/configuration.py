"""The settings and secrets in force: reloaded and recorded when their files change."""

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from ozzie_server_ext.config.files import Stamps, stamps_of
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.loader import PROJECT_FILE, SYSTEM_FILE, Config, load
from ozzie_server_ext.config.watching import FileWatch
from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.domain.events import ConfigChanged, Draft, SecretChanged
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.plugins.sign_ins import is_renewal
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.vault.document import Change
from ozzie_server_ext.vault.vault import Vault, VaultState

log = logger(__name__)

CONFIG_STREAM = "config"
SOUL = "SOUL.md"
"""The key of the prompt's first layer beside the settings that are recorded: no setting has such a name."""


class Configuration:
    """`current` has the settings in force; `error` says why the files on disk are not, or is empty."""

    def __init__(self, home: Home, project: Path, event_log: EventLog, blobs: BlobStore) -> None:
        self._home = home
        self._log = event_log
        self._blobs = blobs
        self._project = project
        self._files = (
            SYSTEM_FILE,
            home.config_file,
            home.env_file,
            home.soul_file,
            home.trusted_file,
            project / PROJECT_FILE,
        )
        self._stamps: Stamps | None = None
        self._watch = FileWatch()
        self._refreshing = asyncio.Lock()
        self.current = load(Home(Path("/nonexistent")), env={}, system_file=Path("/nonexistent"))
        self.version = ""
        self.soul = ""
        self.error = ""

    async def refresh(self) -> Config:
        """Read the files again if any changed, and record the change. An invalid file leaves the settings unchanged."""
        async with self._refreshing:
            if not self._watch.is_quiet():
                stamps = await self._watch.in_thread(self._look)
                if stamps != self._stamps:
                    await self._read()
                    self._stamps = stamps
                self._watch.settle()
        return self.current

    def _look(self) -> Stamps:
        self._watch.begin()
        self._watch.add(self._files)
        return stamps_of(self._files)

    async def _read(self) -> None:
        try:
            fresh, soul = await asyncio.to_thread(self._load)
        except InputError as error:
            log.warning("the configuration was not taken: %s", error)
            self.error = str(error)
            return
        except (OSError, UnicodeDecodeError) as error:
            self.error = f"{self._home.soul_file}: can't be read as text: {error}."
            return
        raw = canonical_bytes({**fresh.raw, SOUL: soul})
        version = hashlib.sha256(raw).hexdigest()[:16]
        if version != self.version:
            previous = self.version or await recorded_version(self._log, CONFIG_STREAM, self._project)
            if version != previous:
                blob, project = await self._blobs.put(raw), str(self._project)
                fact = ConfigChanged(version=version, blob=blob, files=fresh.files, previous=previous, project=project)
                await self._log.append(CONFIG_STREAM, [Draft(body=fact, actor="system", source="config")])
        self.current, self.version, self.soul, self.error = fresh, version, soul, ""

    def _load(self) -> tuple[Config, str]:
        soul = self._home.soul_file
        return load(self._home, project=self._project), soul.read_text("utf-8") if soul.is_file() else ""


async def recorded_version(event_log: EventLog, stream: str, project: Path) -> str:
    """Return the newest version in a stream of `ConfigChanged` that a project's files had; empty if none is known."""
    for event in reversed(await event_log.read_stream(stream)):
        if isinstance(event.body, ConfigChanged) and event.body.project == str(project):
            return event.body.version
    return ""


SECRETS_STREAM = "secrets"
KEYRING_S = 5.0
"""How long a start waits for the system's keyring, which may answer later."""


class SecretChanges:
    """Follows the vault, which commands change without the gateway. `refresh` records each change once and calls
    `on_changed`, so that no old value is used.

    `warning` says what is wrong with the vault, or is empty.
    """

    def __init__(self, vault: Vault, event_log: EventLog, on_changed: Callable[[], Awaitable[None]]) -> None:
        self._vault = vault
        self._log = event_log
        self._on_changed = on_changed
        self._seen: tuple[str, int] | None = None
        self._turn = asyncio.Lock()
        self._begun = self._done = 0
        """The numbers of the last look at the vault that began, and of the last that came to its end."""
        self.warning = ""

    async def refresh(self, *, patiently: bool = False) -> None:
        """Check the vault again. Problems are only set as `warning`. Callers who wait share the next look.

        `patiently`: also open it with the system's keyring, which may ask a person.
        """
        if patiently:
            await self._open_patiently()
        begun = self._begun
        async with self._turn:
            if self._done <= begun:
                self._begun += 1
                await self._look()
                self._done = self._begun

    async def _look(self) -> None:
        try:
            vault, changes = await asyncio.to_thread(self._vault.changes)
            self.warning = await self._record(vault, changes)
        except OzzieError as error:
            if self.warning != str(error):
                log.warning("the vault can't be used: %s", error)
            self.warning = str(error)

    async def state(self) -> tuple[VaultState | None, str]:
        """Return the vault's state, None if there is none or it can't be used, and the warning."""
        if self.warning:  # it may have been fixed since
            await self.refresh()
        try:
            return await asyncio.to_thread(self._vault.state), self.warning
        except OzzieError as error:
            return None, str(error)

    async def unlock(self, passphrase: str) -> None:
        """Open the vault until `lock` or the end of this process. Raises WrongPassphrase, OzzieError."""
        await asyncio.to_thread(self._vault.unlock, lambda: passphrase)
        await self.refresh()
        log.info("the vault was unlocked")

    async def lock(self) -> None:
        """Forget the vault's key here, and its secrets in the model worker. Raises BadSecret."""
        await asyncio.to_thread(self._vault.lock)
        await self._on_changed()

    async def _open_patiently(self) -> None:
        """Open the vault with the system's keyring if it has the key. It may ask a person and never answer, so it is
        called in a daemon thread."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def ask() -> None:
            with suppress(OzzieError):  # `_vault.changes` raises it again
                self._vault.unlock()
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(done.set)

        try:
            if not self._vault.locked or "keyring" not in self._vault.ways():
                return
        except OzzieError:
            return
        threading.Thread(target=ask, name="opening the vault", daemon=True).start()
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), KEYRING_S)

    async def _record(self, vault: str, changes: tuple[Change, ...]) -> str:
        """Record the changes that the log lacks; return a warning if the log has more than the vault."""
        last = changes[-1].number if changes else 0
        if self._seen == (vault, last):
            return self.warning
        known = await self._recorded(vault)
        # Not compared by number alone: a vault restored to an earlier state reuses numbers.
        differing = [change for change in changes if _fact(vault, change) not in known]
        fresh = [_fact(vault, change) for change in differing]
        if fresh:
            await self._log.append(SECRETS_STREAM, [Draft(body=fact, actor="user", source="vault") for fact in fresh])
        # A renewed sign-in must not end the connections that use it.
        is_of_somebody = not differing or not all(map(is_renewal, differing))
        if self._seen is not None and is_of_somebody:
            await self._on_changed()
        self._seen = (vault, last)
        recorded = max((fact.number for fact in known), default=0)
        if last < recorded:
            log.error("the vault is older than the log: its last change is %d, and %d was recorded", last, recorded)
            return (
                f"The vault was put back to an earlier state: its last change is {last}, and {recorded} was recorded. "
                "What was set, replaced or removed since is as it was before."
            )
        return ""

    async def _recorded(self, vault: str) -> set[SecretChanged]:
        bodies = [event.body for event in await self._log.read_stream(SECRETS_STREAM)]
        return {body for body in bodies if isinstance(body, SecretChanged) and body.vault == vault}


def _fact(vault: str, change: Change) -> SecretChanged:
    return SecretChanged(
        name=change.name,
        scope=change.scope,
        version=change.version,
        action=change.action,
        by=change.by,
        changed_at=change.changed_at,
        vault=vault,
        number=change.number,
    )
