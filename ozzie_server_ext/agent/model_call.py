"""Makes a turn's model calls within budgets and rate limits, streams and records them, and falls back if one fails."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import NoReturn

from ozzie_server_ext.agent.plan import Allowance, TurnContext
from ozzie_server_ext.agent.questions import budget_exceeded, budget_prompt, limit_exceeded
from ozzie_server_ext.agent.requests import RequestBuilder, TurnToolbox, injected_tools, need_of, toolset_version
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
)
from ozzie_server_ext.domain.ids import BlobRef, PromptId, ReplyId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import StreamMask, without_known
from ozzie_server_ext.domain.tasks import TurnHeld
from ozzie_server_ext.models.chain import EMPTY, Attempt, Attempts, Chain, may_be_billed
from ozzie_server_ext.models.driver import Finished, ModelChoice, ModelError, ModelRequest, Reasoning
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.models.ledger import BudgetBreach, BudgetOverrun, Reserved
from ozzie_server_ext.models.rates import RateSlot
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.shielded import uncut

MAX_ANSWER_CHARS = 1_000_000


class IncompleteAnswer(OzzieError):
    """The model's answer is incomplete."""

    code = "provider.incomplete"


class Reply:
    """The text of one answer while it streams. It is kept in pieces: joining at each would take quadratic time.

    `has_begun`: anything of the answer has come. `known` are keys that the model may have read and quote: they are
    masked before anybody sees or stores them.
    """

    def __init__(self, reply_id: ReplyId, known: Sequence[str] = ()) -> None:
        self.reply_id = reply_id
        self.length = 0
        self.has_begun = False
        self._pieces: list[str] = []
        self._mask = StreamMask(known)

    def add(self, piece: str) -> str:
        """Add a piece and return the text that can be shown now. A possible beginning of a known key is held back."""
        return self._keep(self._mask.feed(piece))

    def close(self) -> str:
        """Return the held-back text at the end of the stream."""
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
        """Return the event that records the text; none if it is empty."""
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
    """Raise IncompleteAnswer if a recorded answer is incomplete, which ends the turn."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a call, and its reservation."""

    finished: Finished
    text: str
    reserved: Reserved


