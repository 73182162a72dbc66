"""The models of a replay: each call gets the answer or the failure that was recorded, and nothing is sent."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.agent.requests import injected_tools, toolset_version
from ozzie_server_ext.agent.structured_output import NOT_CHECKED, misfit, not_checked
from ozzie_server_ext.config.settings import CapabilitySettings
from ozzie_server_ext.domain.budget import Account, Budget, Need
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    BudgetExceeded,
    Event,
    MessageRejected,
    ModelCallFailed,
    ModelCallStarted,
    PromptRequested,
    Purpose,
    TaskFailed,
    TaskModelChosen,
)
from ozzie_server_ext.domain.ids import CallId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import (
    Finished,
    ModelChoice,
    ModelError,
    ModelErrorCode,
    ModelEvent,
    ModelRequest,
    TextDelta,
)
from ozzie_server_ext.models.facts import Capabilities, capabilities
from ozzie_server_ext.models.ledger import AccountBalance, BudgetBreach, BudgetOverrun, Ledger, Reserved
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.replay.record import MissingFact, ModelCall, Record
from ozzie_server_ext.replay.stage import RUNNING, Stage
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.sessions import SessionInfo
from ozzie_server_ext.tasks.times import RECOVERY

_SAME = ("provider", "model", "purpose", "config")
_NO_TOOLS = toolset_version(injected_tools(()))
_NAME = re.compile(r"\((\w+)\)")
"""The name of an error in the message of `tasks.driver`."""
_UNFINISHED = "provider.incomplete"
_CUT_OFF = frozenset({INTERRUPTED, "cancelled"})
_OF_MODELS = ("provider.", "worker.", "picture.", "model.")


class RecordedAnswers:
    """A model driver that answers from the record."""

    def __init__(self, record: Record, stage: Stage) -> None:
        self._record = record
        self._stage = stage

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See `ModelDriver`. Answers when the record does."""
        try:
            async for event in self._recorded(request):
                yield event
        except MissingFact as missing:
            await self._stage.lacks(missing)

    async def find_misfit(self, schema: JsonObject, text: str) -> str:
        """See `agent.structured_output.find_misfit`. What took too long then is not tried again."""
        for event in self._stage.ahead(running_task()):
            if isinstance(event.body, MessageRejected) and event.body.problem == NOT_CHECKED:
                raise not_checked()
            if isinstance(event.body, ModelCallStarted):
                break
        return misfit(schema, text)

    async def _recorded(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        call = self._record.calls[CallId(self._stage.ids.then(request.call_id))]
        end = call.end
        if (mistake := self._mistake(call)) is not None:
            raise mistake
        if end is None or end.source == RECOVERY or (call.failed and call.failed.code in _CUT_OFF):
            if call.failed is not None and (text := self._partial(call.failed)):
                yield TextDelta(text)
            await self._stage.for_ever()  # whoever stops the turn ends this
        assert end is not None, "the call has ended"
        await self._stage.until(end)
        if call.completed is not None:
            response = self._answer(call)
            if text := str(response["text"]):
                yield TextDelta(text)
            done = call.completed
            yield Finished(
                finish=done.finish,
                tool_uses=done.tool_uses,
                usage=done.usage,
                cost=done.cost,
                response=response,
                ttft_ms=done.ttft_ms,
            )
        elif call.failed is not None:
            text = self._partial(call.failed)
            if text:
                yield TextDelta(text)
            if call.failed.code != _UNFINISHED:
                raise self._failure(call, call.failed, has_text=bool(text))

    def _answer(self, call: ModelCall) -> JsonObject:
        assert call.completed is not None, "it is of an answer"
        raw = self._record.blob(call.completed.response_blob, "a model's answer, which was erased")
        return loads_object(raw, max_bytes=len(raw))

    def _partial(self, failed: ModelCallFailed) -> str:
        if failed.partial_blob is None:
            return ""
        raw = self._record.blob(failed.partial_blob, "the beginning of a model's answer, which was erased")
        return str(loads_object(raw, max_bytes=len(raw))["text"])

    def _failure(self, call: ModelCall, failed: ModelCallFailed, *, has_text: bool) -> OzzieError:
        hint, detail = failed.hint, failed.detail
        if not hint:  # recorded by an earlier version
            hint, detail = self._words_beside(call.task_id, failed)
        if not failed.code.startswith(_OF_MODELS):
            return OzzieError(failed.message, hint=hint, code=failed.code)
        return ModelError(
            failed.message,
            hint=hint,
            code=cast(ModelErrorCode, failed.code),
            streamed=has_text,
            begun=failed.settled_tokens > 0,
            after_s=failed.after_s,
            detail=detail,
        )

    def _mistake(self, call: ModelCall) -> Exception | None:
        """Return an error like the one by which Ozzie's own mistake ended the call and its task, if one did."""
        if call.failed is None or call.failed.code != "cancelled":
            return None
        ends = (event.body for event in self._record.of_task(call.task_id) if isinstance(event.body, TaskFailed))
        name = next((_NAME.search(end.message) for end in ends if end.code == "bug"), None)
        return None if name is None else type(name[1], (Exception,), {})()

    def _words_beside(self, task_id: TaskId, failed: ModelCallFailed) -> tuple[str, str]:
        """Return the hint and the detail of a failure: those of the task that it ended, if it did."""
        for event in self._record.of_task(task_id):
            if isinstance(event.body, TaskFailed) and event.body.code == failed.code:
                return event.body.hint, event.body.detail
        return "", ""


class RecordedModels:
    """The models of turns (`tasks.turn_runner.TurnModels`): those that were called, in their order.

    Which ones there were to choose from depended on keys, addresses and what other sessions had met; the log has what
    was chosen.
    """

    def __init__(self, record: Record, stage: Stage, registry: Callable[[], ModelRegistry]) -> None:
        self._record = record
        self._stage = stage
        self._registry = registry
        self._choices: dict[tuple[str, ...], ModelChoice] = {}

    @property
    def registry(self) -> ModelRegistry:
        return self._registry()

    async def chain(self, session: SessionInfo, row: Row, recorder: Recorder) -> Chain:
        """Return the models that were called from here on. Raises the error that ended the turn if none could be."""
        calls = list(self._calls(recorder.task_id, "answer"))
        if not calls:
            return await self._without(recorder.task_id, str(row["model"]) or session.model)
        calls = [call for call in calls if call.alias == calls[0].alias]  # later, a budget may want another one
        choices = tuple(dict.fromkeys(map(self._choice, calls)))
        return Chain(choices, wanted=calls[0].instead_of or calls[0].provider)

    async def _without(self, task_id: TaskId, name: str) -> Chain:
        """Return the models of that name for a turn that calls none any more."""
        for event in self._stage.ahead(task_id):
            if isinstance(event.body, TaskFailed) and event.body.code.startswith(("model.", "config.")):
                await self._stage.until(event)
                raise OzzieError(event.body.message, hint=event.body.hint, code=event.body.code)
        try:
            return self.registry.chain(name)
        except OzzieError:
            return Chain((self._named(name),))

    async def cheaper(self) -> Chain | None:
        """Return the cheaper models that the turn went on with, or offered."""
        for event in self._stage.ahead(running_task()):
            alias = _cheaper_in(event)
            if alias:
                calls = [call for call in self._calls(running_task(), "answer") if call.alias == alias]
                return Chain((self._choice(calls[0]) if calls else self._named(alias),))
            if isinstance(event.body, ModelCallStarted) and event.body.purpose == "answer":
                return Chain((self._choice(event.body),))
        return None

    async def checker(self, own: Chain) -> Chain | None:
        """Return the model that checked the next call, or None."""
        return self._next("check")

    async def summarizer(self, own: Chain | None) -> Chain | None:
        """Return the model that summarized next, or None."""
        return self._next("summary")

    async def priced(self, choice: ModelChoice) -> ModelChoice:
        """What a call could cost was reserved, and the log has that."""
        return choice

    def _next(self, purpose: Purpose) -> Chain | None:
        for event in self._stage.ahead(running_task()):
            if isinstance(event.body, ModelCallStarted):
                return Chain((self._choice(event.body),)) if event.body.purpose == purpose else None
        return None

    def _calls(self, task_id: TaskId, purpose: Purpose) -> Iterator[ModelCallStarted]:
        for event in self._stage.ahead(task_id):
            if isinstance(event.body, ModelCallStarted) and event.body.purpose == purpose:
                yield event.body

    def _named(self, alias: str) -> ModelChoice:
        return ModelChoice(alias=alias, provider=alias, driver="", model=alias)

    def _choice(self, started: ModelCallStarted) -> ModelChoice:
        key = started.alias, started.provider, started.model, started.config, started.purpose
        if (known := self._choices.get(key)) is None:
            known = self._choices[key] = self._made(started)
        return known

    def _made(self, started: ModelCallStarted) -> ModelChoice:
        """Return a model by what the configuration of then says of it, and by what it was sent."""
        sent = next(filter(None, (call.request(self._record) for call in self._same(started))), None)
        driver = "" if sent is None else str(sent["driver"])
        base = ModelChoice(alias=started.alias, provider=started.provider, driver=driver, model=started.model)
        try:
            configured = self.registry.chain(started.alias)
            base = next(each for each in (*configured.choices, *configured.stronger) if each.provider == base.provider)
        except (OzzieError, StopIteration):
            pass
        known = self._capabilities(base)
        return replace(
            base,
            driver=driver or base.driver,
            model=started.model,
            context=started.context or known.context.value,
            max_output=started.max_output or known.max_output.value,
            takes_tools=any(call.started.tools != _NO_TOOLS for call in self._same(started)),
            structured=any("schema" in request for request in self._for_programs(started)),
        )

    def _capabilities(self, choice: ModelChoice) -> Capabilities:
        """Return what the configuration of then says of a model."""
        found = self.registry.configured(choice)
        return capabilities(found.capabilities if found else CapabilitySettings(), None, None)

    def _same(self, started: ModelCallStarted) -> Iterator[ModelCall]:
        """Yield the calls of the same model for the same purpose under the same configuration."""
        for call in self._record.calls.values():
            if all(getattr(call.started, name) == getattr(started, name) for name in _SAME):
                yield call

    def _for_programs(self, started: ModelCallStarted) -> Iterator[JsonObject]:
        """Yield what the model was sent in turns whose answer a program reads."""
        for call in self._same(started):
            if call.task_id in self._record.for_programs and (request := call.request(self._record)) is not None:
                yield request


def _cheaper_in(event: Event) -> str:
    match event.body:
        case TaskModelChosen(model=model):
            return model
        case PromptRequested(kind="budget", options=options):
            label = next((option.label for option in options if option.name == "cheap"), "")
            return label.removeprefix('Go on with "').removesuffix('"')
        case _:
            return ""


class RecordedLedger(Ledger):
    """Reserves what was reserved, and refuses what was refused: budgets are shared with other sessions, whose use the
    record does not have."""

    def __init__(self, record: Record, stage: Stage) -> None:
        super().__init__(_nothing)
        self._record = record
        self._stage = stage

    @asynccontextmanager
    async def reserve(
        self, budgets: Sequence[Budget], need: Need, *, waiting: Callable[[], None] = lambda: None
    ) -> AsyncIterator[Reserved]:
        for event in self._stage.ahead(running_task()):
            match event.body:
                case ModelCallStarted() as started:
                    yield self._reserved(need, started, budgets)
                    return
                case BudgetExceeded() as exceeded:
                    raise BudgetBreach(overrun(self._now(exceeded), budgets, self._offered()))
                case _:
                    pass
        yield Reserved(need, (), None, 0, None, None)

    def _now(self, exceeded: BudgetExceeded) -> BudgetExceeded:
        """Return the event with the ids of the replay."""
        return msgspec.structs.replace(exceeded, key=self._stage.ids.now(exceeded.key))

    async def fits(self, budgets: Sequence[Budget], need: Need) -> bool:
        return True

    def _reserved(self, need: Need, started: ModelCallStarted, budgets: Sequence[Budget]) -> Reserved:
        request = self._record.calls[started.call_id].request(self._record) if budgets else None
        written = None if request is None or not isinstance(request["max_tokens"], int) else request["max_tokens"]
        return _Recorded(need, started, written, self._breach_after(started), budgets, self._offered())

    def _offered(self) -> int:
        """Return how much more the next question about a budget offers; 0 if there is none."""
        for event in self._stage.ahead(running_task()):
            if isinstance(event.body, PromptRequested):
                return event.body.options[0].amount if event.body.kind == "budget" else 0
        return 0

    def _breach_after(self, started: ModelCallStarted) -> BudgetExceeded | None:
        """Return the budget that turned out to be full once the call had ended."""
        has_begun = False
        for event in self._stage.ahead(running_task()):
            if isinstance(event.body, ModelCallStarted):
                if has_begun:
                    return None
                has_begun = event.body.call_id == started.call_id
            elif isinstance(event.body, BudgetExceeded) and has_begun:
                return self._now(event.body)
        return None


class _Recorded(Reserved):
    """A reservation with the amounts of the record."""

    def __init__(
        self,
        need: Need,
        started: ModelCallStarted,
        written: int | None,
        breach: BudgetExceeded | None,
        budgets: Sequence[Budget],
        offered: int,
    ) -> None:
        super().__init__(need, (), started.reserved_cost, started.reserved_tokens, written, None)
        self._exceeded = breach
        self._budgets = budgets
        self._offered = offered

    @property
    def breach(self) -> BudgetOverrun | None:
        return None if self._exceeded is None else overrun(self._exceeded, self._budgets, self._offered)


async def _nothing(account: Account) -> AccountBalance:
    return AccountBalance()


def overrun(exceeded: BudgetExceeded, budgets: Sequence[Budget], offered: int) -> BudgetOverrun:
    """Return the overrun that was recorded, of which a person was `offered` so much more, 0 if none was asked."""
    account = Account(exceeded.scope, exceeded.key)
    budget = next((each for each in budgets if each.account == account), Budget(account=account))
    return BudgetOverrun(
        budget=budget,
        measure=exceeded.measure,
        limit=exceeded.limit,
        used=exceeded.used,
        wanted=exceeded.wanted,
        least=max(offered + exceeded.limit - exceeded.used, 0) if offered else 0,
    )


def running_task() -> TaskId:
    """Return the task that this code runs for."""
    return RUNNING.get()
