"""Which tools there are. A tool can't take another's name."""

import contextlib
from collections.abc import Iterable

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.toolmeta import SideEffect, ToolMeta
from ozzie_server_ext.tools.base import Tool


class ToolRegistry:
    """Tools by every name that they answer to."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._names: dict[str, Tool] = {}
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> None:
        """Add a tool.

        Raises Conflict where one of its names is taken.
        """
        names = {tool.meta.tool_id, tool.meta.name, *tool.meta.further_names}
        for name in names:
            if name in self._names:
                raise Conflict(
                    f"The name {name} belongs to the tool {self._names[name].meta.tool_id} already.",
                    code="tool.name_taken",
                )
        self._tools[tool.meta.tool_id] = tool
        self._names |= dict.fromkeys(names, tool)

    def replace(self, before: Iterable[Tool], tools: Iterable[Tool]) -> tuple[Tool, ...]:
        """Put `tools` in the place of those; the ones that are there now. One whose name is taken is left out."""
        for tool in before:
            if self._tools.get(tool.meta.tool_id) is tool:
                del self._tools[tool.meta.tool_id]
                self._names = {name: each for name, each in self._names.items() if each is not tool}
        there: list[Tool] = []
        for tool in tools:
            with contextlib.suppress(Conflict):
                self.register(tool)
                there.append(tool)
        return tuple(there)

    def find(self, name: str) -> Tool | None:
        """The tool of that id or name; models now and then use a further name or the id itself."""
        return self._names.get(name)

    def meta(self, name: str) -> ToolMeta | None:
        """What the tool of that id or name declares of itself."""
        tool = self._names.get(name)
        return tool.meta if tool is not None else None

    def may_be_repeated(self, tool_id: str) -> bool:
        """Whether a call of that tool which has no outcome may be made again; of one that is not here, nobody knows."""
        tool = self._tools.get(tool_id)
        return tool is not None and tool.meta.may_be_repeated

    def takes_key(self, tool_id: str) -> bool:
        """Whether a call of that tool that is made again with the same key has its effect once."""
        tool = self._tools.get(tool_id)
        return tool is not None and tool.meta.takes_key

    def only_reads(self, name: str) -> bool:
        """Whether a call by that name has no effect; one of a tool that is not here has none."""
        meta = self.meta(name)
        return meta is None or meta.side_effect is SideEffect.NONE

    def is_outbound(self, name: str) -> bool:
        """Whether a call by that name leaves this machine; one of a tool that is not here goes nowhere."""
        meta = self.meta(name)
        return meta is not None and meta.is_outbound

    def all(self) -> tuple[Tool, ...]:
        """Every tool, by id."""
        return tuple(self._tools[tool_id] for tool_id in sorted(self._tools))
