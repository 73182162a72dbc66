"""Makes one model call within budgets and rate limits, streams its answer, and records the call and the answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.agent.plan import Allowance, TurnContext
from ozzie_server_ext.agent.requests import need_of
from ozzie_server_ext.domain.content import CLEAN
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    EventBody,
    Finish,
    MessageCompleted,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    TaskSucceeded,
)
from ozzie_server_ext.domain.ids import BlobRef, ReplyId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.redaction import StreamMask, without_known
from ozzie_server_ext.domain.tasks import UnreadUpdate
from ozzie_server_ext.models.chain import may_be_billed
from ozzie_server_ext.models.driver import (
    MAX_DETAIL_CHARS,
    Finished,
    ModelChoice,
    ModelError,
    ModelRequest,
    Reasoning,
)
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.models.ledger import Reserved
from ozzie_server_ext.models.rates import RateSlot
from ozzie_server_ext.protocol.jsontext import canonical_bytes, parts_around
from ozzie_server_ext.store.shielded import shielded

MAX_ANSWER_CHARS = 1_000_000
WARN_SHARE = 0.8
"""From which used share of a budget on the turn shows a warning."""

EndIfLast: TypeAlias = Callable[[Finished, str], Awaitable[TaskSucceeded | None]]
"""Given an answer and its text: returns the event that ends the task if this is the last answer, else None."""


async def _is_not_last(answer: Finished, text: str) -> TaskSucceeded | None:
    return None


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


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call, and its reservation."""

    finished: Finished
    text: str
    reserved: Reserved


