"""Tools that files of the user and the project bring into a project's registry, and are replaced when these change."""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ozzie_server_ext.config.files import Stamps, stamps_of
from ozzie_server_ext.config.watching import FileWatch
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import ConfigChanged, Draft
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.configuration import recorded_version
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.registry import ToolRegistry

log = logger(__name__)


class ReadTools(msgspec.Struct, frozen=True, kw_only=True):
    """What the files bring: `tools`; `record`, from which a replay makes the same ones, empty without any; and the
    `names` of what they come from."""

    tools: Sequence[Tool]
    record: bytes
    names: tuple[str, ...]


class WatchedTools(ABC):
    """Keeps the tools of one kind up to date. What is used is recorded, so that a replay has the same tools. `stream`
    is that of its records, `what` the tools' kind in words."""

    def __init__(
        self, project: Path, registry: ToolRegistry, event_log: EventLog, blobs: BlobStore, *, stream: str, what: str
    ) -> None:
        self.project = project
        self._registry = registry
        self._log = event_log
        self._blobs = blobs
        self._stream = stream
        self._what = what
        self._recorded: str | None = None
        self._watch = FileWatch()
        self._looking = asyncio.Lock()
        self._stamps: Stamps | None = None
        self._tools: tuple[Tool, ...] = ()
        self._logged = ""

    @abstractmethod
    def files(self) -> tuple[Path, ...]:
        """Return the files that bring the tools. Called in a thread."""

    @abstractmethod
    async def read(self) -> ReadTools:
        """Read the files, and end the connections to what is not used any more. Raises OzzieError."""

    @abstractmethod
    def end_connections(self) -> None:
        """End all connections; the next call makes a new one, with the secrets of then."""

    async def refresh(self) -> None:
        """Read changed files. If they can't be read, keep no tools and log the error once."""
        async with self._looking:
            if self._watch.is_quiet():
                return
            fresh = await self._watch.in_thread(self._look)
            if fresh == self._stamps or await self._read():
                self._stamps = fresh
                self._watch.settle()

    def _look(self) -> Stamps:
        files = self.files()
        self._watch.begin()
        self._watch.add(files)
        return stamps_of(files)

    async def _read(self) -> bool:
        """Take over what the files bring; return False if they can't be read."""
        try:
            found = await self.read()
        except OzzieError as error:
            if self._logged != str(error):
                log.warning("the %s can't be read: %s", self._what, error)
            self._logged = str(error)
            self._tools = self._registry.replace(self._tools, ())
            self.end_connections()
            return False
        await self._record(found)
        self._tools = self._registry.replace(self._tools, found.tools)
        for tool in found.tools:
            if tool not in self._tools:
                log.warning("the tool %s is left out: another one has its name", tool.meta.tool_id)
        self._logged = ""
        return True

    async def is_news(self, record: bytes) -> bool:
        """Whether something else is used than what was last recorded."""
        return await self._last() != _version(record)

    async def _last(self) -> str:
        if self._recorded is None:
            self._recorded = await recorded_version(self._log, self._stream, self.project)
        return self._recorded

    async def _record(self, found: ReadTools) -> None:
        """Record what is used if it is something else than last time."""
        last, version = await self._last(), _version(found.record)
        if version == last or (not found.names and not last):
            return
        fact = ConfigChanged(
            version=version,
            blob=await self._blobs.put(found.record),
            files=found.names,
            previous=last,
            project=str(self.project),
        )
        await self._log.append(self._stream, [Draft(body=fact, actor="system", source=self._stream)])
        self._recorded = version


def _version(record: bytes) -> str:
    return hashlib.sha256(record).hexdigest()[:12]
