"""One call of a model within a turn: reserved in the budgets, let through, recorded from its begin to its end, and
settled (MD-5, THREATS 18). Whatever a turn asks a model for goes through here."""

import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from ozzie_server_ext.agent.answer import MAX_ANSWER_CHARS, IncompleteAnswer, Reply
from ozzie_server_ext.agent.plan import Allowance, TurnParts, TurnPlan
from ozzie_server_ext.agent.requests import need_of
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    EventBody,
    Finish,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    Transient,
)
from ozzie_server_ext.domain.ids import BlobRef, CallId, ReplyId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.redaction import without_known
from ozzie_server_ext.models.driver import Finished, ModelChoice, ModelRequest, Reasoning
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.models.ledger import Reserved
from ozzie_server_ext.models.rates import Place
from ozzie_server_ext.models.remedies import may_be_billed
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.uncut import uncut

Before = Callable[[ModelCallStarted], Iterable[EventBody]]
"""What is recorded together with a call's begin, before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a call, and what it had reserved."""

    finished: Finished
    text: str
    reserved: Reserved


class Calling:
    """Makes the calls of one turn. `leaving`: see `Turn`."""

    def __init__(self, parts: TurnParts, plan: TurnPlan, recorder: Recorder, leaving: Callable[[], bool]) -> None:
        self._parts = parts
        self._plan = plan
        self._recorder = recorder
        self._leaving = leaving

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
            who, code = ("Ozzie's gateway", INTERRUPTED) if self._leaving() else ("The turn", "cancelled")
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
            if self._leaving():
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
    place: Place
    reserved: Reserved
    is_shown: bool

    def said(self, finish: Finish) -> tuple[EventBody, ...]:
        return self.reply.ended(finish) if self.is_shown else ()
