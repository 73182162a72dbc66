"""The rules in force: reloaded and recorded when a file changes. Nothing is allowed while a file is invalid."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from msgspec.structs import replace

from ozzie_server_ext.config.files import Stamps, stamps_of
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import ConfigChanged, Draft
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.policy.decision import UNREAD, Caller, Decision, Reading, Verdict
from ozzie_server_ext.policy.engine import Ruling, denies_always
from ozzie_server_ext.policy.files import SYSTEM_FILE, Policy, load, paths_of
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.configuration import recorded_version
from ozzie_server_ext.tasks.spent import SpentToday
from ozzie_server_ext.tools.registry import ToolRegistry

log = logger(__name__)

STREAM = "policy"
BROKEN = "policy.broken"
UNREADABLE = "The rules can't be read; Ozzie's log has the details."


class RulesInForce:
    """`policy` has the current rules. `error` says why the files are invalid, or is empty. As long as they are, every
    call is denied, since it is unknown what the invalid file was to forbid."""

    def __init__(
        self,
        home: Home,
        project: Path,
        registry: ToolRegistry,
        event_log: EventLog,
        blobs: BlobStore,
        spent: SpentToday,
        *,
        system_file: Path = SYSTEM_FILE,
    ) -> None:
        """`spent`: of all projects."""
        self._home = home
        self._project = project
        self._registry = registry
        self._log = event_log
        self._blobs = blobs
        self._spent = spent
        self._system_file = system_file
        self._files = (*paths_of(home, project, system_file), home.trusted_file)
        self._stamps: Stamps | None = None
        self._recorded: str | None = None
        self._refreshing = asyncio.Lock()
        self._next_look: asyncio.Task[None] | None = None
        self.policy = Policy()
        self.error = ""
        self.hint = ""

    async def refresh(self) -> Policy:
        """Read the files again if any changed, and record the change. Those who wait for a look to begin share it."""
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look(), name="look at the rules")
        await asyncio.shield(self._next_look)
        return self.policy

    async def _look(self) -> None:
        async with self._refreshing:
            self._next_look = None  # whoever comes from now on may know of a later change
            stamps = await asyncio.to_thread(stamps_of, self._files)
            if stamps != self._stamps:
                await self._read()
                # After a temporary error, such as too many open files, try again without any change.
                self._stamps = None if self.error else stamps

    async def of(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        """Return the ruling on a call by the current files."""
        await self.refresh()
        return await self.of_last_read(meta, args, caller, reading)

    async def of_last_read(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        """Like `of`, by the files as last read, without a look at them."""
        if self.error:
            return Ruling(Verdict(decision=Decision.DENY, rule=BROKEN, reason=self.problem))
        policy = self.policy
        ruling = await self._spent.ruling(policy, meta, args, caller, reading)
        return replace(ruling, asking=policy.asking, contacts=policy.contacts)

    def deciding(self, meta: ToolMeta) -> AbstractAsyncContextManager[object]:
        """See `policy.engine.Rulings`: what is spent today counts from the start of a call."""
        return self._spent.deciding(meta)

    async def denied(self, caller: Caller) -> frozenset[str]:
        """Return the ids of the tools that the rules deny `caller` for all arguments; no ids while the rules are
        invalid: then every call is denied with the reason, which nobody would see if no tools were offered."""
        policy = await self.refresh()
        rules = tuple(rule for rule in policy.rules if rule.verdict.decision is Decision.DENY)
        if self.error or not rules:
            return frozenset()
        metas = [tool.meta for tool in self._registry.all()]
        denied = (meta.tool_id for meta in metas if denies_always(meta, caller, rules))
        return await asyncio.to_thread(frozenset, denied)  # there can be many of both

    @property
    def problem(self) -> str:
        """Why the files are invalid and what to do; empty if they are valid."""
        return " ".join(filter(None, [self.error, self.hint]))

    async def _read(self) -> None:
        try:
            fresh = await asyncio.to_thread(
                load, self._home, self._project, self._registry.find, system_file=self._system_file
            )
        except InputError as error:
            if str(error) != self.error:  # an invalid file is read for every call, but logged once
                log.warning("the rules were not taken: %s", error)
            self.error, self.hint = str(error), error.hint
            return
        except Exception:  # unreadable rules must not count as no rules
            if self.error != UNREADABLE:
                log.exception("the rules can't be read")
            self.error, self.hint = UNREADABLE, ""
            return
        for warning in (warning for file in fresh.files for warning in file.warnings):
            log.warning("%s", warning)
        await self._record(fresh)
        self.policy, self.error, self.hint = fresh, "", ""

    async def _record(self, fresh: Policy) -> None:
        if self._recorded is None:
            self._recorded = await recorded_version(self._log, STREAM, self._project)
        if fresh.version == self._recorded:
            return
        texts: JsonObject = {str(file.path): file.content.decode() for file in fresh.files}
        fact = ConfigChanged(
            version=fresh.version,
            blob=await self._blobs.put(canonical_bytes(texts)),
            files=tuple(texts),
            previous=self._recorded,
            project=str(self._project),
        )
        await self._log.append(STREAM, [Draft(body=fact, actor="system", source="policy")])
        self._recorded = fresh.version
