"""Answers to the questions of tasks, from a cell, the command line or REST; the first one counts."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.agent.questions import AGAIN, ALLOW, CHEAPER, DONE, GO_ON, LEAVE
from ozzie_server_ext.config.settings import CHEAP, MOST_AMOUNT
from ozzie_server_ext.domain.approvals import find_option, parse_answer
from ozzie_server_ext.domain.budget import Scope
from ozzie_server_ext.domain.calls import CallRecord
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import Conflict, InputError, PolicyError, VersionConflict
from ozzie_server_ext.domain.events import (
    BudgetExceeded,
    BudgetRaised,
    Event,
    EventBody,
    PromptAnswered,
    PromptOption,
    PromptRequested,
    TaskCancelled,
    TaskFailed,
    TaskModelChosen,
    TaskQueued,
    TaskResumed,
    TaskStarted,
    ToolCallResolved,
)
from ozzie_server_ext.domain.ids import MessageId, PromptId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.tasks import TaskStatus
from ozzie_server_ext.models.ledger import Ledger
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.reconciliation import not_again, stopped, unfinished
from ozzie_server_ext.tasks.rows import user_recorder, with_delegated
from ozzie_server_ext.tasks.service import TaskService
from ozzie_server_ext.tools.questions import MOST_TEXT, SERVER, outcome_of

ALL_SCOPES: frozenset[Scope] = frozenset({"task", "session", "project", "day"})
OWN_SCOPES: frozenset[Scope] = frozenset({"task", "session"})
"""The scopes within one session, whose budgets a kernel may raise."""
_OUTCOMES: dict[str, Literal["done", "again", "left"]] = {DONE: "done", AGAIN: "again", LEAVE: "left"}
MOST_MONEY = 1_000_000 * 1_000_000_000
"""The limit of an amount in 1e-9 USD."""
_TRIES = 50
"""How often an answer is tried while other facts of its task are recorded."""


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The question that a task waits for. `asked` is its event, `version` that of the task's stream when it was read.
    `breach` is the reason of a question about a budget; `unresolved` are the uncertain calls, `open_calls` those
    without an outcome."""

    prompt: PromptRequested
    asked: Event
    breach: BudgetExceeded | None
    version: int
    session_id: SessionId
    unresolved: tuple[CallRecord, ...] = ()
    open_calls: tuple[CallRecord, ...] = ()


