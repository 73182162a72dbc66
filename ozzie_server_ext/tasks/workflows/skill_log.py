"""A run of a skill, folded from its task's events: the skill at the start of the run, and the run's progress."""

import asyncio
from collections import OrderedDict
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.agent.provenance import addresses_in
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import Bug
from ozzie_server_ext.domain.events import (
    Brief,
    SkillCompleted,
    SkillFailed,
    SkillStarted,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
    TaskCreated,
    TaskRetried,
)
from ozzie_server_ext.domain.ids import BlobRef, TaskId, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.toolmeta import SideEffect, ToolMeta
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads
from ozzie_server_ext.skills.briefing import as_workflow
from ozzie_server_ext.skills.library import read
from ozzie_server_ext.skills.parameters import fitted
from ozzie_server_ext.skills.run import FsmRun, WorkflowRun
from ozzie_server_ext.skills.spec import FsmSkill, SimpleSkill, Skill
from ozzie_server_ext.skills.templates import Output, Values, as_text
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row

_known: OrderedDict[BlobRef, Skill] = OrderedDict()
MOST_KNOWN = 64
MOST_INLINE = 32 << 10
"""Bytes of an output that is stored in the log itself."""
_BEGINNING = 2000
STOPPED = "step.stopped"
"""The code of a step whose task was cancelled. The next attempt is not told about it."""


class Rejection(msgspec.Struct, frozen=True):
    """Why an attempt at a step was rejected, and the provenance of that message."""

    message: str
    content: Content


class LoadedRun(msgspec.Struct, frozen=True):
    """`skill` is as it was at the start; `rejected` has the rejection of each step's last attempt, by step id; `end` is
    set if a crash came between the end of the run and that of its task."""

    started: SkillStarted
    skill: Skill
    run: WorkflowRun | FsmRun
    rejected: dict[str, Rejection]
    end: SkillCompleted | SkillFailed | None = None


async def load_run(log: EventLog, blobs: BlobStore, task_id: TaskId) -> LoadedRun:
    """Fold the run of a task. Raises Bug if the task is no run."""
    loaded: LoadedRun | None = None
    for event in await log.read_stream(task_stream(task_id)):
        match event.body:
            case SkillStarted() as started:
                loaded = await _begun(started, blobs, event.content)
            case StepStarted() | StepFailed() | StepSkipped() as fact if loaded is not None:
                loaded.run.apply(fact)
                if isinstance(fact, StepFailed) and fact.code != STOPPED:
                    loaded.rejected[fact.step_id] = Rejection(fact.message, event.content)
            case StepCompleted() as fact if loaded is not None:
                value = fact.output if fact.blob is None else loads(await blobs.get(fact.blob))
                loaded.run.apply(fact, Output(value, event.content))
            case SkillCompleted() | SkillFailed() as end if loaded is not None:
                loaded = replace(loaded, end=end)
            case TaskRetried(taken_up=taken_up) if loaded is not None:
                loaded.run.retried(taken_up)
                loaded = replace(loaded, end=None)
            case _:
                pass
    if loaded is None:
        raise Bug(f"The task {task_id} runs no skill.")
    return loaded


async def kept(value: Json, blobs: BlobStore) -> tuple[Json, BlobRef | None]:
    """Return an output as events store it: whole, or its beginning and the blob of the whole."""
    raw = canonical_bytes(value)
    if len(raw) <= MOST_INLINE:
        return value, None
    return raw[:_BEGINNING].decode(errors="ignore"), await blobs.put(raw)


def know(file: BlobRef, skill: Skill) -> None:
    """Cache a parsed skill: parsing a large file takes a while, and runs start often."""
    _known[file] = skill
    _known.move_to_end(file)
    while len(_known) > MOST_KNOWN:
        _known.popitem(last=False)


async def _begun(started: SkillStarted, blobs: BlobStore, content: Content) -> LoadedRun:
    skill = _known.get(started.file)
    if skill is None:
        text = await blobs.get(started.file)
        skill = (await asyncio.to_thread(read, Path(f"{started.skill}.jsonc"), text)).skill
        know(started.file, skill)
    values = Values(fitted(skill, started.input), content)
    if isinstance(skill, FsmSkill):
        run: WorkflowRun | FsmRun = FsmRun(skill, values)
    else:
        run = WorkflowRun(as_workflow(skill) if isinstance(skill, SimpleSkill) else skill, values)
    return LoadedRun(started, skill, run, {})


async def brief_of(log: EventLog, task_id: TaskId) -> Brief:
    """Return the task's brief, or an empty one."""
    for event in await log.read_stream(task_stream(task_id)):
        if isinstance(event.body, TaskCreated):
            return event.body.brief or Brief()
    return Brief()


async def addresses_given(log: EventLog, row: Row, run: LoadedRun) -> tuple[str, ...]:
    """Return the addresses that a person gave for a run (ADR 31): in its input if they started it, otherwise those in
    its brief. Steps give none."""
    if row["parent_id"] is not None:
        return (await brief_of(log, TaskId(str(row["task_id"])))).given
    return () if run.run.values.content else tuple(sorted(addresses_in(as_text(run.started.input))))


def may_call(brief: Brief, meta: ToolMeta) -> bool:
    """Whether the brief allows the tool."""
    return brief.tools is None or _names(meta, brief.tools)


def asks_first(brief: Brief, meta: ToolMeta) -> bool:
    """Whether calls of the tool need a person's approval even if the rules allow them."""
    return _names(meta, brief.dangerous_tools) or (brief.asks_for_changes and meta.side_effect is not SideEffect.NONE)


def _names(meta: ToolMeta, names: tuple[str, ...]) -> bool:
    return not {meta.tool_id, meta.name, *meta.further_names}.isdisjoint(names)
