"""The tools of one turn: what it is offered, by whom that was described, and what was left out (TL-6)."""

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.offering import FIND_ID, Offers, SoFar, allowed, offered


class TurnToolbox:
    """Has no memory of its own: everything is found anew from the conversation, so it is the same behind a restart."""

    def __init__(self, index: ToolIndex, offers: Offers, conversation: Conversation, task_id: TaskId | None) -> None:
        self._index = index
        self._offers = offers
        self._conversation = conversation
        self._task_id = task_id
        self._position: int | None = None
        self._tools: tuple[Tool, ...] = ()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the model is offered in the next request."""
        if self._position != self._conversation.position:
            self._tools = offered(self._index, self._offers, self._so_far())
            self._position = self._conversation.position
        return self._tools

    @property
    def told(self) -> Content:
        """Whose words the model reads with that."""
        return Content.of_all(tool.meta.told_by for tool in self.tools)

    @property
    def is_partial(self) -> bool:
        """Whether there are others, which the model can find."""
        return any(tool.meta.tool_id == FIND_ID for tool in self.tools)

    def find(self, query: str, limit: int) -> tuple[Tool, ...]:
        """Of the tools that it is not offered yet, those that fit; of a pinned set, nothing is left out."""
        if self._offers.pinned is not None:
            return ()
        known = {FIND_ID, *(tool.meta.tool_id for tool in self.tools)}
        found = (tool for tool in self._index.search(query) if tool.meta.tool_id not in known)
        return allowed(found, self._offers)[:limit]

    def _so_far(self) -> SoFar:
        sets = self._conversation.toolsets
        before = sets.offered(self._task_id)
        return SoFar(
            message="" if before else self._conversation.message(self._task_id),
            offered=before,
            used=sets.used(self._task_id),
            found=sets.found(self._task_id),
            before=sets.used_before(self._task_id),
        )
