"""One round's request to a model: asked along the chain until somebody answers, streamed, and recorded (MD-4)."""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import aclosing
from typing import Literal

from ozzie_server_ext.agent.answer import MAX_ANSWER_CHARS, IncompleteAnswer, Reply, empty_answer
from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.plan import TurnParts, TurnPlan
from ozzie_server_ext.agent.prompt import Prompt, SessionContext, compose
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    INTERRUPTED,
    Finish,
    InjectedTool,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    ToolsetInjected,
    Transient,
)
from ozzie_server_ext.domain.ids import CallId, ReplyId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.models.attempts import Attempt, Attempts
from ozzie_server_ext.models.driver import ChatMessage, Finished, ModelRequest, Reasoning
from ozzie_server_ext.models.rates import Place
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import Tool

CHARACTERS_A_TOKEN = 4
"""A rough count for what has to be known before a provider counts: English prose has about so many, code fewer."""


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

    async def ask(self, number: int) -> None:
        """Have round `number` answered. When this returns, the answer is recorded, whole or not.

        Raises ModelError or IncompleteAnswer, after whose failure nobody else could be asked, or what a cancellation
        raises; what had come is recorded then, too.
        """
        plan = self._plan
        attempts = Attempts(plan.chain, plan.retry, self._parts.health)
        attempt: Attempt | None = attempts.first()
        while attempt is not None:
            if attempt.why:
                self._publish("task.progress", {"step": attempt.why})
            if attempt.wait_s:
                await asyncio.sleep(attempt.wait_s)
            try:
                await self._attempt(number, attempt)
            except OzzieError as error:
                attempt = attempts.after(error)
                if attempt is None:
                    raise attempts.outcome(error) from None
            else:
                attempts.answered()
                attempt = self._instead_of_nothing(attempts, attempt)

    def _instead_of_nothing(self, attempts: Attempts, attempt: Attempt) -> Attempt | None:
        """Whom to ask where the answer has nothing in it. It is a whole answer all the same, and recorded as one."""
        last = self._conversation.last_round(self._recorder.task_id)
        if last is None or last.text or last.uses or last.finish != "stop":
            return None
        return attempts.after(empty_answer(attempt.choice.said))

    async def _attempt(self, number: int, attempt: Attempt) -> None:
        choice = attempt.choice
        tools = self._parts.registry.all() if choice.takes_tools else ()
        prompt = self._prompt(tools)
        history = self._conversation.messages(self._plan.max_history, self._recorder.task_id)
        request = ModelRequest(
            call_id=CallId(self._parts.ids.new()),
            choice=choice,
            messages=(ChatMessage(role="system", content=prompt.text), *history),
            tools=tuple(tool.spec for tool in tools),
        )
        document = canonical_bytes(request.to_json())

        def tell() -> None:
            self._publish("task.progress", {"step": f'"{choice.said}" takes no more at once: waiting for a place'})

        tokens = len(document) // CHARACTERS_A_TOKEN
        async with self._parts.rates.place(choice.provider, self._plan.rates_of(choice), tokens, waiting=tell) as place:
            injected = _injected(tools)
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
                tools=_toolset_version(injected),
                attempt=attempt.number,
                instead_of=attempt.instead_of,
            )
            # Told once, and again where somebody is asked who takes other tools, or none.
            is_new = started.tools != self._offered and (number == 1 or bool(self._offered))
            self._offered = started.tools
            await self._recorder.append(*([injected] if is_new else []), started)
            await self._call(request, Reply(started.reply_id), place)

    async def _call(self, request: ModelRequest, reply: Reply, place: Place) -> None:
        """The answer streamed to the feed and recorded whole; what had come of one that is not."""
        parts = self._parts
        began = parts.clock.monotonic()

        async def broken(finish: Finish | None, code: str, message: str) -> None:
            """Without a `finish`, nothing was answered: the whole answer comes anew."""
            partial = await parts.blobs.put(canonical_bytes({"text": reply.text})) if reply.text else None
            failed = ModelCallFailed(
                call_id=request.call_id, code=code, message=message, latency_ms=self._since(began), partial_blob=partial
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
        place.settle(answer.usage.input_tokens + answer.usage.output_tokens)
        completed = await self._completed(request.call_id, answer, began)
        await self._recorder.append(completed, *reply.ended(answer.finish))

    async def _read(self, request: ModelRequest, reply: Reply) -> Finished:
        """The answer to its end, its text shown as it comes and gathered in `reply`."""
        name = request.choice.said
        answer: Finished | None = None
        async with aclosing(self._parts.models.generate(request)) as stream:
            async for event in stream:
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

    def _prompt(self, tools: tuple[Tool, ...]) -> Prompt:
        return compose(
            soul=self._plan.soul,
            custom=self._plan.custom_prompt,
            tools=[tool.spec for tool in tools],
            session=SessionContext(
                title=self._plan.session_title,
                goes_on=self._conversation.goes_on(self._recorder.task_id),
                recovered=self._plan.recovered,
            ),
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


def _injected(tools: tuple[Tool, ...]) -> ToolsetInjected:
    return ToolsetInjected(
        tools=tuple(
            InjectedTool(tool_id=tool.meta.tool_id, name=tool.meta.name, version=tool.meta.version) for tool in tools
        )
    )


def _toolset_version(injected: ToolsetInjected) -> str:
    """One hash for the set of tools on offer, as `model.call.started` records it."""
    return hashlib.sha256(canonical_bytes([[tool.tool_id, tool.version] for tool in injected.tools])).hexdigest()[:16]
