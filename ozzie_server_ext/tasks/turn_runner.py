"""Plans turns by the current settings (models, budgets, tools, delegation) and runs them."""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.agent.plan import TurnParts, TurnPlan
from ozzie_server_ext.agent.turn import Turn
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.settings import ToolsSettings
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import Brief, TaskSucceeded, Transient
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ModelChoice, answers_in_worker
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.skills.as_tool import skill_tools
from ozzie_server_ext.skills.library import Library, Shelf
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.budgets import TaskBudgets
from ozzie_server_ext.tasks.concurrency import IdleTasks
from ozzie_server_ext.tasks.configuration import Configuration
from ozzie_server_ext.tasks.models import ModelKnowledge, ModelService
from ozzie_server_ext.tasks.pauses import PausePoints
from ozzie_server_ext.tasks.rows import limits_of, task_of, used_below
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tasks.sessions import SessionInfo, Sessions
from ozzie_server_ext.tasks.workflows.delegates import Room
from ozzie_server_ext.tasks.workflows.skill_log import asks_first, brief_of, may_call
from ozzie_server_ext.tools.base import Delegates, SessionTasks, Tool, ToolContext
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.offering import Offers
from ozzie_server_ext.tools.registry import ToolRegistry

log = logger(__name__)


class Progress:
    """Publishes `task.progress`."""

    def __init__(self, publish: Callable[[Transient], None]) -> None:
        self._publish = publish

    def step(self, recorder: Recorder, step: str) -> None:
        """Publish what a task waits for."""
        self._send(recorder.session_id, recorder.task_id, {"step": step})

    def position(self, session_id: SessionId, task_id: TaskId, ahead: int) -> None:
        """Publish how many tasks are ahead of a queued one."""
        self._send(session_id, task_id, {"ahead": ahead})

    def _send(self, session_id: SessionId, task_id: TaskId, payload: JsonObject) -> None:
        self._publish(Transient(type="task.progress", session_id=session_id, task_id=task_id, payload=payload))


class SkillTools:
    """Keeps the tools that run skills up to date in a registry."""

    def __init__(self, library: Library, registry: ToolRegistry) -> None:
        self._library = library
        self._registry = registry
        self._shelf: Shelf | None = None
        self._tools: tuple[Tool, ...] = ()
        self._logged = ""

    async def refresh(self) -> None:
        """Read changed files. If they can't be read, keep the tools and log the error once."""
        try:
            shelf = await self._library.look()
        except OzzieError as error:
            if self._logged != str(error):
                log.warning("the skills can't be read: %s", error)
            self._logged = str(error)
            return
        self._logged = ""
        if shelf is not self._shelf:
            self._tools = self._registry.replace(self._tools, skill_tools(shelf))
            self._shelf = shelf


class TurnModels:
    """The models for turns by the current settings, with their capabilities and prices."""

    def __init__(self, models: ModelService, knowledge: ModelKnowledge, progress: Progress) -> None:
        self._models = models
        self._knowledge = knowledge
        self._progress = progress

    @property
    def registry(self) -> ModelRegistry:
        return self._models.registry

    async def chain(self, session: SessionInfo, row: Row, recorder: Recorder) -> Chain:
        """Return the models for a turn. Raises ModelError if none is available."""
        chain = await self._models.for_turn(session, str(row["model"]))
        if answers_in_worker(chain.first) and not self._knowledge.is_ready():
            self._progress.step(recorder, "starting the model worker")
        return await self._knowledge.informed(chain, wait_s=limits_of(row).deadline_s)

    async def cheaper(self) -> Chain | None:
        """Return the models to use if a budget has no room for a turn's own, or None."""
        return await self._informed(self._models.cheaper())

    async def checker(self, own: Chain) -> Chain | None:
        """Return the models that check calls of a turn answered by `own`, or None."""
        return await self._informed(self._models.checker(own))

    async def summarizer(self, own: Chain | None) -> Chain | None:
        """Return the models that summarize for a turn answered by `own`, or None. See `ModelService.summarizer`."""
        return await self._informed(self._models.summarizer(own))

    async def priced(self, choice: ModelChoice) -> ModelChoice:
        """See `ModelKnowledge`."""
        return await self._knowledge.priced(choice)

    async def _informed(self, chain: Chain | None) -> Chain | None:
        return await self._knowledge.informed(chain, wait_s=None) if chain else None


class TurnTools:
    """The context of tools, and which tools a turn is offered."""

    def __init__(
        self,
        base: ToolContext,
        artifacts: ArtifactStore,
        index: ToolIndex,
        rules: RulesInForce,
        skills: SkillTools,
        tasks: Callable[[Recorder], SessionTasks],
    ) -> None:
        """`base` is the part of the context that all tasks share; `tasks` returns those of a recorder's session."""
        self._base = base
        self._artifacts = artifacts
        self._index = index
        self._rules = rules
        self._skills = skills
        self._tasks = tasks

    def context_of(self, row: Row, recorder: Recorder) -> ToolContext:
        """Return the context of a task's calls."""
        caller = Caller(
            project=str(self._base.project),
            channel=str(row["channel"]),
            user=str(row["sender_id"]),
            attended=bool(row["attended"]),
        )
        return msgspec.structs.replace(
            self._base,
            caller=caller,
            artifacts=self._artifacts.of(recorder.session_id),
            tasks=self._tasks(recorder),
        )

    async def offers(self, settings: ToolsSettings, caller: Caller, brief: Brief, *, may_delegate: bool) -> Offers:
        """Return which tools a turn is offered by settings and rules, with the current skills."""
        await self._skills.refresh()
        if brief.tools is None and len(self._index.registry.all()) > settings.max_offered:
            await asyncio.to_thread(self._index.refresh)  # slow with many tools
        return Offers(
            at_most=settings.max_offered,
            always=settings.always,
            denied=await self._rules.denied(caller),
            pinned=brief.tools,
            skills=may_delegate,
        )


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
        delegated = recorder.task_id if row["parent_id"] is not None else None
        conversation = await self.conversations.for_turn(recorder.session_id, delegated)
        recorder = msgspec.structs.replace(recorder, read=lambda: conversation.content)
        context = self.delegation.bound(context, row, recorder, brief, room)
        turn = Turn(self.parts, plan, conversation, recorder, context)
        with self.delegation.idle.track(recorder.task_id, lambda: turn.is_idle):
            return await turn.run()
