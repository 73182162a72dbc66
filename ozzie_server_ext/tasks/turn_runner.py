"""Plans turns by the current settings (models, budgets, tools, delegation) and runs them."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.agent.plan import TurnParts, TurnPlan
from ozzie_server_ext.agent.turn import Turn
from ozzie_server_ext.domain.events import Brief, TaskSucceeded
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ModelChoice, answers_in_worker
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.budgets import TaskBudgets
from ozzie_server_ext.tasks.concurrency import IdleTasks
from ozzie_server_ext.tasks.configuration import Configuration
from ozzie_server_ext.tasks.models import ModelKnowledge, ModelService
from ozzie_server_ext.tasks.pauses import PausePoints
from ozzie_server_ext.tasks.progress import Progress
from ozzie_server_ext.tasks.rows import has_own_thread, limits_of, task_of, used_below
from ozzie_server_ext.tasks.sessions import SessionInfo, Sessions
from ozzie_server_ext.tasks.turn_tools import TurnTools
from ozzie_server_ext.tasks.workflows.delegates import Room
from ozzie_server_ext.tasks.workflows.skill_log import asks_first, brief_of, may_call
from ozzie_server_ext.tools.base import Delegates, ToolContext


class TurnModels(Protocol):
    """The models for turns."""

    @property
    def registry(self) -> ModelRegistry: ...

    async def chain(self, session: SessionInfo, row: Row, recorder: Recorder) -> Chain:
        """Return the models for a turn. Raises ModelError if none is available."""
        ...

    async def cheaper(self) -> Chain | None:
        """Return the models to use if a budget has no room for a turn's own, or None."""
        ...

    async def checker(self, own: Chain) -> Chain | None:
        """Return the models that check calls of a turn answered by `own`, or None."""
        ...

    async def summarizer(self, own: Chain | None) -> Chain | None:
        """Return the models that summarize for a turn answered by `own`, or None. See `ModelService.summarizer`."""
        ...

    async def priced(self, choice: ModelChoice) -> ModelChoice:
        """Return the choice with its prices. See `ModelKnowledge`."""
        ...


class PresentModels:
    """The models for turns by the current settings (`TurnModels`), with their capabilities and prices."""

    def __init__(self, models: ModelService, knowledge: ModelKnowledge, progress: Progress) -> None:
        self._models = models
        self._knowledge = knowledge
        self._progress = progress

    @property
    def registry(self) -> ModelRegistry:
        return self._models.registry

    async def chain(self, session: SessionInfo, row: Row, recorder: Recorder) -> Chain:
        chain = await self._models.for_turn(session, str(row["model"]))
        if answers_in_worker(chain.first) and not self._knowledge.is_ready():
            self._progress.step(recorder, "starting the model worker")
        return await self._knowledge.informed(chain, wait_s=limits_of(row).deadline_s)

    async def cheaper(self) -> Chain | None:
        return await self._informed(self._models.cheaper())

    async def checker(self, own: Chain) -> Chain | None:
        return await self._informed(self._models.checker(own))

    async def summarizer(self, own: Chain | None) -> Chain | None:
        return await self._informed(self._models.summarizer(own))

    async def priced(self, choice: ModelChoice) -> ModelChoice:
        return await self._knowledge.priced(choice)

    async def _informed(self, chain: Chain | None) -> Chain | None:
        return await self._knowledge.informed(chain, wait_s=None) if chain else None


class TurnDelegation:
    """The brief of a delegated turn, and the delegation by a turn, which is `idle` while it only waits for that."""

    def __init__(self, log: EventLog, idle: IdleTasks, delegates: Callable[[Row, Recorder, Room], Delegates]) -> None:
        self.idle = idle
        self._log = log
        self._delegates = delegates

    async def brief(self, row: Row) -> Brief:
        """Return the brief of a delegated task; an empty one for any other."""
        return Brief() if row["parent_id"] is None else await brief_of(self._log, task_of(row))

    async def success(self, task_id: TaskId, rounds: int) -> TaskSucceeded:
        """Return the event that ends a turn, with what its delegated tasks have used."""
        return TaskSucceeded(rounds=rounds, delegated=await used_below(self._log, task_id))

    def bound(self, context: ToolContext, row: Row, recorder: Recorder, brief: Brief, room: Room) -> ToolContext:
        """Return the context with the brief's restrictions, from which the turn can delegate if there is `room`."""
        return msgspec.structs.replace(
            context,
            delegates=self._delegates(row, recorder, room),
            may_call=partial(may_call, brief),
            asks_first=partial(asks_first, brief),
        )


class TurnRunner(msgspec.Struct):
    """Plans turns and runs them. All of them share `parts`."""

    parts: TurnParts
    configuration: Configuration
    sessions: Sessions
    conversations: Conversations
    models: TurnModels
    budgets: TaskBudgets
    tools: TurnTools
    delegation: TurnDelegation
    pauses: PausePoints

    async def run(self, row: Row, recorder: Recorder) -> int:
        """Continue a turn until its model has answered; return its number of rounds.

        Raises like `Turn.run`, and ModelError if no model is available.
        """
        settings = self.configuration.current.settings
        session = await self.sessions.get(recorder.session_id)
        chain = await self.models.chain(session, row, recorder)
        registry = self.models.registry
        brief = await self.delegation.brief(row)
        lineage = await self.budgets.lineage(row)
        room = Room(most=settings.skills.max_delegations, too_deep=len(lineage) > settings.skills.max_depth)
        context = self.tools.context_of(row, recorder)
        may_delegate = room.most > 0 and not room.too_deep
        plan = TurnPlan(
            chain=chain,
            limits=limits_of(row),
            max_history=settings.sessions.max_history,
            soul=self.configuration.soul,
            custom_prompt=settings.agent.system_prompt,
            session_title=session.title,
            config_version=self.configuration.version,
            retry=registry.retry,
            rates_of=registry.limits,
            recovered=row["reason"] == "recovered",
            allowance=partial(self.budgets.now, lineage, recorder.session_id),
            priced=self.models.priced,
            deadline=await self.budgets.deadline(lineage[0]),
            cheaper=self.models.cheaper,
            checker=partial(self.models.checker, chain),
            compact_tokens=settings.sessions.compact_tokens,
            summarizer=partial(self.models.summarizer, chain),
            result_summarizer=partial(self.models.summarizer, None),
            attended=bool(row["attended"]),
            brief=brief,
            offers=await self.tools.offers(settings.tools, context.caller, brief, may_delegate=may_delegate),
            pause_if_requested=partial(self.pauses.point, recorder),
            is_pausing=partial(self.pauses.is_requested, recorder.task_id),
            success=partial(self.delegation.success, recorder.task_id),
        )
        delegated = recorder.task_id if has_own_thread(row) else None
        conversation = await self.conversations.for_turn(recorder.session_id, delegated)
        recorder = msgspec.structs.replace(recorder, content_now=lambda: conversation.content)
        context = self.delegation.bound(context, row, recorder, brief, room)
        turn = Turn(self.parts, plan, conversation, recorder, context)
        with self.delegation.idle.track(recorder.task_id, lambda: turn.is_idle):
            return await turn.run()
