"""Which tools the turns of a project are offered, and the context of their calls."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.settings import ToolsSettings
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import Brief
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.skills.as_tool import skill_tools
from ozzie_server_ext.skills.library import Library, Shelf
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tools.base import SessionTasks, Tool, ToolContext
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.offering import Offers
from ozzie_server_ext.tools.registry import ToolRegistry

log = logger(__name__)


class RefreshedTools(Protocol):
    """Keeps the tools that files define up to date."""

    async def refresh(self) -> None: ...


class SkillTools:
    """Keeps the tools that run skills up to date in a registry."""

    def __init__(self, library: Library, registry: ToolRegistry) -> None:
        self._library = library
        self._registry = registry
        self._shelf: Shelf | None = None
        self._tools: tuple[Tool, ...] = ()
        self._logged = ""

    async def refresh(self) -> None:
        """Read changed files. If they can't be read, keep the tools and log the error once."""
        try:
            shelf = await self._library.look()
        except OzzieError as error:
            if self._logged != str(error):
                log.warning("the skills can't be read: %s", error)
            self._logged = str(error)
            return
        self._logged = ""
        if shelf is not self._shelf:
            self._tools = self._registry.replace(self._tools, skill_tools(shelf))
            self._shelf = shelf


class TurnTools:
    """The context of tools, and which tools a turn is offered."""

    def __init__(
        self,
        base: ToolContext,
        artifacts: ArtifactStore,
        index: ToolIndex,
        rules: RulesInForce,
        from_files: Iterable[RefreshedTools],
        tasks: Callable[[Recorder], SessionTasks],
    ) -> None:
        """`base` is the part of the context that all tasks share; `from_files` keep the tools that files define;
        `tasks` returns those of a recorder's session."""
        self._base = base
        self._artifacts = artifacts
        self._index = index
        self._rules = rules
        self._from_files = tuple(from_files)
        self._tasks = tasks

    def context_of(self, row: Row, recorder: Recorder) -> ToolContext:
        """Return the context of a task's calls."""
        caller = Caller(
            project=str(self._base.project),
            channel=str(row["channel"]),
            user=str(row["sender_id"]),
            attended=bool(row["attended"]),
        )
        return msgspec.structs.replace(
            self._base,
            caller=caller,
            artifacts=self._artifacts.of(recorder.session_id),
            tasks=self._tasks(recorder),
        )

    async def offers(self, settings: ToolsSettings, caller: Caller, brief: Brief, *, may_delegate: bool) -> Offers:
        """Return which tools a turn is offered by settings and rules, with the current skills and servers."""
        for each in self._from_files:
            await each.refresh()
        if brief.tools is None and len(self._index.registry.all()) > settings.max_offered:
            await asyncio.to_thread(self._index.refresh)  # slow with many tools
        return Offers(
            at_most=settings.max_offered,
            always=settings.always,
            denied=await self._rules.denied(caller),
            pinned=brief.tools,
            skills=may_delegate,
        )
