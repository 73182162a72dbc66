"""One turn with everything real but the disk and the model: the log in memory, a scripted model, the real tools."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.plan import TurnParts, TurnPlan
from ozzie_server_ext.agent.turn import Turn
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.budget import Account
from ozzie_server_ext.domain.events import Event, EventBody, Limits, MessageReceived, Origin
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId
from ozzie_server_ext.models.chain import Chain, Health, RetryPolicy
from ozzie_server_ext.models.driver import ModelChoice
from ozzie_server_ext.models.ledger import AccountBalance, Ledger
from ozzie_server_ext.models.rates import Rates
from ozzie_server_ext.models.scripted import Round, ScriptedDriver
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.policy.engine import FixedRulings
from ozzie_server_ext.policy.rules import Rule
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.budgets import balance_of
from ozzie_server_ext.tools.base import Tool, ToolContext
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.brokers import broker_of

SESSION = SessionId("sess_1")
CHOICE = ModelChoice(alias="main", provider="scripted", driver="scripted", model="m-1", max_tokens=99)
SMALL = replace(CHOICE, alias="summarizer", provider="small", model="s-1", max_tokens=8000)
"""A model that summarizes."""
PLAN = TurnPlan(
    chain=Chain((CHOICE,)),
    limits=Limits(),
    max_history=100,
    soul="",
    custom_prompt="",
    session_title="notes",
    config_version="cfg",
    retry=RetryPolicy(max_attempts=1),
)


class TurnRig:
    """Give it the model's script, `ask` something, and `run` the turn; then look into `bodies` and `model.requests`."""

    def __init__(
        self,
        project: Path,
        script: Sequence[Round],
        *,
        tools: Sequence[Tool] | None = None,
        plan: TurnPlan = PLAN,
        rules: tuple[Rule, ...] = (),
    ) -> None:
        self.clock = FakeClock()
        self.ids = CountingIds()
        self.log = InMemoryEventLog(self.clock, self.ids)
        self.blobs = InMemoryBlobs()
        self.feed = Feed(self.log)
        self.model = ScriptedDriver(script, clock=self.clock)
        self.plan = plan
        artifacts = ArtifactStore(self.log, self.blobs, self.ids)
        self.context = ToolContext(project, self.clock, artifacts=artifacts.of(SESSION))
        registry = ToolRegistry(builtin_tools() if tools is None else tools)
        self.parts = TurnParts(
            models=self.model,
            health=Health(self.clock),
            rates=Rates(self.clock),
            ledger=Ledger(self.standing),
            registry=registry,
            index=ToolIndex(registry),
            broker=broker_of(registry, FixedRulings(rules), artifacts, self.clock, self.ids, publish=self.feed.publish),
            blobs=self.blobs,
            feed=self.feed,
            clock=self.clock,
            ids=self.ids,
        )

    async def standing(self, account: Account) -> AccountBalance:
        return await balance_of(self.log, account)

    def recorder(self, task: str = "t1") -> Recorder:
        return Recorder(log=self.log, session_id=SESSION, task_id=TaskId(task))

    async def record(self, *bodies: EventBody, task: str = "t1") -> None:
        await self.recorder(task).append(*bodies)

    async def ask(self, text: str, task: str = "t1") -> None:
        """A message of the user's, as `tasks.service` records it."""
        message = MessageReceived(message_id=MessageId(self.ids.new()), text=text, origin=Origin(channel="test"))
        await self.record(message, task=task)

    async def run(self, task: str = "t1", **changed: Any) -> int:
        """The turn of that task, from what the log says; returns its number of rounds."""
        conversation = Conversation(await self.events())

        def follow(events: tuple[Event, ...]) -> None:
            for event in events:
                conversation.apply(event)

        self.log.on_commit(follow)
        plan = replace(self.plan, **changed)
        return await Turn(self.parts, plan, conversation, self.recorder(task), self.context).run()

    async def events(self) -> tuple[Event, ...]:
        return await self.log.read(session_id=SESSION)

    async def bodies(self, *kinds: type[EventBody]) -> list[EventBody]:
        """What was recorded, in order; of these classes only, where some are named."""
        return [event.body for event in await self.events() if not kinds or isinstance(event.body, kinds)]

    async def types(self) -> list[str]:
        return [event.type for event in await self.events()]