class Answers:
    """Records answers and their consequences, which the driver follows in the log. `ledger` is notified of raised
    budgets."""

    def __init__(self, log: EventLog, tasks: TaskService, ledger: Ledger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._tasks = tasks
        self._ledger = ledger
        log.on_commit(lambda events: ledger.raised(), types={BudgetRaised.type})

    async def question(self, task_id: TaskId) -> OpenQuestion | None:
        """Return the question that the task waits for, or None. Raises NotFound."""
        row = await self._tasks.get(task_id)
        # The row tells whether to look; the events, read later, tell whether it still waits.
        if row["status"] == TaskStatus.WAITING_INPUT:
            return _open_question(await self._events(task_id))
        # A server asks while its call goes on.
        found = _open_question(await self._events(task_id)) if row["status"] == TaskStatus.RUNNING else None
        return found if found is not None and found.prompt.kind == SERVER else None

    async def answer(
        self,
        task_id: TaskId,
        option: str,
        *,
        by: str,
        prompt_id: PromptId | None = None,
        amount: int | None = None,
        text: str = "",
        scopes: Collection[Scope] = ALL_SCOPES,
    ) -> None:
        """Answer the task's question, so that it goes on or ends.

        - `option`: the name or label of an offered option.
        - `amount`: replaces the offered amount, in its unit.
        - `text`: for an option that takes text.
        - `prompt_id`: the question that was shown.
        - `scopes`: those whose budgets the caller may raise.

        Raises NotFound, InputError for an invalid answer, PolicyError, and Conflict if the task waits for no or another
        question.
        """
        asked = await self.question(task_id)
        if asked is None or (prompt_id is not None and prompt_id != asked.prompt.prompt_id):
            raise await self._late(task_id)
        chosen, text = parse_answer(asked.prompt.options, option, text)
        if chosen.name == ALLOW and asked.breach is not None and asked.breach.scope not in scopes:
            raise PolicyError(
                "A kernel may not raise this budget: other sessions share it.",
                hint="Answer in the page, or with ozzie tasks answer.",
                code="policy.budget",
            )
        given, words = _amount(chosen, amount), _words(chosen, text)
        answer = PromptAnswered(prompt_id=asked.prompt.prompt_id, option=chosen.name, by=by, amount=given, text=words)
        await self._record(task_id, asked, answer, chosen)

    async def take_message(self, task_id: TaskId, text: str, *, by: str, message_id: MessageId) -> Event | None:
        """Take a message to the session as the answer to the model's question; return the event of the answer, or None
        if the task waits for no such question, or the message does not fit it. Other questions, about budgets and
        uncertain calls, are never answered by a message. Raises Conflict if somebody else was first."""
        asked = await self.question(task_id)
        if asked is None or asked.prompt.kind != "question" or len(text) > MOST_TEXT:
            return None
        option = _option_for(asked.prompt.options, text)
        if option is None:
            return None
        prompt_id = asked.prompt.prompt_id
        answer = PromptAnswered(
            prompt_id=prompt_id, option=option.name, by=by, text=text.strip(), message_id=message_id
        )
        return await self._record(task_id, asked, answer, option)

    async def _record(
        self, task_id: TaskId, asked: OpenQuestion, answer: PromptAnswered, chosen: PromptOption
    ) -> Event:
        """Record the answer if the question still waits for one: other facts of the task may have come between. Raises
        Conflict if somebody else was first."""
        for _ in range(_TRIES):
            then = await with_delegated(self._log, task_id, self._consequences(asked, answer, chosen))
            is_end = bool(then) and isinstance(then[-1], TaskCancelled | TaskFailed)
            # An offered answer has the provenance of its question.
            recorder = user_recorder(self._log, asked.session_id, task_id).made_from(asked.asked.content)
            facts = (answer, *(stopped(asked.open_calls) if is_end else ()), *then)
            with suppress(VersionConflict):
                return (await recorder.append(*facts, expected_version=asked.version))[0]
            again = await self.question(task_id)
            if again is None or again.prompt.prompt_id != asked.prompt.prompt_id:
                raise await self._late(task_id)
            asked = again
        raise Conflict("The task is busy. Your answer did nothing; give it again.", code="conflict")

    def _consequences(self, asked: OpenQuestion, answer: PromptAnswered, option: PromptOption) -> list[EventBody]:
        by, call_id = answer.by, asked.prompt.call_id
        if asked.prompt.kind == SERVER:
            return []  # its call goes on with it
        if call_id is not None:
            waited_s = max((self._clock.now() - asked.asked.ts).total_seconds(), 0.0)  # the clock may be set back
            outcome = outcome_of(call_id, option, answer.text, round(waited_s * 1000, 3))
            return [outcome, TaskResumed(by=by)]
        if asked.prompt.kind == "uncertain":
            return _resolutions(asked, option.name, by)
        if asked.breach is not None:
            return _of_budget(asked.breach, answer)
        return [TaskResumed(by=by)] if option.name == GO_ON else [TaskCancelled(by=by, reason="it asked too often")]

    async def _late(self, task_id: TaskId) -> Conflict:
        for event in reversed(await self._events(task_id)):
            if isinstance(event.body, PromptAnswered):
                at = event.ts.astimezone().strftime("%H:%M")
                words = f"Already answered: {event.body.by} at {at}. Your answer did nothing."
                return Conflict(words, code="answer.late")
        return Conflict("It waits for no answer.", code="answer.late")

    async def _events(self, task_id: TaskId) -> tuple[Event, ...]:
        return await self._log.read_stream(task_stream(task_id))


def _open_question(events: Iterable[Event]) -> OpenQuestion | None:
    """Return the unanswered question in a task's events."""
    breach: BudgetExceeded | None = None
    found: OpenQuestion | None = None
    events = tuple(events)
    for event in events:
        match event.body:
            case BudgetExceeded() as fact:
                breach = fact
            case PromptRequested() as fact if event.session_id and (breach or fact.kind != "budget"):
                why = breach if fact.kind == "budget" else None
                found = OpenQuestion(
                    prompt=fact, asked=event, breach=why, version=event.version, session_id=event.session_id
                )
            case PromptAnswered() | TaskCancelled() | TaskFailed():
                found = None
            case TaskQueued() | TaskStarted() if found is not None and found.prompt.kind == SERVER:
                found = None  # its call was cut off
            case _:
                found = found and replace(found, version=event.version)
    if found is None:
        return None
    left = unfinished(events)
    return replace(found, unresolved=left.unresolved if found.prompt.kind == "uncertain" else (), open_calls=left.tools)


def _amount(option: PromptOption, given: int | None) -> int:
    """Raises InputError."""
    if given is None:
        return option.amount
    if not option.unit:
        raise InputError(f'"{option.name}" takes no amount.', code="answer.amount")
    most = MOST_MONEY if option.unit == "cost" else MOST_AMOUNT
    if not 0 < given <= most:
        raise InputError("The amount must be positive, and not that large.", code="answer.amount")
    return given


def _option_for(options: Iterable[PromptOption], text: str) -> PromptOption | None:
    """Return the option that a message names, else the one for words of one's own; None if there is neither."""
    offered = tuple(options)
    try:
        return find_option(offered, text)
    except InputError:
        return next((option for option in offered if option.takes_text), None)


def _words(option: PromptOption, text: str) -> str:
    """Raises InputError."""
    words = text.strip()
    if not option.takes_text:
        if words:
            raise InputError(f'"{option.name}" takes no text.', code="answer.text")
        return ""
    if not words:
        raise InputError("The answer is empty.", hint='Write one, or give "skip".', code="answer.text")
    if len(words) > MOST_TEXT:
        raise InputError(f"The answer is longer than {MOST_TEXT:,} characters.", code="answer.text")
    return words


def _of_budget(breach: BudgetExceeded, answer: PromptAnswered) -> list[EventBody]:
    if answer.option == ALLOW:
        scope, key, measure = breach.scope, breach.key, breach.measure
        raised = BudgetRaised(scope=scope, key=key, measure=measure, amount=answer.amount, by=answer.by)
        return [raised, TaskResumed(by=answer.by)]
    if answer.option == CHEAPER:
        return [TaskModelChosen(model=CHEAP, reason=breach.type), TaskResumed(by=answer.by)]
    return [TaskCancelled(by=answer.by, reason="the budget")]


def _resolutions(asked: OpenQuestion, option: str, by: str) -> list[EventBody]:
    outcome = _OUTCOMES[option]
    facts: list[EventBody] = [
        ToolCallResolved(call_id=tool.call_id, outcome=outcome, by=by) for tool in asked.unresolved
    ]
    return [*facts, not_again(asked.unresolved)] if outcome == "left" else [*facts, TaskResumed(by=by)]
