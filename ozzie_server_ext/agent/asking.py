"""One round's request to a model: asked along the chain until somebody answers, streamed, and recorded (MD-4)."""

import asyncio
from dataclasses import replace
from typing import NoReturn

from ozzie_server_ext.agent.answer import empty_answer
from ozzie_server_ext.agent.breach import end, exceeded, question
from ozzie_server_ext.agent.calling import Calling
from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.plan import TurnParts, TurnPlan
from ozzie_server_ext.agent.requests import Requests, injected_tools, need_of, toolset_version
from ozzie_server_ext.agent.toolbox import TurnToolbox
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    ModelCallStarted,
    TaskModelChosen,
    ToolsetInjected,
)
from ozzie_server_ext.domain.ids import PromptId
from ozzie_server_ext.domain.tasks import TurnHeld
from ozzie_server_ext.models.attempts import Attempt, Attempts
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ModelChoice, ModelError
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.models.ledger import Breach, BudgetBreach
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.recorder import Recorder

WARN_SHARE = 0.8
"""Of a budget (UX §2.6)."""


class Asking:
    """Asks for one turn. Each attempt is a call of its own in the log, so that costs and failures are told apart."""

    def __init__(
        self,
        parts: TurnParts,
        plan: TurnPlan,
        conversation: Conversation,
        recorder: Recorder,
        calling: Calling,
        toolbox: TurnToolbox,
    ) -> None:
        self._parts = parts
        self._plan = plan
        self._conversation = conversation
        self._recorder = recorder
        self._calling = calling
        last = conversation.toolsets.last(recorder.task_id)
        self._offered = toolset_version(last) if last else ""
        self._choice = plan.chain.first
        self._is_degraded = False
        self._requests = Requests(parts, plan, conversation, toolbox, recorder.task_id)

    async def ask(self, number: int, why: str = "") -> None:
        """Have round `number` answered. When this returns, the answer is recorded, whole or not. `why` is said of it
        until its first word comes.

        Raises ModelError or IncompleteAnswer, after whose failure nobody else could be asked, BudgetBreach where a
        budget has no room for it, or what a cancellation raises; what had come is recorded then, too.
        """
        await self._follow_watchdog()
        if why:
            self._calling.publish("task.progress", {"step": why})
        attempts = self._attempts()
        attempt: Attempt | None = attempts.first()
        while attempt is not None:
            if attempt.why:
                self._calling.publish("task.progress", {"step": attempt.why})
            if attempt.wait_s:
                await asyncio.sleep(attempt.wait_s)
            try:
                await self._attempt(number, attempt)
            except BudgetBreach as error:
                if not await self._degrade(error.breach, attempt.choice):
                    raise
                attempts = self._attempts()
                attempt = attempts.first()
            except OzzieError as error:
                if _is_refused(error) and self._requests.let_go(self._choice):
                    attempt = attempts.anew(f'"{self._choice.said}" takes no such schema: asking without')
                    continue
                attempt = attempts.after(error)
                if attempt is None:
                    raise attempts.outcome(error) from None
            else:
                attempts.answered()
                attempt = self._instead_of_nothing(attempts, attempt)

    async def _follow_watchdog(self) -> None:
        """A turn that got nowhere goes on with the cheaper chain, where there is one."""
        if self._recorder.task_id in self._conversation.degraded and not self._is_degraded:
            self._is_degraded = True
            cheaper = await self._plan.cheaper()
            self._plan = replace(self._plan, chain=cheaper or self._plan.chain)

    @property
    def alias(self) -> str:
        """Who is to answer now."""
        return self._plan.chain.first.alias

    async def end(self, breach: Breach) -> NoReturn:
        """End the run of a turn whose budget has no room for what comes next: with a question where that is wanted and
        somebody is there, else in words. Raises TurnHeld, LimitExceeded."""
        wants_to_ask = breach.budget.on_breach != "stop" and not breach.ends_a_part
        if not (wants_to_ask and self._plan.attended):
            await self._recorder.append(exceeded(breach, "stop"))
            raise end(breach, alone=wants_to_ask)
        choice = self._choice
        cheaper = await self._cheaper(breach, choice)
        alias = cheaper.first.alias if cheaper else ""
        asked = question(breach, PromptId(self._parts.ids.new()), said=choice.said, cheaper=alias)
        await self._recorder.append(exceeded(breach, "ask"), *asked)
        raise TurnHeld

    async def _degrade(self, breach: Breach, choice: ModelChoice) -> bool:
        """Whether the turn goes on with the cheaper chain from here."""
        cheaper = await self._cheaper(breach, choice) if breach.budget.on_breach == "degrade" else None
        if cheaper is None:
            return False
        why = exceeded(breach, "degrade")
        await self._recorder.append(why, TaskModelChosen(model=cheaper.first.alias, reason=why.type))
        self._plan = replace(self._plan, chain=cheaper)
        return True

    async def _cheaper(self, breach: Breach, choice: ModelChoice) -> Chain | None:
        """The chain that is asked instead of `choice`, where there is one and the budgets have room for it."""
        cheaper = None if breach.measure == "time" else await self._plan.cheaper()
        if cheaper is not None and self._shows:
            cheaper = cheaper.seeing()
        if cheaper is None or choice.provider in {each.provider for each in cheaper.choices}:
            return None
        allowance = self._plan.allowance()
        try:
            first = await self._calling.priced(cheaper.first, allowance)
        except ModelError:
            return None
        request = self._requests.request(first, self._requests.prompt(first))
        need = need_of(request, canonical_bytes(request.to_json()))
        return cheaper if await self._parts.ledger.fits(allowance.budgets, need) else None

    @property
    def _shows(self) -> bool:
        """Whether the message that is answered has pictures: nobody answers it unseen."""
        return bool(self._conversation.pictures(self._recorder.task_id))

    def _attempts(self) -> Attempts:
        """Raises ModelError where nobody of the chain can see what the message shows."""
        chain = self._plan.chain.seeing() if self._shows else self._plan.chain
        if chain is None:
            raise model_error("provider.sees_nothing", self._plan.chain.first)
        return Attempts(chain, self._plan.retry, self._parts.health)

    def _instead_of_nothing(self, attempts: Attempts, attempt: Attempt) -> Attempt | None:
        """Whom to ask where the answer has nothing in it. It is a whole answer all the same, and recorded as one."""
        last = self._conversation.last_round(self._recorder.task_id)
        if last is None or last.text or last.uses or last.finish != "stop":
            return None
        return attempts.after(empty_answer(attempt.choice.said))

    async def _attempt(self, number: int, attempt: Attempt) -> None:
        allowance = self._plan.allowance()
        choice = self._choice = await self._calling.priced(attempt.choice, allowance)
        prompt = self._requests.prompt(choice)
        request = self._requests.request(choice, prompt)
        updates = self._conversation.updates(self._recorder.task_id)
        injected = injected_tools(self._requests.tools(choice))
        began = self._calling.began(
            request, allowance, number=number, prompt=prompt.version, tools=toolset_version(injected)
        )

        def offered(started: ModelCallStarted) -> list[ToolsetInjected]:
            """Told once, and again where there are more, or where somebody is asked who takes other ones, or none."""
            is_new = started.tools != self._offered
            self._offered = started.tools
            return [injected] if is_new else []

        began = replace(began, attempt=attempt.number, instead_of=attempt.instead_of, updates=updates)
        answer = await self._calling.make(request, began, allowance, before=offered)
        finished, reserved = answer.finished, answer.reserved
        self._warn(reserved.share)
        if finished.finish == "length" and reserved.breach is not None:
            written = finished.usage.output_tokens
            if not written or written >= (reserved.written or 0):  # else its model broke off by itself
                raise BudgetBreach(reserved.breach)

    def _warn(self, share: float) -> None:
        """A word in the state line where a budget is nearly used up (UX §2.6)."""
        if share >= WARN_SHARE:
            self._calling.publish("task.progress", {"budget": round(share * 100)})


def _is_refused(error: OzzieError) -> bool:
    """Whether nothing of an answer came, and the same request, put differently, may be taken."""
    return isinstance(error, ModelError) and error.code == "provider.bad_request" and not error.streamed
