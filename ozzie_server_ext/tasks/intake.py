"""Takes messages, and decides what each becomes: a task, an answer, or an update."""

import asyncio
import contextlib
from collections.abc import Sequence
from weakref import WeakValueDictionary

import msgspec

from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import Conflict, InputError
from ozzie_server_ext.domain.events import Event, PromptAnswered, TaskUpdated
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId, is_ulid, task_stream
from ozzie_server_ext.domain.tasks import TaskStatus
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.answers import Answers
from ozzie_server_ext.tasks.budgets import limits_under
from ozzie_server_ext.tasks.configuration import Configuration, SecretChanges
from ozzie_server_ext.tasks.message_calls import MessageCalls
from ozzie_server_ext.tasks.rows import above, find_task, has_own_thread, open_tasks, run_of, task_of, user_recorder
from ozzie_server_ext.tasks.service import NOT_PLAIN, NewTurn, Submitted, TaskService
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tasks.updates import UpdateIntake
from ozzie_server_ext.tasks.workflows.skill_starts import SkillStarts


class Joining:
    """Lets a plain message join a task of its session (docs/adr/0054)."""

    def __init__(self, log: EventLog, ids: IdSource, answers: Answers, updates: UpdateIntake) -> None:
        self._log = log
        self._ids = ids
        self._answers = answers
        self._updates = updates
        self._locks: WeakValueDictionary[SessionId, asyncio.Lock] = WeakValueDictionary()

    def lock(self, session_id: SessionId) -> asyncio.Lock:
        """Return the lock to hold until a message is recorded: two repeats of it at the same time count once."""
        return self._locks.setdefault(session_id, asyncio.Lock())

    async def join(self, turn: NewTurn) -> Submitted | None:
        """Answer the question that the session waits with, or update the running task; return None if the plain message
        is a task of its own. A repeated message id returns what the first became.

        Raises Conflict if the id belongs to something else.
        """
        if turn.message_id is not None and (not is_ulid(turn.message_id) or await self._is_task(turn.message_id)):
            return None  # `TaskService.submit` refuses a bad id, and returns the task of a repeated one
        row = await self._recorded(turn)
        if row is not None:
            return await self._repeated(turn, row)
        open_ = await open_tasks(self._log, session_id=turn.session_id)
        return await self._as_answer(turn, open_) or await self._as_update(turn, open_)

    async def _is_task(self, message_id: MessageId) -> bool:
        return await self._log.version(task_stream(TaskId(message_id))) > 0

    async def _recorded(self, turn: NewTurn) -> Row | None:
        """Return the row of a message with this id, in any session."""
        rows = (
            await self._log.rows("messages", where={"message_id": turn.message_id}, limit=1) if turn.message_id else []
        )
        return rows[0] if rows else None

    async def _repeated(self, turn: NewTurn, row: Row) -> Submitted:
        """Return what a message became that was sent before."""
        position = int(str(row["position"]))
        found = await self._log.read(after=position - 1, before=position + 1)
        is_joined = bool(found) and isinstance(found[0].body, PromptAnswered | TaskUpdated)
        if not is_joined or row["session_id"] != turn.session_id:
            raise Conflict("The message's id stands for something else.", code="message.id")
        return await self._joined(turn, found[0])

    async def _as_answer(self, turn: NewTurn, open_: Sequence[Row]) -> Submitted | None:
        """Answer the only open question of the session. If several are open, the message answers none of them, because
        it doesn't say which."""
        asking = [row for row in open_ if row["status"] == TaskStatus.WAITING_INPUT and row["mode"] != "GRAPH"]
        if len(asking) != 1:
            return None
        by, message_id = turn.origin.sender_id, self._message_id(turn)
        with contextlib.suppress(Conflict):  # somebody else was first, so it answers nothing
            answer = await self._answers.take_message(task_of(asking[0]), turn.text, by=by, message_id=message_id)
            return None if answer is None else await self._joined_now(turn, answer, message_id)
        return None

    async def _as_update(self, turn: NewTurn, open_: Sequence[Row]) -> Submitted | None:
        """Update the sender's own running task, unless another one is queued behind it, which the message would
        overtake. A run of a skill may have no step left that reads the message, and a task that is being stopped reads
        none."""
        turns = [row for row in open_ if not has_own_thread(row)]
        if not turn.may_update or len(turns) != 1 or turns[0]["mode"] == "GRAPH":
            return None
        if turns[0]["status"] != TaskStatus.RUNNING or turns[0]["stop_by"]:
            return None
        if turns[0]["sender_id"] != turn.origin.sender_id:
            return None
        by, message_id = turn.origin.sender_id, self._message_id(turn)
        with contextlib.suppress(Conflict, InputError):  # it has ended by now, reads nothing, or takes no such text
            task_id = task_of(turns[0])
            update = await self._updates.update(task_id, turn.text, by=by, key=message_id, message_id=message_id)
            return await self._joined_now(turn, update, message_id)
        return None

    async def _joined_now(self, turn: NewTurn, event: Event, message_id: MessageId) -> Submitted:
        """Return what the message became and, if a person is known to have sent it, record that."""
        if turn.confirmation is not None and event.task_id is not None:
            recorder = user_recorder(self._log, turn.session_id, event.task_id)
            await recorder.append(turn.confirmation.fact(message_id))
        return await self._joined(turn, event)

    def _message_id(self, turn: NewTurn) -> MessageId:
        return turn.message_id or MessageId(self._ids.new())

    async def _joined(self, turn: NewTurn, event: Event) -> Submitted:
        """Return what a message became, with the topmost task to follow."""
        assert event.task_id is not None, "it is of a task"
        assert isinstance(event.body, PromptAnswered | TaskUpdated), "only these take a message"
        row = await find_task(self._log, event.task_id)
        assert row is not None, "it has an event"
        return Submitted(
            task_id=TaskId(run_of(row, await above(self._log, [row]))),
            message_id=event.body.message_id or self._message_id(turn),
            session_id=turn.session_id,
            position=event.position,
            ahead=0,
            became="answer" if isinstance(event.body, PromptAnswered) else "update",
        )


class Intake(msgspec.Struct, frozen=True):
    """Decides what a message becomes, by the current configuration and secrets."""

    configuration: Configuration
    secrets: SecretChanges
    sessions: Sessions
    tasks: TaskService
    starts: SkillStarts
    joining: Joining
    calls: MessageCalls

    async def submit(self, turn: NewTurn) -> Submitted:
        """Create a turn, or a run (of `turn.skill`, or of the skill whose keyword the message is), under the current
        settings, unless the message joins a task.

        Raises like `TaskService.submit`, `MessageCalls.of` and, for a skill, `SkillStarts.typed`; NotFound or Conflict
        if the session does not exist or is closed.
        """
        config = await self.configuration.refresh()
        await self.secrets.refresh()
        await self.sessions.expect_open(turn.session_id)
        turn = await self.calls.of(turn)
        limits = limits_under(config.settings)
        if turn.skill is not None:
            run = await self.starts.typed(turn.skill.name, turn.skill.words)
            return await self.tasks.submit(turn, await self.starts.limits_of(run.skill), run, run.reason)
        if not turn.is_plain:
            return await self.tasks.submit(turn, limits, why=NOT_PLAIN)
        async with self.joining.lock(turn.session_id):
            if (joined := await self.joining.join(turn)) is not None:
                return joined
            run, why = await self.starts.triggered(turn.text)
            if run is not None:
                limits = await self.starts.limits_of(run.skill)
            return await self.tasks.submit(turn, limits, run, why)
