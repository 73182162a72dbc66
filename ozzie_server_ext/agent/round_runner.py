"""Gets the answers of a turn, one a round: along the chain of models, with a cheaper one if a budget demands it."""

import asyncio
from functools import partial
from typing import NoReturn

from msgspec.structs import replace

from ozzie_server_ext.agent.compaction import MOST_PASSES, Compactor
from ozzie_server_ext.agent.model_call import WARN_SHARE, IncompleteAnswer, ModelCaller
from ozzie_server_ext.agent.plan import TurnContext
from ozzie_server_ext.agent.questions import budget_exceeded, budget_question, limit_exceeded
from ozzie_server_ext.agent.requests import RequestBuilder, TurnToolbox, injected_tools, need_of, toolset_version
from ozzie_server_ext.agent.rounds import Round
from ozzie_server_ext.agent.summarizing import Summarizer
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    TaskModelChosen,
    TaskSucceeded,
    ToolsetInjected,
)
from ozzie_server_ext.domain.ids import PromptId
from ozzie_server_ext.domain.tasks import TaskHeld
from ozzie_server_ext.models.chain import EMPTY, Attempt, Attempts, Chain
from ozzie_server_ext.models.driver import Finished, ModelChoice, ModelError
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.models.ledger import BudgetBreach, BudgetOverrun


def expect_usable(answer: Round, alias: str) -> None:
    """Raise IncompleteAnswer if a recorded answer was cut or is empty, which ends the turn."""
    if answer.finish == "length":
        raise IncompleteAnswer(
            f'"{alias}" reached the length limit of one answer. What came is kept.',
            hint="Raise max_tokens of that provider in the configuration, or ask for the rest.",
            code="provider.length",
        )
    if answer.finish == "content_filter":
        raise IncompleteAnswer(
            f'The provider of "{alias}" withheld the answer by its content filter.',
            hint="Say it differently, or choose another model with %model. Your message is kept.",
            code="provider.content_filter",
        )
    if not answer.text and not answer.uses:
        raise empty_answer(alias)


def empty_answer(alias: str) -> IncompleteAnswer:
    return IncompleteAnswer(
        f'"{alias}" answered nothing.',
        hint="Run the cell again, or choose another model with %model. Your message is kept.",
        code=EMPTY,
    )


