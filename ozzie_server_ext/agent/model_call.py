"""The calls of models within a turn: reserved, streamed, recorded, and repeated along the chain."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.plan import Allowance, TurnParts, TurnPlan
from ozzie_server_ext.agent.questions import end, exceeded, question
from ozzie_server_ext.agent.requests import Requests, TurnToolbox, injected_tools, need_of, toolset_version
from ozzie_server_ext.agent.rounds import Round
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    EventBody,
    Finish,
    MessageCompleted,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    TaskModelChosen,
    ToolsetInjected,
    Transient,
)
from ozzie_server_ext.domain.ids import BlobRef, CallId, PromptId, ReplyId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.redaction import StreamMask, without_known
from ozzie_server_ext.domain.tasks import TurnHeld
from ozzie_server_ext.models.chain import EMPTY, Attempt, Attempts, Chain, may_be_billed
from ozzie_server_ext.models.driver import Finished, ModelChoice, ModelError, ModelRequest, Reasoning
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.models.ledger import BudgetBreach, BudgetOverrun, Reserved
from ozzie_server_ext.models.rates import RateSlot
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import uncut

MAX_ANSWER_CHARS = 1_000_000


class IncompleteAnswer(OzzieError):
    """The model ended its answer before it was whole."""

    code = "provider.incomplete"


class Reply:
    """The text of one answer while it comes, in pieces: joining at each of them would cost the square of its length.
    `has_begun` is set by whoever hears anything of it. `known` are keys that a model may have read somewhere and quote:
    they are masked before anybody sees or stores them."""

    def __init__(self, reply_id: ReplyId, known: Sequence[str] = ()) -> None:
        self.reply_id = reply_id
        self.length = 0
        self.has_begun = False
        self._pieces: list[str] = []
        self._mask = StreamMask(known)

    def add(self, piece: str) -> str:
        """Take in what came; returns what of the answer can be shown by now. The beginning of a known key is held back
        until more of it comes, or something else."""
        return self._keep(self._mask.feed(piece))

    def close(self) -> str:
        """Return what was held back, once nothing more comes."""
        return self._keep(self._mask.end())

    def _keep(self, text: str) -> str:
        if text:
            self._pieces.append(text)
            self.length += len(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def ended(self, finish: Finish) -> tuple[MessageCompleted, ...]:
        """The fact that keeps the text; none where nothing was said."""
        if not self._pieces:
            return ()
        return (MessageCompleted(reply_id=self.reply_id, text=self.text, finish=finish),)


def empty_answer(alias: str) -> IncompleteAnswer:
    return IncompleteAnswer(
        f'"{alias}" answered nothing.',
        hint="Run the cell again, or choose another model with %model. Your message is kept.",
        code=EMPTY,
    )


def check_whole(answer: Round, alias: str) -> None:
    """An answer that was recorded and yet is no whole one ends the turn, in words. Raises IncompleteAnswer."""
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


Before = Callable[[ModelCallStarted], Iterable[EventBody]]
"""What is recorded together with a call's begin, before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a call, and what it had reserved."""

    finished: Finished
    text: str
    reserved: Reserved


