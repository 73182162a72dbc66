"""What an answer by which a task ends records of the calls that it leaves open."""

from collections.abc import Awaitable, Callable

import pytest

from ozzie_server_ext.agent.questions import LEAVE, STOP, ask_limit_question, uncertain_question
from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import (
    EventBody,
    MessageConfirmed,
    PromptAnswered,
    TaskCancelled,
    TaskFailed,
    TaskResumed,
    TaskStarted,
    ToolCallCancelled,
)
from ozzie_server_ext.domain.ids import MessageId, PromptId, TaskId
from ozzie_server_ext.models.ledger import Ledger
from ozzie_server_ext.tasks.answers import Answers, OpenQuestion
from ozzie_server_ext.tasks.budgets import balance_of
from ozzie_server_ext.tasks.service import TaskService
from tests.unit.tasks.asked import ANA, Waiting
from tests.unit.tasks.idle import Idle

PROMPT = PromptId("p")


@pytest.mark.parametrize(
    ("asks", "option", "end"),
    [
        (ask_limit_question(PROMPT), STOP, TaskCancelled),
        (uncertain_question(PROMPT, "Nobody knows."), LEAVE, TaskFailed),
    ],
)
async def test_a_call_that_is_open_when_a_person_ends_its_turn_by_an_answer_has_an_outcome(
    asks: tuple[EventBody, ...], option: str, end: type[EventBody]
) -> None:
    """One that was allowed, and that something else of its turn came before."""
    waiting = Waiting()
    task_id, approval_id = await waiting.one()
    (call_id,) = await waiting.calls(task_id)
    await waiting.approvals.approve(approval_id, ANA)
    await waiting.record(task_id, [TaskStarted(attempt=1, epoch="f"), *asks])
    tasks = TaskService(waiting.log, waiting.ids, Idle())
    answers = Answers(waiting.log, tasks, Ledger(lambda account: balance_of(waiting.log, account)), waiting.clock)

    await answers.answer(task_id, option, by="ann")

    answered, told, ended = (await waiting.bodies(task_id))[-3:]
    assert isinstance(answered, PromptAnswered)
    assert told == ToolCallCancelled(call_id=call_id, reason="The turn was stopped before it was begun.")
    assert isinstance(ended, end)


async def test_an_answer_by_which_a_task_goes_on_leaves_its_calls_open() -> None:
    waiting = Waiting()
    task_id, approval_id = await waiting.one()
    await waiting.approvals.approve(approval_id, ANA)
    await waiting.record(task_id, [TaskStarted(attempt=1, epoch="f"), *ask_limit_question(PROMPT)])
    tasks = TaskService(waiting.log, waiting.ids, Idle())
    answers = Answers(waiting.log, tasks, Ledger(lambda account: balance_of(waiting.log, account)), waiting.clock)

    await answers.answer(task_id, "go_on", by="ann")

    bodies = await waiting.bodies(task_id)
    assert bodies[-1] == TaskResumed(by="ann")
    assert not any(isinstance(body, ToolCallCancelled) for body in bodies)


def between(answers: Answers, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Awaitable[object]]) -> None:
    """Let something happen once, after the question was read and before its answer is recorded."""
    look = answers.question

    async def and_then(task_id: TaskId) -> OpenQuestion | None:
        found = await look(task_id)
        monkeypatch.setattr(answers, "question", look)
        await happens()
        return found

    monkeypatch.setattr(answers, "question", and_then)


async def test_a_fact_that_comes_between_does_not_cost_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    task_id, _ = await waiting.question()
    tasks = TaskService(waiting.log, waiting.ids, Idle())
    answers = Answers(waiting.log, tasks, Ledger(lambda account: balance_of(waiting.log, account)), waiting.clock)
    confirmed = MessageConfirmed(message_id=MessageId("m"), by="ana", way="cell", names=(), all_typed=True)
    between(answers, monkeypatch, lambda: waiting.record(task_id, [confirmed]))

    taken = await answers.take_message(task_id, "Tea", by="ana", message_id=MessageId("m2"))

    assert taken is not None
    assert isinstance(taken.body, PromptAnswered)
    assert await waiting.status(task_id) == "RUNNING"


async def test_of_two_answers_the_second_is_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    task_id, _ = await waiting.question()
    tasks = TaskService(waiting.log, waiting.ids, Idle())
    answers = Answers(waiting.log, tasks, Ledger(lambda account: balance_of(waiting.log, account)), waiting.clock)
    first = MessageId("m1")
    between(answers, monkeypatch, lambda: answers.take_message(task_id, "Coffee", by="ben", message_id=first))

    with pytest.raises(Conflict, match="Already answered: ben"):
        await answers.take_message(task_id, "Tea", by="ana", message_id=MessageId("m2"))
