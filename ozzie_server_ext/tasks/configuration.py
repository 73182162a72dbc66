"""The settings in force: read again when a file changes, recorded when they do, kept when a file is broken (OB-2)."""

import asyncio
import hashlib
from pathlib import Path

from ozzie_server_ext.config.files import Stamps, stamps_of
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.loader import PROJECT_FILE, SYSTEM_FILE, Config, load
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import ConfigChanged, Draft
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog

log = logger(__name__)

STREAM = "config"


class Configuration:
    """`current` is what counts; `error` says why the files on disk are not it, empty where they are."""

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
        self._refreshing = asyncio.Lock()
        self.current = load(Home(Path("/nonexistent")), env={}, system_file=Path("/nonexistent"))
        self.version = ""
        self.soul = ""
        self.error = ""

    async def refresh(self) -> Config:
        """Read the files again if any changed, and record the change. A broken file leaves the settings as they are."""
        async with self._refreshing:
            stamps = stamps_of(self._files)
            if stamps != self._stamps:
                await self._read()
                self._stamps = stamps
        return self.current

    async def _read(self) -> None:
        try:
            fresh = load(self._home, project=self._project)
            soul = self._home.soul_file.read_text("utf-8") if self._home.soul_file.is_file() else ""
        except InputError as error:
            log.warning("the configuration was not taken: %s", error)
            self.error = str(error)
            return
        except (OSError, UnicodeDecodeError) as error:
            self.error = f"{self._home.soul_file}: can't be read as text: {error}."
            return
        raw = canonical_bytes(fresh.raw)
        version = hashlib.sha256(raw).hexdigest()[:16]
        if version != self.version:
            previous = self.version or await self._recorded_version()
            if version != previous:
                blob = await self._blobs.put(raw)
                fact = ConfigChanged(version=version, blob=blob, files=fresh.files, previous=previous)
                await self._log.append(STREAM, [Draft(body=fact, actor="system", source="config")])
        self.current, self.version, self.soul, self.error = fresh, version, soul, ""

    async def _recorded_version(self) -> str:
        events = await self._log.read_stream(STREAM)
        last = events[-1].body if events else None
        return last.version if isinstance(last, ConfigChanged) else ""