class ModelCaller:
    """Makes the model calls of one turn."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._parts = turn.parts
        self._recorder = turn.recorder

    def started(
        self, request: ModelRequest, allowance: Allowance, *, number: int, prompt: str, tools: str
    ) -> ModelCallStarted:
        """Return the event that starts a call, without its request and reservation."""
        choice = request.choice
        return ModelCallStarted(
            call_id=request.call_id,
            reply_id=ReplyId(self._parts.ids.new()),
            round=number,
            alias=choice.alias,
            provider=choice.provider,
            model=choice.model,
            request_blob=BlobRef(""),
            config=self._turn.plan.config_version,
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
        before: Callable[[ModelCallStarted], Iterable[EventBody]] = lambda started: (),
    ) -> Answer:
        """Make the call of `started` once budgets and rate limits have room for it; `before` returns events to record
        just before it. An answer to the user is streamed and recorded as a message; of a check, only the call is
        recorded.

        Raises BudgetBreach if a budget has no room, what the model raises, or what a cancellation raises; the partial
        answer is recorded first.
        """
        choice = request.choice
        document = canonical_bytes(request.to_json())
        need = need_of(request, document)

        def on_budget_wait() -> None:
            self._turn.publish("task.progress", {"step": "other turns hold the rest of the budget: waiting for them"})

        def on_rate_wait() -> None:
            step = f'"{choice.said}" takes no more at once: waiting for a place'
            self._turn.publish("task.progress", {"step": step})

        rates = self._turn.plan.rates_of(choice)
        while True:
            async with (
                self._parts.ledger.reserve(allowance.budgets, need, waiting=on_budget_wait) as reserved,
                self._parts.rates.place(choice.provider, rates, need.read, waiting=on_rate_wait) as slot,
            ):
                if not reserved.still_fits:  # the wait for a slot may have been long
                    slot.leave()
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
                call = _Call(request, reply, slot, reserved, started.purpose == "answer")
                finished = await self._call(call)
            return Answer(finished=finished, text=call.reply.text, reserved=reserved)

    async def priced(self, choice: ModelChoice, allowance: Allowance) -> ModelChoice:
        """Return the choice with its prices if a budget needs them. Raises ModelError if they can't be looked up, which
        differs from unknown prices."""
        if choice.prices is not None or all(budget.cost is None for budget in allowance.budgets):
            return choice
        try:
            return await self._turn.plan.priced(choice)
        except Unavailable as error:
            raise model_error("worker.unavailable", choice, detail=str(error)) from error

    async def _begin(self, started: ModelCallStarted, before: Iterable[EventBody]) -> None:
        """Record the start of a call. If the turn is cancelled meanwhile, record that it was not sent."""
        try:
            await uncut(self._recorder.append(*before, started))
        except asyncio.CancelledError:
            who, code = ("Ozzie's gateway", INTERRUPTED) if self._parts.leaving() else ("The turn", "cancelled")
            why = f"{who} was stopped before it was sent."
            not_sent = ModelCallFailed(call_id=started.call_id, code=code, message=why, latency_ms=0.0, settled_cost=0)
            await uncut(self._recorder.append(not_sent))
            raise

    async def _call(self, call: "_Call") -> Finished:
        """Return the complete answer and record it; on a failure, record the partial one."""
        parts, reserved, reply = self._parts, call.reserved, call.reply
        began = parts.clock.monotonic()

        async def broken(finish: Finish | None, code: str, message: str, *, is_billed: bool) -> None:
            """Record a failure. Without a `finish`, no message is recorded, since the call will be repeated."""
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
            await self._recorder.append(failed, *(call.message(finish) if finish else ()))
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
        call.slot.settle(answer.usage.input_tokens + answer.usage.output_tokens)
        await uncut(self._complete(call, answer, began))  # it is paid for, even if the turn is cancelled now
        return answer

    async def _complete(self, call: "_Call", answer: Finished, began: float) -> None:
        completed = ModelCallCompleted(
            call_id=call.request.call_id,
            response_blob=await self._parts.blobs.put(self._without_keys(answer.response)),
            finish=answer.finish,
            tool_uses=answer.tool_uses,
            usage=answer.usage,
            cost=answer.cost,
            latency_ms=self._since(began),
            ttft_ms=answer.ttft_ms,
        )
        await self._recorder.append(completed, *call.message(answer.finish))
        call.reserved.settle(completed.settled(call.reserved.cost))

    async def _read(self, call: "_Call") -> Finished:
        """Stream the answer to its end, adding its text to the reply."""
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
                        self._turn.publish("task.progress", {"step": "reasoning"})
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

    def _without_keys(self, response: Json) -> bytes:
        """Return a response for storage, without known keys. Arguments of tool calls are stored in their own events."""
        known = sorted(self._parts.known_secrets(), key=len, reverse=True)
        # Keys appear in JSON as they are, or escaped if they have quotes, backslashes or control characters.
        text = canonical_bytes(response).decode()
        return without_known(text, [*known, *(json.dumps(secret)[1:-1] for secret in known)]).encode()

    def _show(self, call: "_Call", offset: int, content: str) -> None:
        if content and call.is_shown:
            reply_id = call.reply.reply_id
            delta: JsonObject = {"reply_id": reply_id, "offset": offset, "phase": "delta", "content": content}
            self._turn.publish("reply.delta", delta)

    def _since(self, began: float) -> float:
        return round((self._parts.clock.monotonic() - began) * 1000, 3)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call in progress. `is_shown`: its text is for the user."""

    request: ModelRequest
    reply: Reply
    slot: RateSlot
    reserved: Reserved
    is_shown: bool

    def message(self, finish: Finish) -> tuple[EventBody, ...]:
        return self.reply.ended(finish) if self.is_shown else ()


WARN_SHARE = 0.8
"""The used share of a budget from which a turn shows it."""


