"""A turn that asks the person something, with the offline script: the answer is what the model reads."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import Conflict, InputError
from ozzie_server_ext.domain.events import (
    MessageCompleted,
    Origin,
    PromptAnswered,
    PromptRequested,
    ToolCallCancelled,
    ToolCallCompleted,
)
from ozzie_server_ext.domain.ids import PromptId, TaskId, task_stream
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.turnfold import fold, new_turn
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.tools.questions import MOST_TEXT
from tests.integration.tasks.test_approvals import Bench

WHICH = "Ask me whether I want tea or coffee."


class Asking(Bench):
    async def asked(self, text: str = WHICH, *, attended: bool = True) -> TaskId:
        """The task that this message makes, once it rests."""
        origin = Origin(channel="notebook", sender_id="ana")
        task_id = (await self.ozzie.submit(NewTurn(await self.session(), text, origin, attended=attended))).task_id
        await self.rests(task_id)
        return task_id

    async def answer(self, task_id: TaskId, option: str, text: str = "", prompt_id: PromptId | None = None) -> None:
        await self.ozzie.answers.answer(task_id, option, by="Ana", text=text, prompt_id=prompt_id)

    async def said(self, task_id: TaskId) -> str:
        """The last answer of the model."""
        return (await self.facts(task_id, MessageCompleted))[-1].text

    async def row(self, task_id: TaskId) -> tuple[str, str]:
        """State and result of the turn's only call, as a cell shows it."""
        view = new_turn(task_id=task_id)
        for event in await self.ozzie.log.read_stream(task_stream(task_id)):
            view = fold(view, event.type, encode(event.body), event.ts)
        (row,) = view.rows
        return row.state, row.result


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asking]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    bench = Asking(tmp_path)
    await bench.start()
    yield bench
    assert (await bench.ozzie.log.verify()).ok
    assert await bench.ozzie.log.dump() == await bench.ozzie.log.rebuild()
    await bench.stop()


async def test_a_choice_is_what_the_model_reads(bench: Asking) -> None:
    task_id = await bench.asked()
    asked = await bench.ozzie.answers.question(task_id)
    assert asked is not None
    assert asked.prompt.question == "Tea or coffee?"
    assert await bench.row(task_id) == ("waiting", "Waiting for your answer")

    await bench.answer(task_id, "2", prompt_id=asked.prompt.prompt_id)

    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert "Your answer is `Coffee`." in await bench.said(task_id)
    (completed,) = await bench.facts(task_id, ToolCallCompleted)
    assert completed.data == {"answer": "Coffee"}
    assert completed.call_id == asked.prompt.call_id
    assert completed.duration_ms > 0
    assert await bench.row(task_id) == ("done", "Coffee")


async def test_words_of_ones_own_arrive_as_they_were_written(bench: Asking) -> None:
    task_id = await bench.asked()

    await bench.answer(task_id, "text", "  Neither; “mate”,\nplease.\n")

    assert await bench.rests(task_id, 2) == "task.succeeded"
    (answered,) = await bench.facts(task_id, PromptAnswered)
    assert (answered.option, answered.text, answered.by) == ("text", "Neither; “mate”,\nplease.", "Ana")
    (completed,) = await bench.facts(task_id, ToolCallCompleted)
    assert completed.data == {"answer": "Neither; “mate”,\nplease."}


async def test_a_question_may_be_skipped(bench: Asking) -> None:
    task_id = await bench.asked("Ask me for my favourite colour.")

    await bench.answer(task_id, "skip")

    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert "You skipped the question." in await bench.said(task_id)
    assert await bench.row(task_id) == ("done", "skipped")


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("3", "", "is no answer"),
        ("text", "", "is empty"),
        ("text", " \n", "is empty"),
        ("text", "x" * (MOST_TEXT + 1), "longer than 20,000"),
        ("1", "with words", "takes no text"),
        ("skip", "no", "takes no text"),
    ],
)
async def test_what_is_no_answer_is_refused_and_the_question_stays(
    bench: Asking, option: str, text: str, says: str
) -> None:
    task_id = await bench.asked()

    with pytest.raises(InputError, match=says):
        await bench.answer(task_id, option, text)

    assert await bench.ozzie.answers.question(task_id) is not None
    assert await bench.facts(task_id, PromptAnswered) == []


async def test_a_question_outlives_the_gateway_and_is_put_once(bench: Asking) -> None:
    task_id = await bench.asked()
    await bench.stop()
    await bench.start()

    assert len(await bench.facts(task_id, PromptRequested)) == 1
    await bench.answer(task_id, "1")

    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert "Your answer is `Tea`." in await bench.said(task_id)
    assert len(await bench.facts(task_id, ToolCallCompleted)) == 1


async def test_the_first_of_many_answers_counts(bench: Asking) -> None:
    task_id = await bench.asked()

    results = await asyncio.gather(
        *[bench.answer(task_id, option) for option in ("1", "2", "skip", "1")], return_exceptions=True
    )

    assert len([each for each in results if isinstance(each, Conflict)]) == 3
    assert results.count(None) == 1
    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert len(await bench.facts(task_id, PromptAnswered)) == 1
    with pytest.raises(Conflict, match=r"Already answered: Ana at \d\d:\d\d"):
        await bench.answer(task_id, "1")


async def test_an_answer_to_a_question_of_before_is_none_to_this_one(bench: Asking) -> None:
    task_id = await bench.asked()

    with pytest.raises(Conflict):
        await bench.answer(task_id, "1", prompt_id=PromptId("01M800000000000000000000PR"))

    assert await bench.ozzie.answers.question(task_id) is not None


async def test_where_nobody_is_there_the_turn_goes_on_without_an_answer(bench: Asking) -> None:
    task_id = await bench.asked(attended=False)

    assert "nobody was there to ask" in await bench.said(task_id)
    assert await bench.facts(task_id, PromptRequested) == []


async def test_a_turn_that_is_stopped_while_it_asks_takes_no_answer_any_more(bench: Asking) -> None:
    task_id = await bench.asked()
    await bench.ozzie.tasks.cancel(task_id, by="ana", reason="")
    await bench.rests(task_id, 2)

    with pytest.raises(Conflict):
        await bench.answer(task_id, "1")
    (not_answered,) = await bench.facts(task_id, ToolCallCancelled)
    assert not_answered.reason == "The turn was stopped before it was answered."
    assert await bench.row(task_id) == ("cancelled", "Cancelled: The turn was stopped before…")
