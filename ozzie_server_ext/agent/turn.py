"""The loop: call the model and carry out its tool calls, until an answer has none.

The loop's state is in the conversation (`agent/conversation.py`), which is folded from the log; a `Round`
(`agent/rounds.py`) is one answer with its calls. So the same code starts a turn and resumes it after a crash; only the
count of repeated calls starts again. The conversation has folded an event when `append` returns: what a step of the
loop did is read from it afterwards.
"""

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import TypeAlias

import msgspec

from ozzie_server_ext.agent.checking import CHANGING, CallChecker, Opinion, refused_unattended
from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.model_call import ModelCaller
from ozzie_server_ext.agent.plan import TurnContext, TurnParts, TurnPlan
from ozzie_server_ext.agent.questions import ask_limit_question, time_overrun, uncertain_question
from ozzie_server_ext.agent.reads import passages_of, reads_of
from ozzie_server_ext.agent.requests import TurnToolbox
from ozzie_server_ext.agent.result_summaries import ResultSummaries
from ozzie_server_ext.agent.round_runner import RoundRunner, expect_usable
from ozzie_server_ext.agent.rounds import LimitGuard, OutOfTime, Round
from ozzie_server_ext.agent.structured_output import MAX_REJECTED, UnfitAnswer, unfit_answer
from ozzie_server_ext.agent.summarizing import Summarizer
from ozzie_server_ext.domain.approvals import MOST_ASKS, AuthStrength, weakest_way
from ozzie_server_ext.domain.content import CLEAN
from ozzie_server_ext.domain.events import (
    ApprovalGranted,
    ApprovalRequested,
    EventBody,
    MessageRejected,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolUse,
)
from ozzie_server_ext.domain.ids import PromptId
from ozzie_server_ext.domain.tasks import TaskHeld
from ozzie_server_ext.models.ledger import BudgetBreach
from ozzie_server_ext.policy.decision import Action
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import ToolContext, ToolFailed, ToolUncertain, uncertain
from ozzie_server_ext.tools.broker import AnswerNeeded, Begun, CallPosition
from ozzie_server_ext.tools.origins import Passage

_MOST_CHECKS = 3
"""Checks of one call that changes each time before it can be made."""
_NOT_ASKED = "No model was asked. Correct what the message names, or take it out, and run it again."
_Placed: TypeAlias = tuple[int, ToolUse]
"""A call of an answer, with its place there."""


