"""Keeps the tools that stand for skills in step with the files of these (TK-3 "hot reload")."""

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.skills.as_tool import skill_tools
from ozzie_server_ext.skills.library import Library, Shelf
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.registry import ToolRegistry

log = logger(__name__)


class SkillTools:
    """Those of one registry."""

    def __init__(self, library: Library, registry: ToolRegistry) -> None:
        self._library = library
        self._registry = registry
        self._shelf: Shelf | None = None
        self._tools: tuple[Tool, ...] = ()
        self._told = ""

    async def refresh(self) -> None:
        """Look at the files again. Where they can't be read, what was there stays, and the log says why."""
        try:
            shelf = await self._library.look()
        except OzzieError as error:
            if self._told != str(error):
                log.warning("the skills can't be read: %s", error)
            self._told = str(error)
            return
        self._told = ""
        if shelf is not self._shelf:
            self._tools = self._registry.replace(self._tools, skill_tools(shelf))
            self._shelf = shelf
