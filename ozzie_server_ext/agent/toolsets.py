"""The tools that each turn was offered, used and found, folded from a session's events."""

from ozzie_server_ext.domain.events import (
    Event,
    InjectedTool,
    ModelCallCompleted,
    ModelCallStarted,
    ToolCallCompleted,
    ToolCallRequested,
    ToolsetInjected,
)
from ozzie_server_ext.domain.ids import CallId, TaskId
from ozzie_server_ext.domain.json import Json, objects
from ozzie_server_ext.domain.toolmeta import SKILLS
from ozzie_server_ext.tools.offering import FIND_ID


class Toolsets:
    """The fold. A tool that was offered once stays, even if a model without tools was called meanwhile."""

    def __init__(self) -> None:
        self._offered: dict[TaskId | None, tuple[str, ...]] = {}
        self._last: dict[TaskId | None, tuple[InjectedTool, ...]] = {}
        self._known: dict[tuple[InjectedTool, ...], tuple[InjectedTool, ...]] = {}
        self._used: dict[TaskId | None, tuple[str, ...]] = {}
        self._found: dict[TaskId | None, tuple[str, ...]] = {}
        self._before: dict[TaskId | None, TaskId | None] = {}
        self.latest: TaskId | None = None
        """The turn that began last."""
        self._finding: set[CallId] = set()
        self._delegating: set[TaskId | None] = set()

    def apply(self, event: Event) -> None:
        task_id = event.task_id
        match event.body:
            case ToolsetInjected(tools=tools):
                # Nearly all turns of a session have the same set, so it is stored once.
                self._last[task_id] = self._known.setdefault(tools, tools)
                self._offered[task_id] = _more(self.offered(task_id), *(tool.tool_id for tool in tools))
            case ModelCallStarted(purpose="answer") if task_id not in self._before:
                self._before[task_id], self.latest = self.latest, task_id
            case ModelCallCompleted(tool_uses=uses, finish=finish) if uses and finish != "length":
                self._used[task_id] = _more(self.used(task_id), *(use.name for use in uses))
            case ToolCallRequested(call_id=call_id, tool_id=tool_id) if tool_id == FIND_ID:
                self._finding.add(call_id)
            case ToolCallRequested(tool_id=tool_id) if tool_id.startswith(SKILLS):
                self._delegating.add(task_id)
            case ToolCallCompleted(call_id=call_id, data=data) if call_id in self._finding:
                self._finding.discard(call_id)
                self._found[task_id] = _more(self.found(task_id), *_names_in(data))
            case _:
                pass

    def restore(self, latest: TaskId | None, used: tuple[str, ...]) -> None:
        """Begin behind a turn that used these tools."""
        self.latest = latest
        self._used[latest] = used

    def offered(self, task_id: TaskId | None) -> tuple[str, ...]:
        """Return the ids of all tools that the turn was offered, in order."""
        return self._offered.get(task_id, ())

    def last(self, task_id: TaskId | None) -> ToolsetInjected | None:
        """Return the toolset that it was offered last, or None."""
        found = self._last.get(task_id)
        return None if found is None else ToolsetInjected(tools=found)

    def used(self, task_id: TaskId | None) -> tuple[str, ...]:
        """Return the names of the tools that its model called, as written."""
        return self._used.get(task_id, ())

    def used_before(self, task_id: TaskId | None) -> tuple[str, ...]:
        """Return the same for the turn before."""
        before = self._before.get(task_id, self.latest)
        return () if before is None else self.used(before)

    def has_delegated(self, task_id: TaskId | None) -> bool:
        """Whether its model called a skill."""
        return task_id in self._delegating

    def found(self, task_id: TaskId | None) -> tuple[str, ...]:
        """Return the names that its searches for tools found."""
        return self._found.get(task_id, ())


def _more(known: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *names)))


def _names_in(data: Json) -> list[str]:
    listed = data.get("tools") if isinstance(data, dict) else None
    return [name for each in objects(listed) if isinstance(name := each.get("name"), str)]