class Turn:
    """Carries one turn on, from wherever the log ends, until it has an answer, waits for a person or is paused."""

    def __init__(
        self,
        parts: TurnParts,
        plan: TurnPlan,
        conversation: Conversation,
        recorder: Recorder,
        context: ToolContext,
    ) -> None:
        """Raises InputError if a pinned tool does not exist."""
        toolbox = TurnToolbox(parts.index, plan.offers, conversation, recorder.task_id)
        toolbox.expect_pinned()
        before = recorder
        # Events also bear what the descriptions of the offered tools were made from.
        recorder = msgspec.structs.replace(recorder, content_now=lambda: before.content | toolbox.content)
        self._parts = parts
        self._plan = plan
        self._conversation = conversation
        self._recorder = recorder
        self._tool_context = msgspec.structs.replace(context, toolbox=toolbox)
        self._running_calls = 0
        shared = TurnContext(parts, plan, conversation, recorder)
        caller = ModelCaller(shared)
        self._caller = caller
        self._round_runner = RoundRunner(shared, caller, toolbox)
        self._checker = CallChecker(shared, caller)
        self._summaries = ResultSummaries(shared, Summarizer(shared, caller), self._tool_context.artifacts)

    @property
    def is_idle(self) -> bool:
        """Whether it only waits for delegated tasks."""
        return 0 < self._running_calls == self._tool_context.delegates.waiting

    @property
    def _last_round(self) -> Round | None:
        return self._conversation.last_round(self._recorder.task_id)

    async def run(self) -> int:
        """Run until the model has answered; return the number of rounds.

        Raises TaskHeld if the turn waits for a person or is paused, ModelError, LimitExceeded, IncompleteAnswer,
        UnfitAnswer, ToolFailed from a call that the task was created with, ToolUncertain if nobody is there to ask, or
        what a cancellation raises; partial results are recorded.
        """
        try:
            return await self._in_time()
        except ToolUncertain as error:
            if not self._plan.attended:
                raise
            await self._recorder.append(*uncertain_question(PromptId(self._parts.ids.new()), str(error)))
            raise TaskHeld from None

    async def _in_time(self) -> int:
        deadline = self._plan.deadline
        try:
            async with deadline.within() if deadline else nullcontext():
                return await self._run()
        except BudgetBreach as error:
            breach = error.breach
        except OutOfTime:
            assert deadline is not None, "nothing else raises it"
            last = self._last_round
            if last is not None and self._caller.has_ended:
                return last.number
            if last is not None and last.unresolved:  # more time would not resolve an uncertain call
                raise uncertain(", ".join(last.unresolved.values())) from None
            breach = time_overrun(deadline.budget, deadline.limit_s)
        return await self._round_runner.end(breach)  # outside of `deadline.within`, which must not cut it off

    async def _run(self) -> int:
        """Return once the last round is the turn's end (without calls, and fit for the schema), or its answer was
        recorded together with the end of the task. Until then, finish the last round, by making its open calls, and ask
        the model for the next one."""
        guard = LimitGuard(self._plan.limits)
        before = self._last_round
        if before is not None and before.unresolved:  # a retry, but nobody has resolved these calls
            raise uncertain(", ".join(before.unresolved.values()))
        await self._plan.pause_if_requested()
        if before is not None and before.goes_on:
            await self._make_first_calls(before)
        elif before is not None and before.is_given:
            return await self._make_given_call(before)
        while True:
            number, why = 1, ""
            if (last := self._last_round) is not None:
                expect_usable(last, self._round_runner.alias)
                is_answer = not last.uses and await self._fits(last)
                if is_answer and not self._conversation.has_new_updates(self._recorder.task_id):
                    return last.number
                if last.open_uses():
                    guard.expect_uses(last.uses)
                    await self._carry_out(last)
                await self._summaries.write(last)
                number = last.number + 1
                why = "its answer did not fit the schema: asking again" if last.problem else ""
            guard.expect_round(number)
            await self._plan.pause_if_requested()
            await self._round_runner.run(number, why)  # its answer is `_last_round` now
            if self._caller.has_ended:
                return number
            await self._plan.pause_if_requested()

    async def _make_first_calls(self, given: Round) -> None:
        """Make the calls of the turn's message. Raises ToolFailed if one failed: a message is not answered without what
        it names."""
        if given.open_uses():
            await self._carry_out(given)
        if given.failures:
            raise ToolFailed(" ".join(given.failures.values()), hint=_NOT_ASKED, code="message.mention")

    async def _make_given_call(self, given: Round) -> int:
        """Make the one call that the task was created with. Raises ToolFailed if it failed."""
        if given.open_uses():
            await self._carry_out(given)
        if given.failures:
            raise ToolFailed(" ".join(given.failures.values()))
        return given.number

    async def _fits(self, answer: Round) -> bool:
        """Whether the answer fits the schema, if there is one. Otherwise record the problem; raise UnfitAnswer after
        too many tries."""
        schema = self._conversation.schema(self._recorder.task_id)
        if schema is None:
            return True
        problem = answer.problem
        if not problem:
            assert answer.reply_id is not None, "an answer with a text has a reply"
            try:
                problem = await self._parts.find_misfit(schema, answer.text)
            except UnfitAnswer as error:
                await self._recorder.append(MessageRejected(reply_id=answer.reply_id, problem=str(error)))
                raise
            if not problem:
                return True
            await self._recorder.append(MessageRejected(reply_id=answer.reply_id, problem=problem))
        tries = self._conversation.rejected(self._recorder.task_id)
        if tries > MAX_REJECTED or answer.number >= self._plan.limits.max_rounds:
            raise unfit_answer(self._round_runner.alias, problem, tries)
        return False

    async def _carry_out(self, last: Round) -> None:
        """Make the open calls: read-only ones in parallel, up to the first with an effect; then that one. Refuse
        the calls behind it, which the model may repeat once it has seen the result; but if it waits for a person, calls
        of the same tool among them are asked for with it, and made after it (docs/adr/0074-alike-calls.md)."""
        reads, change, behind = self._in_order(last)
        await self._make_reads(last, reads)
        if change is not None:
            await self._make_or_wait(last, *change, alike=[each for each in behind if each[1].name == change[1].name])
        for at, (index, use) in enumerate(behind):
            if use.use_id in last.asked:
                alike = [each for each in behind[at + 1 :] if each[1].use_id in last.asked]
                await self._make_or_wait(last, index, use, alike=alike)
            else:
                await self._parts.broker.put_off(use, CallPosition(last.number, index), self._led_to_by(last))

    def _in_order(self, last: Round) -> tuple[list[_Placed], _Placed | None, list[_Placed]]:
        """Return the open ones of the calls that only read and stand before the first with an effect, that one unless
        it is made, and the open ones behind it."""
        still_open = [*last.open_uses()]
        changes = (at for at, use in enumerate(last.uses) if not self._parts.registry.only_reads(use.name))
        first = next(changes, len(last.uses))
        reads = [each for each in still_open if each[0] < first]
        change = next((each for each in still_open if each[0] == first), None)
        return reads, change, [each for each in still_open if each[0] > first]

    async def _make_reads(self, last: Round, reads: Sequence[_Placed]) -> None:
        """Make calls that only read side by side, and wait for a person if one of them needs that."""
        parallel = asyncio.Semaphore(1 if self._plan.brief.one_by_one else max(len(reads), 1))

        async def make(index: int, use: ToolUse) -> AnswerNeeded | None:
            async with parallel:
                return await self._call(last, index, use)

        try:
            async with asyncio.TaskGroup() as group:
                calls = [group.create_task(make(*each)) for each in reads]
        except ExceptionGroup as failures:
            # The broker records failures of tools, so this is a failure of the log, once for each call.
            raise failures.exceptions[0] from None
        checked = [await self._check(last, *each, call.result()) for each, call in zip(reads, calls, strict=True)]
        await self._wait_for_person(last, [asks for asks in checked if asks is not None])

    async def _make_or_wait(self, last: Round, index: int, use: ToolUse, alike: Iterable[tuple[int, ToolUse]]) -> None:
        """Make a call, or wait for a person who is asked for it and for those of the calls `alike` that need one, too:
        as many as the turn may ask for."""
        asks = await self._check(last, index, use, await self._call(last, index, use))
        if asks is None:
            return
        asking = [asks]
        for each in alike:
            if len(asking) + self._conversation.asks(self._recorder.task_id) >= MOST_ASKS:
                break
            also = await self._call(last, *each, only_ask=True)
            wanted = None if also is None else also.request
            if also and isinstance(wanted, ApprovalRequested) and wanted.needs is not AuthStrength.MODEL:
                asking.append(also)
        await self._wait_for_person(last, asking)

    async def _call(self, last: Round, index: int, use: ToolUse, *, only_ask: bool = False) -> AnswerNeeded | None:
        """See `ToolBroker.call`."""
        position, earlier = CallPosition(last.number, index), last.earlier.get(use.use_id)
        begun = None
        if use.use_id in last.begun:
            begun = Begun(effect=last.begun[use.use_id], in_doubt=use.use_id in last.to_repeat)
        # Parallel calls don't know of each other, so each counts all outbound calls before it as followed links.
        going_out = sum(self._parts.registry.is_outbound(before.name) for before in last.uses[:index])
        tool = self._parts.registry.find(use.name)
        # A model that was not offered the tool learns about it from the errors of the call.
        content = last.reading.content | (tool.meta.told_by if tool else CLEAN)
        reading = self._conversation.reading_of(last, content, going_out)
        reading = msgspec.structs.replace(reading, reads=self._reads)
        context = msgspec.structs.replace(
            self._tool_context, reading=reading, passages=self._passages, by_message=last.goes_on
        )
        self._running_calls += 1
        try:
            recorder = self._led_to_by(last)
            return await self._parts.broker.call(use, position, context, recorder, earlier, begun, only_ask=only_ask)
        finally:
            self._running_calls -= 1

    def _passages(self) -> list[Passage]:
        """Return what the model has read, as texts."""
        return passages_of(self._conversation.read_by(self._recorder.task_id), self._conversation.summary)

    def _reads(self) -> Iterator[Action | None]:
        """See `reads_of`."""
        entries, summary = self._conversation.read_by(self._recorder.task_id), self._conversation.summary
        return reads_of(entries, summary, self._parts.registry.meta)

    def _led_to_by(self, last: Round) -> Recorder:
        """Return the recorder for calls that this answer led to."""
        return self._recorder.caused_by(last.event_id)

    async def _check(self, last: Round, index: int, use: ToolUse, asks: AnswerNeeded | None) -> AnswerNeeded | None:
        """Have a second model check a call if that is enough for its approval. Return the request for a person, or None
        if the call was made or refused. After a yes the call is made at once, exactly as approved; if it has changed
        since, it is checked again."""
        for count in itertools.count():
            wanted = None if asks is None else asks.request
            if asks is None or not isinstance(wanted, ApprovalRequested) or wanted.needs is not AuthStrength.MODEL:
                return asks
            opinion = await self._checker.check(wanted, last.number) if count < _MOST_CHECKS else CHANGING
            if opinion.verdict != "yes":
                return await self._not_by_model(last, asks.unrecorded, wanted, opinion, use)
            yes = ApprovalGranted(approval_id=wanted.approval_id, extent="once", by=opinion.by, way=AuthStrength.MODEL)
            await self._led_to_by(last).append(*asks.facts, yes)  # `last.earlier` has it now
            asks = await self._call(last, index, use)
        raise AssertionError("an endless loop ended")

    async def _not_by_model(
        self, last: Round, before: tuple[EventBody, ...], wanted: ApprovalRequested, opinion: Opinion, use: ToolUse
    ) -> AnswerNeeded | None:
        """Return the request for a person after a second model did not say yes. If nobody is there, refuse the call and
        return None."""
        tool = self._parts.registry.find(use.name)
        if self._plan.attended:
            needs = weakest_way(tool.meta) if tool else AuthStrength.CLI
            return AnswerNeeded(msgspec.structs.replace(wanted, needs=needs, checked=opinion.sentence), before)
        await self._led_to_by(last).append(*before, *refused_unattended(wanted, opinion))
        return None

    async def _wait_for_person(self, last: Round, asking: list[AnswerNeeded]) -> None:
        """If calls need a person, record the first requests and raise TaskHeld: all approvals together, then the
        model's own questions one by one. The others are not recorded yet.

        This `Turn` ends here. With the last answer, `tasks.approvals` (for a question `tasks.answers`) records
        `task.resumed`, and the driver queues the task again; a new `Turn` then makes the calls that are still open. A
        yes counts if it is recent and the plan is the same; one for the session, if it covers the call.
        """
        if asking:
            await self._led_to_by(last).append(*self._first_requests(asking))
            raise TaskHeld

    def _first_requests(self, asking: list[AnswerNeeded]) -> tuple[EventBody, ...]:
        """Return the requests to record now, or the question whether the turn may ask more often."""
        room = MOST_ASKS - self._conversation.asks(self._recorder.task_id)
        if room <= 0:
            return ask_limit_question(PromptId(self._parts.ids.new()))
        approvals = [asks for asks in asking if isinstance(asks.request, ApprovalRequested)]
        chosen = approvals[:room] or asking[:1]
        first, facts = chosen[0].request, [fact for asks in chosen for fact in asks.facts]
        if isinstance(first, ApprovalRequested):
            return (*facts, TaskWaitingApproval(approval_id=first.approval_id))
        return (*facts, TaskWaitingInput(question=first.question))
