"""One round's request to a model: asked along the chain until somebody answers, streamed, and recorded (MD-4)."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Literal, NoReturn

from ozzie_server_ext.agent.answer import MAX_ANSWER_CHARS, IncompleteAnswer, Reply, empty_answer
from ozzie_server_ext.agent.breach import end, exceeded, question
from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.plan import Allowance, TurnParts, TurnPlan
from ozzie_server_ext.agent.requests import Requests, injected_tools, need_of, toolset_version
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    Finish,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    TaskModelChosen,
    ToolsetInjected,
    Transient,
)
from ozzie_server_ext.domain.ids import CallId, PromptId, ReplyId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import TurnHeld
from ozzie_server_ext.models.attempts import Attempt, Attempts
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import Finished, ModelChoice, ModelError, ModelRequest, Reasoning
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.models.ledger import Breach, BudgetBreach, Reserved
from ozzie_server_ext.models.rates import Place
from ozzie_server_ext.models.remedies import may_be_billed
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.uncut import uncut

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
        leaving: Callable[[], bool],
    ) -> None:
        self._parts = parts
        self._plan = plan
        self._conversation = conversation
        self._recorder = recorder
        self._leaving = leaving
        self._offered = ""
        self._choice = plan.chain.first
        self._requests = Requests(parts, plan, conversation, recorder.task_id)

    async def ask(self, number: int, why: str = "") -> None:
        """Have round `number` answered. When this returns, the answer is recorded, whole or not. `why` is said of it
        until its first word comes.

        Raises ModelError or IncompleteAnswer, after whose failure nobody else could be asked, BudgetBreach where a
        budget has no room for it, or what a cancellation raises; what had come is recorded then, too.
        """
        if why:
            self._publish("task.progress", {"step": why})
        attempts = self._attempts()
        attempt: Attempt | None = attempts.first()
        while attempt is not None:
            if attempt.why:
                self._publish("task.progress", {"step": attempt.why})
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

    @property
    def alias(self) -> str:
        """Who is to answer now."""
        return self._plan.chain.first.alias

    async def end(self, breach: Breach) -> NoReturn:
        """End the run of a turn whose budget has no room for what comes next: with a question where that is wanted and
        somebody is there, else in words. Raises TurnHeld, LimitExceeded."""
        wants_to_ask = breach.budget.on_breach != "stop"
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
            first = await self._priced(cheaper.first, allowance)
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
        choice = self._choice = await self._priced(attempt.choice, allowance)
        prompt = self._requests.prompt(choice)
        request = self._requests.request(choice, prompt)
        document = canonical_bytes(request.to_json())
        need = need_of(request, document)

        def for_room() -> None:
            self._publish("task.progress", {"step": "other turns hold the rest of the budget: waiting for them"})

        def for_place() -> None:
            self._publish("task.progress", {"step": f'"{choice.said}" takes no more at once: waiting for a place'})

        async with self._parts.ledger.reserve(allowance.budgets, need, waiting=for_room) as reserved:
            if reserved.written is not None:
                request = replace(request, choice=replace(choice, max_tokens=reserved.written))
                document = canonical_bytes(request.to_json())
            rates, tokens = self._plan.rates_of(choice), need.read
            async with self._parts.rates.place(choice.provider, rates, tokens, waiting=for_place) as place:
                injected = injected_tools(self._requests.tools(choice))
                started = ModelCallStarted(
                    call_id=request.call_id,
                    reply_id=ReplyId(self._parts.ids.new()),
                    round=number,
                    alias=choice.alias,
                    provider=choice.provider,
                    model=choice.model,
                    request_blob=await self._parts.blobs.put(document),
                    config=self._plan.config_version,
                    prompt=prompt.version,
                    tools=toolset_version(injected),
                    attempt=attempt.number,
                    instead_of=attempt.instead_of,
                    reserved_cost=reserved.cost,
                    reserved_tokens=reserved.tokens,
                    project=allowance.project,
                    day=allowance.day,
                )
                # Told once, and again where somebody is asked who takes other tools, or none.
                is_new = started.tools != self._offered and (number == 1 or bool(self._offered))
                self._offered = started.tools
                await self._begin(started, *([injected] if is_new else []))
                reserved.begun()
                answer = await self._call(request, Reply(started.reply_id), place, reserved)
        self._warn(reserved.share)
        if answer.finish == "length" and reserved.breach is not None:
            written = answer.usage.output_tokens
            if not written or written >= (reserved.written or 0):  # else its model broke off by itself
                raise BudgetBreach(reserved.breach)

    async def _begin(self, started: ModelCallStarted, *before: ToolsetInjected) -> None:
        """Record the begin of a call; where the turn is cancelled meanwhile, also that nobody was asked."""
        try:
            await uncut(self._recorder.append(*before, started))
        except asyncio.CancelledError:
            who, code = ("Ozzie's gateway", INTERRUPTED) if self._leaving() else ("The turn", "cancelled")
            why = f"{who} was stopped before it was sent."
            not_sent = ModelCallFailed(call_id=started.call_id, code=code, message=why, latency_ms=0.0, settled_cost=0)
            await uncut(self._recorder.append(not_sent))
            raise

    def _warn(self, share: float) -> None:
        """A word in the state line where a budget is nearly used up (UX §2.6)."""
        if share >= WARN_SHARE:
            self._publish("task.progress", {"budget": round(share * 100)})

    async def _priced(self, choice: ModelChoice, allowance: Allowance) -> ModelChoice:
        """The choice with its prices, where a budget is of money: that nobody could be asked for them is not the same
        as that nobody knows them. Raises ModelError."""
        if choice.prices is not None or all(budget.cost is None for budget in allowance.budgets):
            return choice
        try:
            return await self._plan.priced(choice)
        except Unavailable as error:
            raise model_error("worker.unavailable", choice, detail=str(error)) from error

    async def _call(self, request: ModelRequest, reply: Reply, place: Place, reserved: Reserved) -> Finished:
        """The answer streamed to the feed and recorded whole; what had come of one that is not."""
        parts = self._parts
        began = parts.clock.monotonic()

        async def broken(finish: Finish | None, code: str, message: str, *, is_billed: bool) -> None:
            """Without a `finish`, nothing was answered: the whole answer comes anew."""
            partial = await parts.blobs.put(canonical_bytes({"text": reply.text})) if reply.text else None
            failed = ModelCallFailed(
                call_id=request.call_id,
                code=code,
                message=message,
                latency_ms=self._since(began),
                partial_blob=partial,
                settled_cost=reserved.cost if is_billed else 0,
                settled_tokens=reserved.tokens if is_billed else 0,
            )
            await self._recorder.append(failed, *(reply.ended(finish) if finish else ()))
            reserved.settle(failed.settled)

        try:
            answer = await self._read(request, reply)
        except asyncio.CancelledError:
            if self._leaving():
                await uncut(broken(None, INTERRUPTED, "Ozzie's gateway stopped in the middle of it.", is_billed=True))
            else:
                await uncut(broken("cancelled", "cancelled", "The turn was stopped.", is_billed=True))
            raise
        except OzzieError as error:
            is_billed = reply.has_begun or may_be_billed(error)
            await uncut(broken("failed", error.code, str(error), is_billed=is_billed))
            raise
        place.settle(answer.usage.input_tokens + answer.usage.output_tokens)
        await uncut(self._complete(request.call_id, answer, reply, reserved, began))
        return answer

    async def _complete(
        self, call_id: CallId, answer: Finished, reply: Reply, reserved: Reserved, began: float
    ) -> None:
        """Record the whole answer: it was given, and is paid for, whatever becomes of the turn meanwhile."""
        completed = await self._completed(call_id, answer, began)
        await self._recorder.append(completed, *reply.ended(answer.finish))
        reserved.settle(completed.settled(reserved.cost))

    async def _read(self, request: ModelRequest, reply: Reply) -> Finished:
        """The answer to its end, its text shown as it comes and gathered in `reply`."""
        name = request.choice.said
        answer: Finished | None = None
        async with aclosing(self._parts.models.generate(request)) as stream:
            async for event in stream:
                reply.has_begun = True
                if isinstance(event, Finished):
                    answer = event
                    continue
                if isinstance(event, Reasoning):
                    self._publish("task.progress", {"step": "reasoning"})
                    continue
                self._show(reply, event.text)
                reply.add(event.text)
                if reply.length > MAX_ANSWER_CHARS:
                    raise IncompleteAnswer(
                        f'"{name}" wrote more than {MAX_ANSWER_CHARS:,} characters without coming to an end.',
                        hint="What came is kept. Ask for less at once, or choose another model with %model.",
                        code="provider.endless",
                    )
        if answer is None:
            raise IncompleteAnswer(f'"{name}" ended without finishing its answer.', hint="Run the cell again.")
        return answer

    async def _completed(self, call_id: CallId, answer: Finished, began: float) -> ModelCallCompleted:
        return ModelCallCompleted(
            call_id=call_id,
            response_blob=await self._parts.blobs.put(canonical_bytes(answer.response)),
            finish=answer.finish,
            tool_uses=answer.tool_uses,
            usage=answer.usage,
            cost=answer.cost,
            latency_ms=self._since(began),
            ttft_ms=answer.ttft_ms,
        )

    def _show(self, reply: Reply, content: str) -> None:
        delta: dict[str, Json] = {
            "reply_id": reply.reply_id,
            "offset": reply.length,
            "phase": "delta",
            "content": content,
        }
        self._publish("reply.delta", delta)

    def _publish(self, kind: Literal["task.progress", "reply.delta"], payload: dict[str, Json]) -> None:
        transient = Transient(
            type=kind, session_id=self._recorder.session_id, task_id=self._recorder.task_id, payload=payload
        )
        self._parts.feed.publish(transient)

    def _since(self, began: float) -> float:
        return round((self._parts.clock.monotonic() - began) * 1000, 3)


def _is_refused(error: OzzieError) -> bool:
    """Whether nothing of an answer came, and the same request, put differently, may be taken."""
    return isinstance(error, ModelError) and error.code == "provider.bad_request" and not error.streamed
