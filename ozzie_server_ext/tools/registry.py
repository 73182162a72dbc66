"""The registry of tools. No tool can take another's name."""

import contextlib
from collections.abc import Iterable

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.toolmeta import SideEffect, ToolMeta
from ozzie_server_ext.tools.base import Tool


class ToolRegistry:
    """Tools by each of their names."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._names: dict[str, Tool] = {}
        self.changes = 0
        """How often the tools have changed, for what is derived from them."""
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> None:
        """Add a tool. Raises Conflict if one of its names is taken."""
        names = {tool.meta.tool_id, tool.meta.name, *tool.meta.further_names}
        for name in names:
            if name in self._names:
                raise Conflict(
                    f"The name {name} belongs to the tool {self._names[name].meta.tool_id} already.",
                    code="tool.name_taken",
                )
        self.changes += 1
        self._tools[tool.meta.tool_id] = tool
        self._names |= dict.fromkeys(names, tool)

    def replace(self, before: Iterable[Tool], tools: Iterable[Tool]) -> tuple[Tool, ...]:
        """Replace the tools `before` by `tools`; return the registered ones, without those whose name is taken."""
        self.changes += 1
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
        """Return the tool with this id or name; models sometimes use a further name or the id."""
        return self._names.get(name)

    def meta(self, name: str) -> ToolMeta | None:
        """Return the contract of the tool with this id or name."""
        tool = self._names.get(name)
        return tool.meta if tool is not None else None

    def may_be_repeated(self, tool_id: str) -> bool:
        """Whether a call without an outcome may be repeated; False for an unknown tool."""
        tool = self._tools.get(tool_id)
        return tool is not None and tool.meta.may_be_repeated

    def takes_key(self, tool_id: str) -> bool:
        """Whether a call repeated with the same key has its effect only once."""
        tool = self._tools.get(tool_id)
        return tool is not None and tool.meta.takes_key

    def only_reads(self, name: str) -> bool:
        """Whether a call by this name has no effect; True for an unknown tool, which never runs."""
        meta = self.meta(name)
        return meta is None or meta.side_effect is SideEffect.NONE

    def has_effects(self, tool_id: str) -> bool:
        """Whether a call of this tool may have had an effect; True for a tool that is not known any more."""
        tool = self._tools.get(tool_id)
        return tool is None or tool.meta.side_effect is not SideEffect.NONE

    def is_outbound(self, name: str) -> bool:
        """Whether a call by this name leaves this machine; False for an unknown tool."""
        meta = self.meta(name)
        return meta is not None and meta.is_outbound

    def all(self) -> tuple[Tool, ...]:
        return tuple(self._tools[tool_id] for tool_id in sorted(self._tools))
