"""What a delegated task works by, and what that means for its calls."""

from ozzie_server_ext.agent.readings import addresses_in
from ozzie_server_ext.domain.events import Brief, TaskCreated
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.toolmeta import SideEffect, ToolMeta
from ozzie_server_ext.skills.templates import as_text
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.skill_log import LoadedRun


async def brief_of(log: EventLog, task_id: TaskId) -> Brief:
    """That which the task was created with; an empty one where there is none."""
    for event in await log.read_stream(task_stream(task_id)):
        if isinstance(event.body, TaskCreated):
            return event.body.brief or Brief()
    return Brief()


async def addresses_given(log: EventLog, row: Row, run: LoadedRun) -> tuple[str, ...]:
    """The addresses that a person gave for a run: in its input, where they ran it themselves, else those that whoever
    delegated it was given (ADR 31). What the steps write gives none."""
    if row["parent_id"] is not None:
        return (await brief_of(log, TaskId(str(row["task_id"])))).given
    return () if run.run.values.content else tuple(sorted(addresses_in(as_text(run.started.input))))


def may_call(brief: Brief, meta: ToolMeta) -> bool:
    """Whether the tool is one of those that the brief names, where it names any."""
    return brief.tools is None or _names(meta, brief.tools)


def asks_first(brief: Brief, meta: ToolMeta) -> bool:
    """Whether a person is asked for a call of the tool, also where the rules allow it."""
    return _names(meta, brief.dangerous_tools) or (brief.asks_for_changes and meta.side_effect is not SideEffect.NONE)


def _names(meta: ToolMeta, names: tuple[str, ...]) -> bool:
    return not {meta.tool_id, meta.name, *meta.further_names}.isdisjoint(names)
