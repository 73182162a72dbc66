"""THE loop: ask the model, carry out what it asks for, until it answers (AG-1).

Everything that the loop needs to know stands in the conversation, which is folded from the log; so the same code
begins a turn and goes on with one that a crash cut off.
"""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from ozzie_server_ext.agent.conversation import Conversation, Round
from ozzie_server_ext.agent.limits import LimitGuard, too_late
from ozzie_server_ext.agent.prompt import Prompt, SessionContext, compose
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    Finish,
    InjectedTool,
    Limits,
    MessageCompleted,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    ToolsetInjected,
    Transient,
)
from ozzie_server_ext.domain.ids import CallId, ReplyId
from ozzie_server_ext.models.driver import (
    ChatMessage,
    Finished,
    ModelChoice,
    ModelDriver,
    ModelRequest,
)
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.feed import Feed
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.broker import Place, ToolBroker
from ozzie_server_ext.tools.registry import ToolRegistry

MAX_ANSWER_CHARS = 1_000_000


class IncompleteAnswer(OzzieError):
    """The model ended its answer before it was whole."""

    code = "provider.incomplete"


class _Reply:
    """The text of one answer while it comes, in pieces: joining at each of them would cost the square of its length."""

    def __init__(self, reply_id: ReplyId) -> None:
        self.reply_id = reply_id
        self.length = 0
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def ended(self, finish: Finish) -> tuple[MessageCompleted, ...]:
        """The fact that keeps the text; none where nothing was said."""
        if not self._pieces:
            return ()
        return (MessageCompleted(reply_id=self.reply_id, text=self.text, finish=finish),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """What is settled before a turn begins: who answers, within which limits, and the versions that shaped it."""

    choice: ModelChoice
    limits: Limits
    max_history: int
    soul: str
    custom_prompt: str
    session_title: str
    config_version: str
    recovered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnParts:
    """What every turn works with."""

    models: ModelDriver
    registry: ToolRegistry
    broker: ToolBroker
    blobs: BlobStore
    feed: Feed
    clock: Clock
    ids: IdSource


class Turn:
    """One run of one turn."""

    def __init__(
        self,
        parts: TurnParts,
        plan: TurnPlan,
        conversation: Conversation,
        recorder: Recorder,
        context: ToolContext,
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """`leaving` says, of a turn that is cancelled, whether it goes on at the next start."""
        self._leaving = leaving
        self._parts = parts
        self._plan = plan
        self._conversation = conversation
        self._recorder = recorder
        self._context = context
        self._offered = parts.registry.all() if plan.choice.takes_tools else ()
        self._tools = tuple(tool.spec for tool in self._offered)

    async def run(self) -> int:
        """Go on until the model has answered; returns how many rounds that took.

        Raises ModelError, LimitExceeded, IncompleteAnswer, or what a cancellation raises; what had come is recorded.
        """
        deadline_s = self._plan.limits.deadline_s
        # The guard looks between two rounds only; this ends an answer that never comes to its end.
        limit = asyncio.timeout(deadline_s)
        try:
            async with limit:
                return await self._run()
        except TimeoutError:
            if deadline_s is None or not limit.expired():
                raise
            raise too_late(deadline_s) from None

    async def _run(self) -> int:
        guard = LimitGuard(self._plan.limits, self._parts.clock.monotonic())
        while True:
            last = self._conversation.last_round(self._recorder.task_id)
            if last is not None:
                _check_whole(last, self._plan.choice.alias)
                if not last.uses:
                    return last.number
            if last is not None and last.open_uses():
                guard.check_uses(last.uses)
                await self._carry_out(last)
            number = last.number + 1 if last else 1
            guard.check_round(number, self._parts.clock.monotonic())
            await self._ask(number)

    async def _carry_out(self, asked: Round) -> None:
        # All tools that run today only read, so a round's calls may run side by side; effects will come one a round.
        try:
            async with asyncio.TaskGroup() as group:
                for index, use in asked.open_uses():
                    place = Place(asked.number, index)
                    group.create_task(self._parts.broker.call(use, place, self._context, self._recorder))
        except ExceptionGroup as failures:
            # The broker records what a tool does wrong; what comes here is the log itself failing, once for each call.
            raise failures.exceptions[0] from None

    async def _ask(self, number: int) -> None:
        """One request to the model, its answer streamed to the feed and recorded whole."""
        parts, plan = self._parts, self._plan
        prompt = self._prompt()
        history = self._conversation.messages(plan.max_history, self._recorder.task_id)
        call_id, reply_id = CallId(parts.ids.new()), ReplyId(parts.ids.new())
        request = ModelRequest(
            call_id=call_id,
            choice=plan.choice,
            messages=(ChatMessage(role="system", content=prompt.text), *history),
            tools=self._tools,
        )
        started = ModelCallStarted(
            call_id=call_id,
            reply_id=reply_id,
            round=number,
            alias=plan.choice.alias,
            provider=plan.choice.provider,
            model=plan.choice.model,
            request_blob=await parts.blobs.put(canonical_bytes(request.to_json())),
            config=plan.config_version,
            prompt=prompt.version,
            tools=_toolset_version(injected := self._injected()),
        )
        await self._recorder.append(*([injected] if number == 1 else []), started)
        began = parts.clock.monotonic()
        reply = _Reply(reply_id)

        async def broken(finish: Finish | None, code: str, message: str) -> None:
            """Without a `finish`, nothing was answered: the whole answer comes anew."""
            partial = await parts.blobs.put(canonical_bytes({"text": reply.text})) if reply.text else None
            latency_ms = self._since(began)
            failed = ModelCallFailed(
                call_id=call_id, code=code, message=message, latency_ms=latency_ms, partial_blob=partial
            )
            await self._recorder.append(failed, *(reply.ended(finish) if finish else ()))

        try:
            answer = await self._read(request, reply)
        except asyncio.CancelledError:
            if self._leaving():
                await broken(None, INTERRUPTED, "Ozzie's gateway stopped in the middle of it.")
            else:
                await broken("cancelled", "cancelled", "The turn was stopped.")
            raise
        except OzzieError as error:
            await broken("failed", error.code, str(error))
            raise
        await self._recorder.append(await self._completed(call_id, answer, began), *reply.ended(answer.finish))

    async def _read(self, request: ModelRequest, reply: "_Reply") -> Finished:
        """The answer to its end, its text shown as it comes and gathered in `reply`."""
        alias = request.choice.alias
        answer: Finished | None = None
        async with aclosing(self._parts.models.generate(request)) as stream:
            async for event in stream:
                if isinstance(event, Finished):
                    answer = event
                    continue
                self._publish(reply.reply_id, reply.length, event.text)
                reply.add(event.text)
                if reply.length > MAX_ANSWER_CHARS:
                    raise IncompleteAnswer(
                        f'"{alias}" wrote more than {MAX_ANSWER_CHARS:,} characters without coming to an end.',
                        hint="What came is kept. Ask for less at once, or choose another model with %model.",
                        code="provider.endless",
                    )
        if answer is None:
            raise IncompleteAnswer(f'"{alias}" ended without finishing its answer.', hint="Run the cell again.")
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

    def _prompt(self) -> Prompt:
        return compose(
            soul=self._plan.soul,
            custom=self._plan.custom_prompt,
            tools=self._tools,
            session=SessionContext(
                title=self._plan.session_title,
                goes_on=self._conversation.goes_on(self._recorder.task_id),
                recovered=self._plan.recovered,
            ),
        )

    def _injected(self) -> ToolsetInjected:
        metas = [tool.meta for tool in self._offered]
        return ToolsetInjected(
            tools=tuple(InjectedTool(tool_id=meta.tool_id, name=meta.name, version=meta.version) for meta in metas)
        )

    def _publish(self, reply_id: ReplyId, offset: int, content: str) -> None:
        self._parts.feed.publish(
            Transient(
                type="reply.delta",
                session_id=self._recorder.session_id,
                task_id=self._recorder.task_id,
                payload={"reply_id": reply_id, "offset": offset, "phase": "delta", "content": content},
            )
        )

    def _since(self, began: float) -> float:
        return round((self._parts.clock.monotonic() - began) * 1000, 3)


def _toolset_version(injected: ToolsetInjected) -> str:
    """One hash for the set of tools on offer, as `model.call.started` records it."""
    return hashlib.sha256(canonical_bytes([[tool.tool_id, tool.version] for tool in injected.tools])).hexdigest()[:16]


def _check_whole(answer: Round, alias: str) -> None:
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
        raise IncompleteAnswer(
            f'"{alias}" answered nothing.',
            hint="Run the cell again, or choose another model with %model. Your message is kept.",
            code="provider.empty",
        )
