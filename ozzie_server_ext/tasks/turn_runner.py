"""Runs one turn: with the models, limits and budgets of its beginning, for whoever sent it."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from ozzie_server_ext.agent.conversation import Conversations
from ozzie_server_ext.agent.plan import TurnParts, TurnPlan
from ozzie_server_ext.agent.turn import Turn
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.settings import BudgetsSettings
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import Brief, Transient
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.execution.host_commands import Children
from ozzie_server_ext.execution.runner import JobRunner
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import answers_in_worker
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.policy.decision import Caller
from ozzie_server_ext.skills.as_tool import skill_tools
from ozzie_server_ext.skills.library import Library, Shelf
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.budgets import Allowances, limits_above
from ozzie_server_ext.tasks.concurrency import Resting
from ozzie_server_ext.tasks.configuration import Configuration
from ozzie_server_ext.tasks.models import ModelKnowledge, ModelService
from ozzie_server_ext.tasks.pauses import PausePoints
from ozzie_server_ext.tasks.rules import RulesInForce
from ozzie_server_ext.tasks.service import limits_of
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tasks.times import TaskTimes
from ozzie_server_ext.tasks.workflows.delegates import Room
from ozzie_server_ext.tasks.workflows.skill_log import asks_first, brief_of, may_call
from ozzie_server_ext.tools.base import Delegates, Marks, Tool, ToolContext
from ozzie_server_ext.tools.offering import Offers
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.web.port import Web


class Progress:
    """Publishes `task.progress`."""

    def __init__(self, publish: Callable[[Transient], None]) -> None:
        self._publish = publish

    def step(self, recorder: Recorder, step: str) -> None:
        """What a turn waits for."""
        self._tell(recorder.session_id, recorder.task_id, {"step": step})

    def place(self, session_id: SessionId, task_id: TaskId, ahead: int) -> None:
        """How many turns are before a queued one."""
        self._tell(session_id, task_id, {"ahead": ahead})

    def _tell(self, session_id: SessionId, task_id: TaskId, payload: JsonObject) -> None:
        self._publish(Transient(type="task.progress", session_id=session_id, task_id=task_id, payload=payload))


log = logger(__name__)


class SkillTools:
    """Those of one registry."""

    def __init__(self, library: Library, registry: ToolRegistry) -> None:
        self._library = library
        self._registry = registry
        self._shelf: Shelf | None = None
        self._tools: tuple[Tool, ...] = ()
        self._told = ""

    async def refresh(self) -> None:
        """Look at the files again. Where they can't be read, what was there stays, and the log says why."""
        try:
            shelf = await self._library.look()
        except OzzieError as error:
            if self._told != str(error):
                log.warning("the skills can't be read: %s", error)
            self._told = str(error)
            return
        self._told = ""
        if shelf is not self._shelf:
            self._tools = self._registry.replace(self._tools, skill_tools(shelf))
            self._shelf = shelf