class RoundRunner:
    """Gets the model's answers, one per round of a turn. Each attempt is a separate call in the log, with its own cost
    and failure."""

    def __init__(self, context: TurnContext, caller: ModelCaller, toolbox: TurnToolbox) -> None:
        self._context = context
        self._caller = caller
        last = context.conversation.toolsets.last(context.task_id)
        self._offered = toolset_version(last) if last else ""
        self._chain = context.plan.chain
        self._choice = self._chain.first
        self._is_degraded = False
        self._requests = RequestBuilder(context, toolbox)
        self._compactor = Compactor(context, Summarizer(context, caller))

    async def run(self, number: int, why: str = "") -> None:
        """Get the answer of round `number`. It is recorded when this returns, complete or not. `why` is shown until the
        answer begins.

        Raises ModelError or IncompleteAnswer if no model of the chain answers, BudgetBreach if a budget has no room, or
        what a cancellation raises; the partial answer is recorded first.
        """
        await self._follow_watchdog()
        if why:
            self._context.publish("task.progress", {"step": why})
        attempts = self._attempts()
        attempt: Attempt | None = attempts.first()
        while attempt is not None:
            if attempt.why:
                self._context.publish("task.progress", {"step": attempt.why})
            if attempt.wait_s:
                await asyncio.sleep(attempt.wait_s)
            try:
                await self._attempt(number, attempt, attempts)
            except BudgetBreach as error:
                if not await self._degrade(error.breach, attempt.choice):
                    raise
                attempts = self._attempts()
                attempt = attempts.first()
            except OzzieError as error:
                if _is_refused(error) and self._requests.drop_schema(self._choice):
                    attempt = attempts.again(f'"{self._choice.label}" takes no such schema: asking without')
                    continue
                attempt = attempts.after(error)
                if attempt is None:
                    raise attempts.outcome(error) from None
            else:
                attempts.answered()
                last = self._context.conversation.last_round(self._context.task_id)
                is_empty = last is not None and not last.text and not last.uses and last.finish == "stop"
                attempt = attempts.after(empty_answer(attempt.choice.label)) if is_empty else None

    async def _follow_watchdog(self) -> None:
        """Change to the cheaper chain, if there is one, after the watchdog found that the turn makes no progress."""
        if self._context.task_id in self._context.conversation.degraded and not self._is_degraded:
            self._is_degraded = True
            self._chain = await self._context.plan.cheaper() or self._chain

    @property
    def alias(self) -> str:
        """The alias of the model that answers now."""
        return self._chain.first.alias

    async def end(self, breach: BudgetOverrun) -> NoReturn:
        """End a turn whose budget has no room for the next step: ask a person if that is configured and one is
        there, otherwise fail. Raises TaskHeld or LimitExceeded."""
        wants_to_ask = breach.budget.on_breach != "stop" and not breach.ends_a_part
        if not (wants_to_ask and self._context.plan.attended):
            await self._context.recorder.append(budget_exceeded(breach, "stop"))
            raise limit_exceeded(breach, alone=wants_to_ask)
        choice = self._choice
        cheaper = await self._cheaper(breach, choice)
        alias = cheaper.first.alias if cheaper else ""
        prompt = budget_question(breach, PromptId(self._context.parts.ids.new()), said=choice.label, cheaper=alias)
        await self._context.recorder.append(budget_exceeded(breach, "ask"), *prompt)
        raise TaskHeld

    async def _degrade(self, breach: BudgetOverrun, choice: ModelChoice) -> bool:
        """Change to the cheaper chain if possible; return whether it was."""
        cheaper = await self._cheaper(breach, choice) if breach.budget.on_breach == "degrade" else None
        if cheaper is None:
            return False
        why = budget_exceeded(breach, "degrade")
        await self._context.recorder.append(why, TaskModelChosen(model=cheaper.first.alias, reason=why.type))
        self._chain = cheaper
        return True

    async def _cheaper(self, breach: BudgetOverrun, choice: ModelChoice) -> Chain | None:
        """Return the chain to use instead of `choice`, if there is one and the budgets have room for it."""
        cheaper = None if breach.measure == "time" else await self._context.plan.cheaper()
        if cheaper is not None and self._has_pictures:
            cheaper = cheaper.seeing()
        if cheaper is None or choice.provider in {each.provider for each in cheaper.choices}:
            return None
        allowance = self._context.plan.allowance()
        try:
            first = await self._caller.priced(cheaper.first, allowance)
        except ModelError:
            return None
        request = self._requests.request(first, self._requests.prompt(first))
        need = need_of(request, request.to_parts())
        return cheaper if await self._context.parts.ledger.fits(allowance.budgets, need) else None

    @property
    def _has_pictures(self) -> bool:
        """Whether the message has pictures. Only models that can see them may answer it."""
        return bool(self._context.conversation.pictures(self._context.task_id))

    def _attempts(self) -> Attempts:
        """Raises ModelError if the message has pictures that no model of the chain can see."""
        chain = self._chain.seeing() if self._has_pictures else self._chain
        if chain is None:
            raise model_error("provider.sees_nothing", self._chain.first)
        return Attempts(chain, self._context.plan.retry, self._context.parts.health)

    async def _attempt(self, number: int, attempt: Attempt, attempts: Attempts) -> None:
        allowance = self._context.plan.allowance()
        choice = self._choice = await self._caller.priced(attempt.choice, allowance)
        prompt = self._requests.prompt(choice)
        conversation, task_id = self._context.conversation, self._context.task_id
        request, updates = self._requests.request(choice, prompt), conversation.updates(task_id)
        for _ in range(MOST_PASSES):
            has_more_room = await self._compactor.make_room(
                request, number, lacks_beginning=self._requests.lacks_beginning
            )
            # Updates may have come while earlier turns were summarized, with success or not.
            if not has_more_room and conversation.updates(task_id) == updates:
                break
            request, updates = self._requests.request(choice, prompt), conversation.updates(task_id)
        injected = injected_tools(self._requests.tools(choice))
        offered = toolset_version(injected)

        def new_toolset() -> list[ToolsetInjected]:
            """Return the event to record if the offered tools differ from the last call's, and remember them."""
            is_new = offered != self._offered
            self._offered = offered
            return [injected] if is_new else []

        started = self._caller.start_event(request, allowance, number=number, prompt=prompt.version, tools=offered)
        started = replace(started, attempt=attempt.number, instead_of=attempt.instead_of, updates=updates)
        answer = await self._caller.make(
            request,
            started,
            allowance,
            before=new_toolset,
            is_asked_again=attempts.is_asked_again,
            end_if_last=partial(self._end_if_last, number),
        )
        finished, reserved = answer.finished, answer.reserved
        if reserved.share >= WARN_SHARE:
            self._context.publish("task.progress", {"budget": round(reserved.share * 100)})
        if finished.finish == "length" and reserved.breach is not None:
            written = finished.usage.output_tokens
            if not written or written >= (reserved.written or 0):  # otherwise the model's own limit ended it
                raise BudgetBreach(reserved.breach)

    async def _end_if_last(self, number: int, answer: Finished, text: str) -> TaskSucceeded | None:
        """See `EndIfLast`. Return None if there is something to do with the answer once it is recorded: calls, a check
        against a schema, a pause, an update, another try after an empty or cut one."""
        plan, task_id = self._context.plan, self._context.task_id
        if plan.success is None or answer.finish != "stop" or answer.tool_uses or not text:
            return None
        conversation = self._context.conversation
        if plan.is_pausing() or conversation.schema(task_id) is not None or conversation.has_new_updates(task_id):
            return None
        if not conversation.toolsets.has_delegated(task_id):
            return TaskSucceeded(rounds=number)
        return await plan.success(number)


def _is_refused(error: OzzieError) -> bool:
    """Whether the provider refused the request before any answer, so that another form of it may be accepted."""
    return isinstance(error, ModelError) and error.code == "provider.bad_request" and not error.streamed
