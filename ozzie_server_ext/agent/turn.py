"""THE loop: ask the model, carry out what it asks for, until it answers.

Everything that the loop needs to know stands in the conversation, which is folded from the log; so the same code
begins a turn and goes on with one that a crash cut off.
"""

import asyncio
import itertools
from contextlib import nullcontext
from dataclasses import replace

import msgspec

from ozzie_server_ext.agent.checking import CHANGING, Checking, Opinion, unattended
from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.model_call import Asking, Calling, check_whole
from ozzie_server_ext.agent.plan import TurnParts, TurnPlan
from ozzie_server_ext.agent.questions import doubt, too_late
from ozzie_server_ext.agent.requests import TurnToolbox
from ozzie_server_ext.agent.rounds import LimitGuard, OutOfTime, Round, many_asks
from ozzie_server_ext.agent.structured_output import MAX_REJECTED, UnfitAnswer, find_misfit, unfit_answer
from ozzie_server_ext.domain.approvals import MOST_ASKS, AuthStrength, weakest_way
from ozzie_server_ext.domain.content import CLEAN
from ozzie_server_ext.domain.events import (
    ApprovalGranted,
    ApprovalRequested,
    EventBody,
    MessageRejected,
    PromptRequested,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolUse,
)
from ozzie_server_ext.domain.ids import PromptId
from ozzie_server_ext.domain.tasks import TurnHeld
from ozzie_server_ext.models.ledger import BudgetBreach
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import ToolContext, ToolFailed, ToolUncertain, uncertain
from ozzie_server_ext.tools.broker import Begun, CallPosition

_MOST_CHECKS = 3
"""Of one call that is another one each time by when it may be made."""
_ANEW = "its answer did not fit the schema: asking again"