class TurnRunner:
    """`parts` are the same for all turns. `worker_ready` says whether a model that answers in the worker answers at
    once; `leaving`, see `Turn`."""

    def __init__(
        self,
        parts: TurnParts,
        log: EventLog,
        project: Path,
        *,
        configuration: Configuration,
        sessions: Sessions,
        conversations: Conversations,
        marks: Marks,
        rules: RulesInForce,
        models: ModelService,
        knowledge: ModelKnowledge,
        artifacts: ArtifactStore,
        progress: Progress,
        jobs: JobRunner,
        children: Children,
        web: Web,
        jupyter: Jupyter,
        skill_tools: SkillTools,
        delegates: Callable[[Row, Recorder, Room], Delegates],
        pauses: PausePoints,
        times: TaskTimes,
        resting: Resting,
        worker_ready: Callable[[], bool],
        leaving: Callable[[], bool],
    ) -> None:
        self.parts = parts
        self._log = log
        self._project = project
        self._configuration = configuration
        self._sessions = sessions
        self._rules = rules
        self._models = models
        self._knowledge = knowledge
        self._artifacts = artifacts
        self._progress = progress
        self._jobs = jobs
        self._children = children
        self._web = web
        self._jupyter = jupyter
        self._skill_tools = skill_tools
        self._delegates = delegates
        self._pauses = pauses
        self._times = times
        self._resting = resting
        self._worker_ready = worker_ready
        self._leaving = leaving
        self._conversations = conversations
        self._marks = marks

    async def run(self, row: Row, recorder: Recorder) -> int:
        """Go on with the turn of that row of `tasks`, until its model has answered; returns how many rounds that took.
        Raises as `Turn.run`, and ModelError where no model can be asked."""
        config = self._configuration.current
        session = await self._sessions.get(recorder.session_id)
        chain = await self._models.for_turn(session, str(row["model"]))
        if answers_in_worker(chain.first) and not self._worker_ready():
            self._progress.step(recorder, "starting the model worker")
        limits = limits_of(row)
        clock = self.parts.clock
        delegated = recorder.task_id if row["parent_id"] is not None else None
        brief = await brief_of(self._log, delegated) if delegated else Brief()
        above = await limits_above(self._log, row)
        budgets = Allowances(self._budgets, limits, recorder.task_id, recorder.session_id, self._project, clock, above)
        chain = await self._knowledge.informed(chain, wait_s=limits.deadline_s)
        registry = self._models.registry
        context = self.context_of(row, recorder)
        await self._skill_tools.refresh()
        skills, tools = config.settings.skills, config.settings.tools
        room = Room(most=skills.max_delegations, too_deep=len(above) >= skills.max_depth)
        if brief.tools is None and len(self.parts.registry.all()) > tools.max_offered:
            await asyncio.to_thread(self.parts.index.refresh)  # meanwhile the server goes on
        offers = Offers(
            at_most=tools.max_offered,
            always=tools.always,
            denied=await self._rules.denied(context.caller),
            pinned=brief.tools,
            skills=room.most > 0 and not room.too_deep,
        )
        plan = TurnPlan(
            chain=chain,
            limits=limits,
            max_history=config.settings.sessions.max_history,
            soul=self._configuration.soul,
            custom_prompt=config.settings.agent.system_prompt,
            session_title=session.title,
            config_version=self._configuration.version,
            retry=registry.retry,
            rates_of=registry.limits,
            recovered=row["reason"] == "recovered",
            allowance=budgets.now,
            priced=self._knowledge.priced,
            deadline=await budgets.deadline(self._log, self._times),
            cheaper=self._cheaper,
            checker=lambda: self._checker(chain),
            attended=bool(row["attended"]),
            brief=brief,
            offers=offers,
            pause=partial(self._pauses.point, recorder),
        )
        conversation = await self._conversations.get(recorder.session_id, delegated)
        recorder = msgspec.structs.replace(recorder, read=lambda: conversation.content)
        context = msgspec.structs.replace(
            context,
            delegates=self._delegates(row, recorder, room),
            may_call=partial(may_call, brief),
            asks_first=partial(asks_first, brief),
        )
        turn = Turn(self.parts, plan, conversation, recorder, context, leaving=self._leaving)
        with self._resting.where(recorder.task_id, lambda: turn.rests):
            return await turn.run()

    def context_of(self, row: Row, recorder: Recorder) -> ToolContext:
        """What the tools are given that are called for that task."""
        caller = Caller(
            project=str(self._project.resolve()),
            channel=str(row["channel"]),
            user=str(row["sender_id"]),
            attended=bool(row["attended"]),
        )
        return ToolContext(
            self._project,
            self.parts.clock,
            caller,
            artifacts=self._artifacts.of(recorder.session_id),
            jobs=self._jobs,
            children=self._children,
            marks=self._marks,
            web=self._web,
            jupyter=self._jupyter,
        )

    async def happened(self, tool_id: str, effect: JsonObject) -> bool | None:
        """See `ToolBroker.happened`."""
        context = ToolContext(self._project, self.parts.clock, jupyter=self._jupyter)
        return await self.parts.broker.happened(tool_id, effect, context)

    def _budgets(self) -> BudgetsSettings:
        return self._configuration.current.settings.budgets

    async def _cheaper(self) -> Chain | None:
        """Who answers where a budget has no room for a turn's own model; None where nobody is named for that."""
        chain = self._models.cheaper()
        return await self._knowledge.informed(chain, wait_s=None) if chain else None

    async def _checker(self, own: Chain) -> Chain | None:
        """Who looks at the calls of a turn that `own` answers, where a rule wants that."""
        chain = self._models.checker(own)
        return await self._knowledge.informed(chain, wait_s=None) if chain else None