class Calling:
    """Makes the calls of one turn."""

    def __init__(self, parts: TurnParts, plan: TurnPlan, recorder: Recorder) -> None:
        self._parts = parts
        self._plan = plan
        self._recorder = recorder

    def began(
        self, request: ModelRequest, allowance: Allowance, *, number: int, prompt: str, tools: str
    ) -> ModelCallStarted:
        """The begin of a call, without what it reserves."""
        choice = request.choice
        return ModelCallStarted(
            call_id=request.call_id,
            reply_id=ReplyId(self._parts.ids.new()),
            round=number,
            alias=choice.alias,
            provider=choice.provider,
            model=choice.model,
            request_blob=BlobRef(""),
            config=self._plan.config_version,
            prompt=prompt,
            tools=tools,
            project=allowance.project,
            day=allowance.day,
        )

    async def make(
        self,
        request: ModelRequest,
        started: ModelCallStarted,
        allowance: Allowance,
        *,
        before: Before = lambda started: (),
    ) -> Answer:
        """Make the call that `started` begins, once there is room for it. What an answer to the user says is shown as
        it comes and recorded as a message; of a check, only the call is.

        Raises BudgetBreach where a budget has no room for it, what the model raises, or what a cancellation raises;
        what had come is recorded then, too.
        """
        choice = request.choice
        document = canonical_bytes(request.to_json())
        need = need_of(request, document)

        def for_room() -> None:
            self.publish("task.progress", {"step": "other turns hold the rest of the budget: waiting for them"})

        def for_place() -> None:
            self.publish("task.progress", {"step": f'"{choice.said}" takes no more at once: waiting for a place'})

        rates = self._plan.rates_of(choice)
        while True:
            async with (
                self._parts.ledger.reserve(allowance.budgets, need, waiting=for_room) as reserved,
                self._parts.rates.place(choice.provider, rates, need.read, waiting=for_place) as place,
            ):
                if not reserved.still_fits:  # it may have been long until there was a place
                    place.leave()
                    continue
                if reserved.written is not None:
                    request = replace(request, choice=replace(choice, max_tokens=reserved.written))
                    document = canonical_bytes(request.to_json())
                started = replace(
                    started,
                    request_blob=await self._parts.blobs.put(document),
                    reserved_cost=reserved.cost,
                    reserved_tokens=reserved.tokens,
                )
                await self._begin(started, before(started))
                reserved.begun()
                reply = Reply(started.reply_id, self._parts.known_secrets())
                call = _Call(request, reply, place, reserved, started.purpose == "answer")
                finished = await self._call(call)
            return Answer(finished=finished, text=call.reply.text, reserved=reserved)

    async def priced(self, choice: ModelChoice, allowance: Allowance) -> ModelChoice:
        """The choice with its prices, where a budget is of money: that nobody could be asked for them is not the same
        as that nobody knows them. Raises ModelError."""
        if choice.prices is not None or all(budget.cost is None for budget in allowance.budgets):
            return choice
        try:
            return await self._plan.priced(choice)
        except Unavailable as error:
            raise model_error("worker.unavailable", choice, detail=str(error)) from error

    def publish(self, kind: Literal["task.progress", "reply.delta"], payload: dict[str, Json]) -> None:
        """Tell whoever watches the turn."""
        transient = Transient(
            type=kind, session_id=self._recorder.session_id, task_id=self._recorder.task_id, payload=payload
        )
        self._parts.feed.publish(transient)

    async def _begin(self, started: ModelCallStarted, before: Iterable[EventBody]) -> None:
        """Record the begin of a call; where the turn is cancelled meanwhile, also that nobody was asked."""
        try:
            await uncut(self._recorder.append(*before, started))
        except asyncio.CancelledError:
            who, code = ("Ozzie's gateway", INTERRUPTED) if self._parts.leaving() else ("The turn", "cancelled")
            why = f"{who} was stopped before it was sent."
            not_sent = ModelCallFailed(call_id=started.call_id, code=code, message=why, latency_ms=0.0, settled_cost=0)
            await uncut(self._recorder.append(not_sent))
            raise

    async def _call(self, call: "_Call") -> Finished:
        """The answer, recorded whole; what had come of one that is not."""
        parts, reserved, reply = self._parts, call.reserved, call.reply
        began = parts.clock.monotonic()

        async def broken(finish: Finish | None, code: str, message: str, *, is_billed: bool) -> None:
            """Without a `finish`, nothing was answered: the whole answer comes anew."""
            reply.close()
            partial = await parts.blobs.put(canonical_bytes({"text": reply.text})) if reply.text else None
            failed = ModelCallFailed(
                call_id=call.request.call_id,
                code=code,
                message=message,
                latency_ms=self._since(began),
                partial_blob=partial,
                settled_cost=reserved.cost if is_billed else 0,
                settled_tokens=reserved.tokens if is_billed else 0,
            )
            await self._recorder.append(failed, *(call.said(finish) if finish else ()))
            reserved.settle(failed.settled)

        try:
            answer = await self._read(call)
        except asyncio.CancelledError:
            if self._parts.leaving():
                await uncut(broken(None, INTERRUPTED, "Ozzie's gateway stopped in the middle of it.", is_billed=True))
            else:
                stopped = "The turn was stopped." if call.is_shown else "It took too long, or the turn was stopped."
                await uncut(broken("cancelled", "cancelled", stopped, is_billed=True))
            raise
        except OzzieError as error:
            is_billed = reply.has_begun or may_be_billed(error)
            await uncut(broken("failed", error.code, str(error), is_billed=is_billed))
            raise
        call.place.settle(answer.usage.input_tokens + answer.usage.output_tokens)
        await uncut(self._complete(call, answer, began))
        return answer

    async def _complete(self, call: "_Call", answer: Finished, began: float) -> None:
        """Record the whole answer: it was given, and is paid for, whatever becomes of the turn meanwhile."""
        completed = await self._completed(call.request.call_id, answer, began)
        await self._recorder.append(completed, *call.said(answer.finish))
        call.reserved.settle(completed.settled(call.reserved.cost))

    async def _read(self, call: "_Call") -> Finished:
        """The answer to its end, its text gathered in the reply."""
        name, reply = call.request.choice.said, call.reply
        answer: Finished | None = None
        async with aclosing(self._parts.models.generate(call.request)) as stream:
            async for event in stream:
                reply.has_begun = True
                if isinstance(event, Finished):
                    answer = event
                    continue
                if isinstance(event, Reasoning):
                    if call.is_shown:
                        self.publish("task.progress", {"step": "reasoning"})
                    continue
                self._show(call, reply.length, reply.add(event.text))
                if reply.length > MAX_ANSWER_CHARS:
                    raise IncompleteAnswer(
                        f'"{name}" wrote more than {MAX_ANSWER_CHARS:,} characters without coming to an end.',
                        hint="What came is kept. Ask for less at once, or choose another model with %model.",
                        code="provider.endless",
                    )
        if answer is None:
            raise IncompleteAnswer(f'"{name}" ended without finishing its answer.', hint="Run the cell again.")
        self._show(call, reply.length, reply.close())
        return answer

    async def _completed(self, call_id: CallId, answer: Finished, began: float) -> ModelCallCompleted:
        return ModelCallCompleted(
            call_id=call_id,
            response_blob=await self._parts.blobs.put(self._kept(answer.response)),
            finish=answer.finish,
            tool_uses=answer.tool_uses,
            usage=answer.usage,
            cost=answer.cost,
            latency_ms=self._since(began),
            ttft_ms=answer.ttft_ms,
        )

    def _kept(self, response: Json) -> bytes:
        """The answer as it is kept, without known keys. A call of a tool keeps its arguments in its own event."""
        known = sorted(self._parts.known_secrets(), key=len, reverse=True)
        # In JSON, a key without quotes, backslashes or controls stands as it is.
        text = canonical_bytes(response).decode()
        return without_known(text, [*known, *(json.dumps(secret)[1:-1] for secret in known)]).encode()

    def _show(self, call: "_Call", offset: int, content: str) -> None:
        if not (content and call.is_shown):
            return
        delta: dict[str, Json] = {
            "reply_id": call.reply.reply_id,
            "offset": offset,
            "phase": "delta",
            "content": content,
        }
        self.publish("reply.delta", delta)

    def _since(self, began: float) -> float:
        return round((self._parts.clock.monotonic() - began) * 1000, 3)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that was let through. `is_shown`: what it says is for the user."""

    request: ModelRequest
    reply: Reply
    place: RateSlot
    reserved: Reserved
    is_shown: bool

    def said(self, finish: Finish) -> tuple[EventBody, ...]:
        return self.reply.ended(finish) if self.is_shown else ()


WARN_SHARE = 0.8
"""Of a budget."""


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

    async def end(self, breach: BudgetOverrun) -> NoReturn:
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

    async def _degrade(self, breach: BudgetOverrun, choice: ModelChoice) -> bool:
        """Whether the turn goes on with the cheaper chain from here."""
        cheaper = await self._cheaper(breach, choice) if breach.budget.on_breach == "degrade" else None
        if cheaper is None:
            return False
        why = exceeded(breach, "degrade")
        await self._recorder.append(why, TaskModelChosen(model=cheaper.first.alias, reason=why.type))
        self._plan = replace(self._plan, chain=cheaper)
        return True

    async def _cheaper(self, breach: BudgetOverrun, choice: ModelChoice) -> Chain | None:
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
        """A word in the state line where a budget is nearly used up."""
        if share >= WARN_SHARE:
            self._calling.publish("task.progress", {"budget": round(share * 100)})


def _is_refused(error: OzzieError) -> bool:
    """Whether nothing of an answer came, and the same request, put differently, may be taken."""
    return isinstance(error, ModelError) and error.code == "provider.bad_request" and not error.streamed