class Turn:
    """One run of one turn."""

    def __init__(
        self,
        parts: TurnParts,
        plan: TurnPlan,
        conversation: Conversation,
        recorder: Recorder,
        context: ToolContext,
    ) -> None:
        """Raises InputError where a pinned tool is not there."""
        toolbox = TurnToolbox(parts.index, plan.offers, conversation, recorder.task_id)
        read, _ = recorder.read, toolbox.tools
        recorder = msgspec.structs.replace(recorder, read=lambda: read() | toolbox.told)
        self._parts = parts
        self._plan = plan
        self._conversation = conversation
        self._recorder = recorder
        self._context = msgspec.structs.replace(context, toolbox=toolbox)
        self._calls = 0
        calling = Calling(parts, plan, recorder)
        self._asking = Asking(parts, plan, conversation, recorder, calling, toolbox)
        self._checking = Checking(parts, plan, conversation, recorder, calling)

    @property
    def rests(self) -> bool:
        """Whether all that it does is to wait for what it has handed over."""
        return 0 < self._calls == self._context.delegates.waiting

    async def run(self) -> int:
        """Go on until the model has answered; returns how many rounds that took.

        Raises TurnHeld where the turn waits for an answer, ModelError, LimitExceeded, IncompleteAnswer, ToolUncertain
        where nobody is there to be asked, or what a cancellation raises; what had come is recorded.
        """
        try:
            return await self._in_time()
        except ToolUncertain as error:
            if not self._plan.attended:
                raise
            await self._recorder.append(*doubt(PromptId(self._parts.ids.new()), str(error)))
            raise TurnHeld from None

    async def _in_time(self) -> int:
        deadline = self._plan.deadline
        try:
            async with deadline.within() if deadline else nullcontext():
                return await self._run()
        except BudgetBreach as error:
            breach = error.breach
        except OutOfTime:
            assert deadline is not None, "nothing else raises it"
            last = self._conversation.last_round(self._recorder.task_id)
            if last is not None and last.unknown:  # more time would not tell what was done in that moment
                raise uncertain(", ".join(last.unknown.values())) from None
            breach = too_late(deadline.budget, deadline.limit_s)
        return await self._asking.end(breach)  # behind the deadline, which may not cut off what it says

    async def _run(self) -> int:
        guard = LimitGuard(self._plan.limits)
        before = self._conversation.last_round(self._recorder.task_id)
        if before is not None and before.unknown:  # it is tried again, and nobody has said what became of these
            raise uncertain(", ".join(before.unknown.values()))
        while True:
            await self._plan.pause()
            last = self._conversation.last_round(self._recorder.task_id)
            if last is not None and last.is_given:
                return await self._give(last)
            if last is not None:
                check_whole(last, self._asking.alias)
                is_last = not last.uses and await self._fits(last)
                if is_last and not self._conversation.has_news(self._recorder.task_id):
                    return last.number
            if last is not None and last.open_uses():
                guard.check_uses(last.uses)
                await self._carry_out(last)
            number = last.number + 1 if last else 1
            guard.check_round(number)
            await self._plan.pause()
            await self._asking.ask(number, why=_ANEW if last and last.problem else "")

    async def _give(self, given: Round) -> int:
        """Make the one call that the task was created with. Raises ToolFailed where it gave nothing."""
        if given.open_uses():
            await self._carry_out(given)
        if given.failures:
            raise ToolFailed(" ".join(given.failures.values()))
        return given.number

    async def _fits(self, answer: Round) -> bool:
        """Whether the answer has the shape that was asked for; where it has not, that is recorded. Raises UnfitAnswer
        where no other may be asked for."""
        schema = self._conversation.schema(self._recorder.task_id)
        if schema is None:
            return True
        problem = answer.problem
        if not problem:
            assert answer.reply_id is not None, "what has a text has a reply"
            try:
                problem = await find_misfit(schema, answer.text)
            except UnfitAnswer as error:
                await self._recorder.append(MessageRejected(reply_id=answer.reply_id, problem=str(error)))
                raise
            if not problem:
                return True
            await self._recorder.append(MessageRejected(reply_id=answer.reply_id, problem=problem))
        tries = self._conversation.rejected(self._recorder.task_id)
        if tries > MAX_REJECTED or answer.number >= self._plan.limits.max_rounds:
            raise unfit_answer(self._asking.alias, problem, tries)
        return False

    async def _carry_out(self, asked: Round) -> None:
        """What only reads runs side by side, up to the first call that changes something; then that one; what the model
        asked for behind it is put off, until it has seen what came of the change."""
        reading: list[tuple[int, ToolUse]] = []
        behind: list[tuple[int, ToolUse]] = []
        change: tuple[int, ToolUse] | None = None
        for index, use in enumerate(asked.uses):
            if change is not None:
                behind.append((index, use))
            elif self._parts.registry.only_reads(use.name):
                reading.append((index, use))
            else:
                change = (index, use)
        still_open = {index for index, _ in asked.open_uses()}
        made = [each for each in reading if each[0] in still_open]
        try:
            async with asyncio.TaskGroup() as group:
                beside = asyncio.Semaphore(1 if self._plan.brief.one_by_one else max(len(made), 1))
                calls = [group.create_task(self._call_within(beside, asked, *each)) for each in made]
        except ExceptionGroup as failures:
            # The broker records what a tool does wrong; what comes here is the log itself failing, once for each call.
            raise failures.exceptions[0] from None
        checked = [await self._checked(asked, *each, call.result()) for each, call in zip(made, calls, strict=True)]
        await self._hold([facts for facts in checked if facts])
        if change is not None and change[0] in still_open:
            facts = await self._checked(asked, *change, await self._call(asked, *change))
            await self._hold([facts] if facts else [])
        for index, use in behind:
            if index in still_open:
                await self._parts.broker.put_off(use, CallPosition(asked.number, index), self._recorder)

    async def _call_within(
        self, beside: asyncio.Semaphore, asked: Round, index: int, use: ToolUse
    ) -> tuple[EventBody, ...]:
        async with beside:
            return await self._call(asked, index, use)

    async def _call(self, asked: Round, index: int, use: ToolUse) -> tuple[EventBody, ...]:
        place, earlier = CallPosition(asked.number, index), asked.earlier.get(use.call_id)
        begun = None
        if use.call_id in asked.begun:
            begun = Begun(effect=asked.begun[use.call_id], in_doubt=use.call_id in asked.in_doubt)
        # Side by side, the calls of a round do not know of each other, and each may follow a link.
        going_out = sum(self._parts.registry.is_outbound(before.name) for before in asked.uses[:index])
        tool = self._parts.registry.find(use.name)
        # Whoever was not offered it knows its name alone, and is told more of it by what is wrong with the call.
        content = asked.reading.content | (tool.meta.told_by if tool else CLEAN)
        reading = replace(asked.reading, content=content, followed=asked.reading.followed + going_out)
        context = msgspec.structs.replace(self._context, reading=reading)
        self._calls += 1
        try:
            return await self._parts.broker.call(use, place, context, self._recorder, earlier, begun)
        finally:
            self._calls -= 1

    async def _checked(
        self, asked: Round, index: int, use: ToolUse, facts: tuple[EventBody, ...]
    ) -> tuple[EventBody, ...]:
        """What a person is to be asked for the call; nothing where a second model was enough, and the call was made or
        refused. What it says yes to is made at once, bound to exactly that, or checked anew."""
        for count in itertools.count():
            wanted = facts[-1] if facts else None
            if not isinstance(wanted, ApprovalRequested) or wanted.needs is not AuthStrength.MODEL:
                return facts
            opinion = await self._checking.of(wanted, asked.number) if count < _MOST_CHECKS else CHANGING
            if opinion.verdict != "yes":
                return await self._not_by_model(facts, wanted, opinion, use)
            yes = ApprovalGranted(approval_id=wanted.approval_id, extent="once", by=opinion.by, way=AuthStrength.MODEL)
            await self._recorder.append(*facts, yes)
            facts = await self._call(asked, index, use)
        raise AssertionError("an endless loop ended")

    async def _not_by_model(
        self, facts: tuple[EventBody, ...], wanted: ApprovalRequested, opinion: Opinion, use: ToolUse
    ) -> tuple[EventBody, ...]:
        """What a person is asked where a second model did not say yes; where nobody is there, it is not done."""
        tool = self._parts.registry.find(use.name)
        if self._plan.attended:
            needs = weakest_way(tool.meta) if tool else AuthStrength.CLI
            return (*facts[:-1], replace(wanted, needs=needs, checked=opinion.sentence))
        await self._recorder.append(*unattended(facts, wanted, opinion))
        return ()

    async def _hold(self, asking: list[tuple[EventBody, ...]]) -> None:
        """Ask for the calls that need it, and let go of the turn until there is an answer: for all that want a yes at
        once, then the model's own questions, one after the other. Of the rest, nothing is recorded yet. Raises
        TurnHeld."""
        if not asking:
            return
        await self._recorder.append(*self._first_asked(asking))
        raise TurnHeld

    def _first_asked(self, asking: list[tuple[EventBody, ...]]) -> tuple[EventBody, ...]:
        """What is asked now. Where the turn has asked a lot, a person is told that first."""
        room = MOST_ASKS - self._conversation.asks(self._recorder.task_id)
        if room <= 0:
            return many_asks(PromptId(self._parts.ids.new()))
        approvals = [facts for facts in asking if not isinstance(facts[-1], PromptRequested)]
        facts = tuple(fact for each in approvals[:room] or asking[:1] for fact in each)
        for fact in facts:
            match fact:
                case ApprovalRequested(approval_id=approval_id):
                    return (*facts, TaskWaitingApproval(approval_id=approval_id))
                case PromptRequested(question=question):
                    return (*facts, TaskWaitingInput(question=question))
                case _:
                    pass
        raise AssertionError("what asks has a question")
