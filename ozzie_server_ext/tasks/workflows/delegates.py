"""Delegation of an agent's work to skills."""

import asyncio
import hashlib
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.agent.provenance import addresses_in
from ozzie_server_ext.domain.content import CLEAN, Provenance
from ozzie_server_ext.domain.errors import PolicyError
from ozzie_server_ext.domain.events import (
    AgentDelegated,
    Brief,
    Event,
    MessageCompleted,
    Origin,
    SkillCompleted,
    content_of,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream, ulid_text
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.tasks import TaskStatus
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.policy.decision import Reading
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.skills.briefing import as_workflow, order_for
from ozzie_server_ext.skills.parameters import fitted
from ozzie_server_ext.skills.spec import SimpleSkill
from ozzie_server_ext.skills.templates import Values, as_text
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import shielded
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.workflows.delegation import Delegated
from ozzie_server_ext.tasks.workflows.step_runner import StepParts, Stop
from ozzie_server_ext.tools.base import ToolFailed

CHANCE_BITS = 80
"""The random bits of a ULID."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """How often a task may delegate, and whether it is nested too deep to delegate at all."""

    most: int
    too_deep: bool = False


class SkillDelegates:
    """The delegation by one task. If that is cancelled, `stop` cancels the delegated task, unless the gateway is
    `leaving`: then both go on at the next start."""

    def __init__(
        self, parts: StepParts, row: Row, recorder: Recorder, room: Room, stop: Stop, leaving: Callable[[], bool]
    ) -> None:
        self._parts = parts
        self._row = row
        self._recorder = recorder
        self._room = room
        self._stop = stop
        self._leaving = leaving
        self._beginning = asyncio.Lock()
        self.waiting = 0

    async def carry_out(
        self, skill: str, given: JsonObject, *, key: str, reading: Reading, provenance: Provenance
    ) -> ToolResult:
        """See `tools.base.Delegates`."""
        task_id = delegated_id(self._recorder.task_id, key)
        parts = self._parts
        parts.progress.watch(task_id, self._recorder, f'the skill "{skill}"')
        try:
            async with self._beginning:  # parallel calls must not exceed the room
                await self._begin(task_id, skill, given, key, reading)
            row = await self._end_of(task_id)
        except asyncio.CancelledError:
            if not self._leaving():
                await shielded(self._stop(task_id))
            raise
        finally:
            parts.progress.forget(task_id)
        events = await parts.log.read_stream(task_stream(task_id))
        if row["status"] == TaskStatus.SUCCEEDED:
            return await self._result(events)
        provenance.add(content_of(events))  # its message may quote anything that it read
        if row["status"] == TaskStatus.CANCELLED:
            raise ToolFailed(f"The skill {skill} was stopped.", code="skill.stopped")
        message, hint = str(row["error_message"] or ""), str(row["error_hint"] or "")
        raise ToolFailed(message or f"The skill {skill} failed.", hint=hint, code="skill.failed")

    async def _end_of(self, task_id: TaskId) -> Row:
        self.waiting += 1
        try:
            return await self._parts.ends.wait(task_id)
        finally:
            self.waiting -= 1

    async def _begin(self, task_id: TaskId, skill: str, given: JsonObject, key: str, reading: Reading) -> None:
        """Create the task, unless it was created before a crash."""
        parts, recorder = self._parts, self._recorder
        if await parts.log.version(task_stream(task_id)):
            return
        await self._expect_room()
        wanted, reason = await self._wanted(task_id, skill, given, reading)
        delegated = AgentDelegated(skill=skill, task=task_id, mode=wanted.mode, reason=reason)
        await recorder.made_from(reading.content).append(delegated, key=key)  # after a crash, this is repeated
        await parts.delegation.begin(wanted, by=recorder)

    async def _expect_room(self) -> None:
        if self._room.too_deep:
            raise PolicyError(
                "Skills are nested too deep to delegate to one more (skills.max_depth). Do it with your own tools.",
                code="skill.too_deep",
            )
        rows = await self._parts.log.rows("tasks", where={"parent_id": self._recorder.task_id}, limit=self._room.most)
        if len(rows) >= self._room.most:
            raise PolicyError(
                f"This task has handed work over {self._room.most} times, which is all that it may "
                "(skills.max_delegations). Go on with what came back.",
                code="skill.too_many",
            )

    async def _wanted(self, task_id: TaskId, name: str, given: JsonObject, reading: Reading) -> tuple[Delegated, str]:
        """Return the task to delegate, and why it has its mode. Raises like `SkillStarts.of`."""
        starts, row = self._parts.starts, self._row
        skill = (await starts.file(name)).skill
        mode = starts.mode_of(skill, "delegation")
        # The skill may request the addresses that the agent may request without approval (ADR 31).
        addresses = tuple(sorted(filter(reading.gave, addresses_in(as_text(given)))))
        wanted = Delegated(
            task_id=task_id,
            parent=self._recorder.task_id,
            session_id=self._recorder.session_id,
            title=name,
            limits=await starts.limits_of(name, mode.mode),
            caller=Origin(channel=str(row["channel"]), sender_id=str(row["sender_id"])),
            text=name,
            model=starts.model_of(skill) or str(row["model"]),
            mode=mode.mode,
            attended=bool(row["attended"]),
            content=reading.content,
            brief=Brief(given=addresses),
        )
        if mode.mode == "GRAPH":
            return replace(wanted, run=await starts.of(name, given, "delegation")), mode.reason
        assert isinstance(skill, SimpleSkill), "skills with steps are graphs"
        order = order_for(skill, as_workflow(skill).steps[0], Values(fitted(skill, given), reading.content))
        limits = replace(wanted.limits, max_rounds=skill.max_iterations or wanted.limits.max_rounds)
        brief = replace(order.brief, given=addresses)
        return replace(wanted, text=order.text, brief=brief, limits=limits), mode.reason

    async def _result(self, events: tuple[Event, ...]) -> ToolResult:
        value: Json = None
        content = CLEAN
        for event in events:
            match event.body:
                case SkillCompleted(output=output, blob=blob):
                    value = output if blob is None else loads(await self._parts.blobs.get(blob))
                case MessageCompleted(text=text):
                    value = text
                case _:
                    continue
            content = event.content
        return ToolResult(ok=True, data=value, summary="done", content=content)


def delegated_id(task_id: TaskId, key: str) -> TaskId:
    """Return the id of the task that `task_id` delegates with a key: its time, so that they sort together, and the
    key's hash."""
    chance = int.from_bytes(hashlib.sha256(key.encode()).digest()[: CHANCE_BITS // 8])
    return TaskId(task_id[:10] + ulid_text(chance)[10:])