class ModelCaller:
    """Makes the model calls of one turn."""

    def __init__(self, context: TurnContext) -> None:
        self._context = context
        self._parts = context.parts
        self._recorder = context.recorder
        self.has_ended = False
        """Whether the end of the task was recorded with its last answer."""

    def start_event(
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
            config=self._context.plan.config_version,
            prompt=prompt,
            tools=tools,
            project=allowance.project,
            day=allowance.day,
            context=choice.context,
            max_output=choice.max_output,
        )

    async def make(
        self,
        request: ModelRequest,
        started: ModelCallStarted,
        allowance: Allowance,
        *,
        before: Callable[[], Iterable[EventBody]] = tuple,
        is_asked_again: Callable[[OzzieError], bool] = lambda error: False,
        end_if_last: EndIfLast = _is_not_last,
    ) -> ModelAnswer:
        """Make the call of `started` once budgets and rate limits have room for it. An answer to the user is streamed
        and recorded as a message; of a check or a summary, only the call is recorded.

        - `before`: returns events to record just before the call.
        - `is_asked_again`: whether the caller asks again after this failure. Then the partial answer is no message: it
          is dropped on the screens, and kept in the log with the failure.
        - `end_if_last`: returns the end of the task if this answer is its last. It is recorded together with the answer
          (`has_ended`), unless an update of the task came meanwhile, or a warning has to be shown before.

        Raises BudgetBreach if a budget has no room, what the model raises, or what a cancellation raises; the partial
        answer is recorded first.
        """
        choice = request.choice
        parts = request.to_parts()
        need = need_of(request, parts)

        def on_budget_wait() -> None:
            self._context.publish(
                "task.progress", {"step": "other turns hold the rest of the budget: waiting for them"}
            )

        def on_rate_wait() -> None:
            step = f'"{choice.label}" takes no more at once: waiting for a place'
            self._context.publish("task.progress", {"step": step})

        rates = self._context.plan.rates_of(choice)
        while True:
            async with (
                self._parts.ledger.reserve(allowance.budgets, need, waiting=on_budget_wait) as reserved,
                self._parts.rates.place(choice.provider, rates, need.read, waiting=on_rate_wait) as slot,
            ):
                if reserved.still_fits:
                    if reserved.written is not None:
                        request = replace(request, choice=replace(choice, max_tokens=reserved.written))
                        parts = request.to_parts()
                    request_blob = await self._parts.blobs.put_parts(parts, self._recorder.session_id, started.purpose)
                    del parts  # they may have megabytes, and the call takes minutes
                    started = msgspec.structs.replace(
                        started,
                        request_blob=request_blob,
                        reserved_cost=reserved.cost,
                        reserved_tokens=reserved.tokens,
                    )
                    return await self._send(request, started, reserved, slot, before, is_asked_again, end_if_last)
                slot.leave()  # the wait for a place was long, and others have spent the budget meanwhile

    async def _send(
        self,
        request: ModelRequest,
        started: ModelCallStarted,
        reserved: Reserved,
        slot: RateSlot,
        before: Callable[[], Iterable[EventBody]],
        is_asked_again: Callable[[OzzieError], bool],
        end_if_last: EndIfLast,
    ) -> ModelAnswer:
        """Record the start of the call and carry it out. Raises like `make`."""
        await self._begin(started, before())
        reserved.begun()
        reply = Reply(started.reply_id, self._parts.known_secrets())
        began, is_shown = self._parts.clock.monotonic(), started.purpose == "answer"
        call = _CallInProgress(request, reply, slot, reserved, is_shown, began, is_asked_again, end_if_last)
        finished = await self._call(call)
        return ModelAnswer(finished=finished, text=reply.text, reserved=reserved)

    async def priced(self, choice: ModelChoice, allowance: Allowance) -> ModelChoice:
        """Return the choice with its prices if a budget needs them. Raises ModelError if they can't be looked up, which
        differs from unknown prices."""
        if choice.prices is not None or all(budget.cost is None for budget in allowance.budgets):
            return choice
        try:
            return await self._context.plan.priced(choice)
        except Unavailable as error:
            raise model_error("worker.unavailable", choice, detail=str(error)) from error

    async def _begin(self, started: ModelCallStarted, before: Iterable[EventBody]) -> None:
        """Record the start of a call. If the turn is cancelled meanwhile, record that it was not sent."""
        try:
            await shielded(self._recorder.append(*before, started))
        except asyncio.CancelledError:
            who, code = ("Ozzie's gateway", INTERRUPTED) if self._parts.leaving() else ("The turn", "cancelled")
            why = f"{who} was stopped before it was sent."
            not_sent = ModelCallFailed(call_id=started.call_id, code=code, message=why, latency_ms=0.0, settled_cost=0)
            await shielded(self._recorder.append(not_sent))
            raise

    async def _call(self, call: "_CallInProgress") -> Finished:
        """Return the complete answer and record it; on a failure, record the partial one."""
        try:
            answer = await self._read(call)
        except asyncio.CancelledError:
            if self._parts.leaving():
                message = "Ozzie's gateway stopped in the middle of it."
                await shielded(self._record_failure(call, INTERRUPTED, message, finish=None))
            else:
                stopped = "The turn was stopped." if call.is_shown else "It took too long, or the turn was stopped."
                await shielded(self._record_failure(call, "cancelled", stopped, finish="cancelled"))
            raise
        except OzzieError as error:
            is_billed = call.reply.has_begun or may_be_billed(error)
            is_asked_again = call.is_asked_again(error)
            finish = None if is_asked_again else "failed"
            await shielded(
                self._record_failure(call, error.code, str(error), finish=finish, is_billed=is_billed, error=error)
            )
            if is_asked_again and call.is_shown:
                self._context.publish("reply.reset", {"reply_id": call.reply.reply_id})
            raise
        call.slot.settle(answer.usage.input_tokens + answer.usage.output_tokens)
        await shielded(self._complete(call, answer))  # it is paid for, even if the turn is cancelled now
        return answer

    async def _record_failure(
        self,
        call: "_CallInProgress",
        code: str,
        message: str,
        *,
        finish: Finish | None,
        is_billed: bool = True,
        error: OzzieError | None = None,
    ) -> None:
        """Record a failure and its partial answer. Without a `finish`, no message is recorded, since the call will be
        repeated. What was billed counts as all that was reserved. `error` is what the model raised, if anything."""
        reply, reserved = call.reply, call.reserved
        reply.close()
        partial = await self._kept(canonical_bytes({"text": reply.text}), reply.text) if reply.text else None
        failed = ModelCallFailed(
            call_id=call.request.call_id,
            code=code,
            message=message,
            latency_ms=self._since(call.began),
            partial_blob=partial,
            settled_cost=reserved.cost if is_billed else 0,
            settled_tokens=reserved.tokens if is_billed else 0,
            hint=error.hint if error else "",
            detail=error.detail[:MAX_DETAIL_CHARS] if isinstance(error, ModelError) else "",
            after_s=error.after_s if isinstance(error, ModelError) else None,
        )
        await self._recorder.append(failed, *(call.message(finish) if finish else ()))
        reserved.settle(failed.settled)

    async def _kept(self, answer: bytes, text: Json) -> BlobRef:
        """Store an answer. Its text is stored once for it and for the requests that quote it."""
        return await self._parts.blobs.put_parts(parts_around(answer, text), self._recorder.session_id)

    async def _complete(self, call: "_CallInProgress", answer: Finished) -> None:
        """Record the answer, together with the end of the task if it is the last one."""
        choice = call.request.choice
        completed = ModelCallCompleted(
            call_id=call.request.call_id,
            response_blob=await self._kept(self._without_keys(answer.response), answer.response["text"]),
            finish=answer.finish,
            tool_uses=answer.tool_uses,
            usage=answer.usage,
            cost=answer.cost,
            latency_ms=self._since(call.began),
            ttft_ms=answer.ttft_ms,
            alias=choice.alias,
            provider=choice.provider,
            model=choice.model,
        )
        spent = completed.settled(call.reserved.cost)
        facts = (completed, *call.message(answer.finish))
        warns = call.reserved.share_with(spent) >= WARN_SHARE  # the warning is shown between the answer and the end
        if warns or not await self._end_with(call, answer, facts):
            await self._recorder.append(*facts)
        call.reserved.settle(spent)

    async def _end_with(self, call: "_CallInProgress", answer: Finished, facts: Sequence[EventBody]) -> bool:
        """Record the facts together with the end of the task. Return False if this is not the last answer, or an update
        came; then nothing was recorded."""
        end = await call.end_if_last(answer, call.reply.text)
        if end is None:
            return False
        content = self._recorder.content
        try:
            await self._recorder.append_each([*((fact, content) for fact in facts), (end, CLEAN)])  # it has no text
        except UnreadUpdate:
            return False
        self.has_ended = True
        return True

    async def _read(self, call: "_CallInProgress") -> Finished:
        """Stream the answer to its end, adding its text to the reply."""
        name, reply = call.request.choice.label, call.reply
        answer: Finished | None = None
        async with aclosing(self._parts.models.generate(call.request)) as stream:
            async for event in stream:
                reply.has_begun = True
                if isinstance(event, Finished):
                    answer = event
                    continue
                if isinstance(event, Reasoning):
                    if call.is_shown:
                        self._context.publish("task.progress", {"step": "reasoning"})
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

    def _show(self, call: "_CallInProgress", offset: int, content: str) -> None:
        if content and call.is_shown:
            reply_id = call.reply.reply_id
            delta: JsonObject = {"reply_id": reply_id, "offset": offset, "phase": "delta", "content": content}
            self._context.publish("reply.delta", delta)

    def _since(self, began: float) -> float:
        return round((self._parts.clock.monotonic() - began) * 1000, 3)


class _CallInProgress(msgspec.Struct, frozen=True):
    """A call in progress. `is_shown`: its text is for the user. `began`: monotonic seconds. For `is_asked_again`
    and `end_if_last`, see `ModelCaller.make`."""

    request: ModelRequest
    reply: Reply
    slot: RateSlot
    reserved: Reserved
    is_shown: bool
    began: float
    is_asked_again: Callable[[OzzieError], bool]
    end_if_last: EndIfLast

    def message(self, finish: Finish) -> tuple[EventBody, ...]:
        return self.reply.ended(finish) if self.is_shown else ()