class RoundRunner:
    """Gets the model's answers, one per round of a turn. Each attempt is a separate call in the log, with its own cost
    and failure."""

    def __init__(self, turn: TurnContext, caller: ModelCaller, toolbox: TurnToolbox) -> None:
        self._turn = turn
        self._caller = caller
        last = turn.conversation.toolsets.last(turn.task_id)
        self._offered = toolset_version(last) if last else ""
        self._chain = turn.plan.chain
        self._choice = self._chain.first
        self._is_degraded = False
        self._requests = RequestBuilder(turn, toolbox)

    async def run(self, number: int, why: str = "") -> None:
        """Get the answer of round `number`. It is recorded when this returns, complete or not. `why` is shown until the
        answer begins.

        Raises ModelError or IncompleteAnswer if no model of the chain answers, BudgetBreach if a budget has no room, or
        what a cancellation raises; the partial answer is recorded first.
        """
        await self._follow_watchdog()
        if why:
            self._turn.publish("task.progress", {"step": why})
        attempts = self._attempts()
        attempt: Attempt | None = attempts.first()
        while attempt is not None:
            if attempt.why:
                self._turn.publish("task.progress", {"step": attempt.why})
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
                if _is_refused(error) and self._requests.drop_schema(self._choice):
                    attempt = attempts.anew(f'"{self._choice.said}" takes no such schema: asking without')
                    continue
                attempt = attempts.after(error)
                if attempt is None:
                    raise attempts.outcome(error) from None
            else:
                attempts.answered()
                last = self._turn.conversation.last_round(self._turn.task_id)
                is_empty = last is not None and not last.text and not last.uses and last.finish == "stop"
                attempt = attempts.after(empty_answer(attempt.choice.said)) if is_empty else None

    async def _follow_watchdog(self) -> None:
        """Change to the cheaper chain, if there is one, after the watchdog found that the turn makes no progress."""
        if self._turn.task_id in self._turn.conversation.degraded and not self._is_degraded:
            self._is_degraded = True
            self._chain = await self._turn.plan.cheaper() or self._chain

    @property
    def alias(self) -> str:
        """The alias of the model that answers now."""
        return self._chain.first.alias

    async def end(self, breach: BudgetOverrun) -> NoReturn:
        """End the run of a turn whose budget has no room for the next step: ask a person if that is configured and one
        is there, otherwise fail. Raises TurnHeld or LimitExceeded."""
        wants_to_ask = breach.budget.on_breach != "stop" and not breach.ends_a_part
        if not (wants_to_ask and self._turn.plan.attended):
            await self._turn.recorder.append(budget_exceeded(breach, "stop"))
            raise limit_exceeded(breach, alone=wants_to_ask)
        choice = self._choice
        cheaper = await self._cheaper(breach, choice)
        alias = cheaper.first.alias if cheaper else ""
        prompt = budget_prompt(breach, PromptId(self._turn.parts.ids.new()), said=choice.said, cheaper=alias)
        await self._turn.recorder.append(budget_exceeded(breach, "ask"), *prompt)
        raise TurnHeld

    async def _degrade(self, breach: BudgetOverrun, choice: ModelChoice) -> bool:
        """Change to the cheaper chain if possible; return whether it was."""
        cheaper = await self._cheaper(breach, choice) if breach.budget.on_breach == "degrade" else None
        if cheaper is None:
            return False
        why = budget_exceeded(breach, "degrade")
        await self._turn.recorder.append(why, TaskModelChosen(model=cheaper.first.alias, reason=why.type))
        self._chain = cheaper
        return True

    async def _cheaper(self, breach: BudgetOverrun, choice: ModelChoice) -> Chain | None:
        """Return the chain to use instead of `choice`, if there is one and the budgets have room for it."""
        cheaper = None if breach.measure == "time" else await self._turn.plan.cheaper()
        if cheaper is not None and self._has_pictures:
            cheaper = cheaper.seeing()
        if cheaper is None or choice.provider in {each.provider for each in cheaper.choices}:
            return None
        allowance = self._turn.plan.allowance()
        try:
            first = await self._caller.priced(cheaper.first, allowance)
        except ModelError:
            return None
        request = self._requests.request(first, self._requests.prompt(first))
        need = need_of(request, canonical_bytes(request.to_json()))
        return cheaper if await self._turn.parts.ledger.fits(allowance.budgets, need) else None

    @property
    def _has_pictures(self) -> bool:
        """Whether the message has pictures. Only models that can see them may answer it."""
        return bool(self._turn.conversation.pictures(self._turn.task_id))

    def _attempts(self) -> Attempts:
        """Raises ModelError if the message has pictures that no model of the chain can see."""
        chain = self._chain.seeing() if self._has_pictures else self._chain
        if chain is None:
            raise model_error("provider.sees_nothing", self._chain.first)
        return Attempts(chain, self._turn.plan.retry, self._turn.parts.health)

    async def _attempt(self, number: int, attempt: Attempt) -> None:
        allowance = self._turn.plan.allowance()
        choice = self._choice = await self._caller.priced(attempt.choice, allowance)
        prompt = self._requests.prompt(choice)
        request = self._requests.request(choice, prompt)
        updates = self._turn.conversation.updates(self._turn.task_id)
        injected = injected_tools(self._requests.tools(choice))
        started = self._caller.started(
            request, allowance, number=number, prompt=prompt.version, tools=toolset_version(injected)
        )

        def new_toolset(started: ModelCallStarted) -> list[ToolsetInjected]:
            """Record the offered tools if they differ from the last call's."""
            is_new = started.tools != self._offered
            self._offered = started.tools
            return [injected] if is_new else []

        started = replace(started, attempt=attempt.number, instead_of=attempt.instead_of, updates=updates)
        answer = await self._caller.make(request, started, allowance, before=new_toolset)
        finished, reserved = answer.finished, answer.reserved
        if reserved.share >= WARN_SHARE:
            self._turn.publish("task.progress", {"budget": round(reserved.share * 100)})
        if finished.finish == "length" and reserved.breach is not None:
            written = finished.usage.output_tokens
            if not written or written >= (reserved.written or 0):  # otherwise the model's own limit ended it
                raise BudgetBreach(reserved.breach)


def _is_refused(error: OzzieError) -> bool:
    """Whether the provider refused the request before any answer, so that another form of it may be accepted."""
    return isinstance(error, ModelError) and error.code == "provider.bad_request" and not error.streamed
