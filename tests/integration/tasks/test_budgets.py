"""Budgets in real turns: real litellm in the worker, a provider on loopback whose use is what each test says."""

import asyncio
import contextlib
import itertools
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest.mock import ANY

import pytest
import pytest_asyncio

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.budget import Account, tokens_in
from ozzie_server_ext.domain.errors import Conflict, InputError, Unavailable
from ozzie_server_ext.domain.events import (
    BudgetExceeded,
    BudgetRaised,
    Draft,
    Event,
    EventBody,
    MessageCompleted,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    Origin,
    PromptAnswered,
    PromptRequested,
    TaskFailed,
    TaskModelChosen,
    Transient,
)
from ozzie_server_ext.domain.ids import SessionId, TaskId, task_stream
from ozzie_server_ext.models.driver import ModelChoice
from ozzie_server_ext.models.ledger import Ledger, Reserved
from ozzie_server_ext.tasks.budgets import balance_of, today
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.tools.builtin import calc, files, notes, time, user, writing
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, Refusal, ToolCall

# One loop for the module, because the worker takes seconds to start and serves all of it.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

WAIT_S = 60
RESTS = frozenset({"task.succeeded", "task.failed", "task.cancelled", "task.waiting_input"})
"""Where a turn has come to its end, or waits."""
OFFERED = tuple(tool for family in (calc, time, files, writing, notes, user) for tool in family.TOOLS)
"""Some, and no others: what a prompt takes is in most figures here, and grows with each tool that is offered."""
ENDS = RESTS - {"task.waiting_input"}
ANSWER_TOKENS = 2000
USD = 1_000_000_000
PRICES = {"price_in": 1, "price_out": 10}
"""USD for a million tokens: 1,000 and 10,000 nano-USD for one."""


@dataclass
class Bench:
    """One Ozzie whose budgets each test sets, and its provider."""

    ozzie: Ozzie
    home: Home
    fake: FakeOpenAI
    numbers: Iterator[int]

    def configure(self, budgets: Mapping[str, Any], parallel: int | None = None, **models: Any) -> None:
        """`dear` costs, `small` costs a hundredth of it, and `unpriced` has no known price. `parallel`: so many calls
        of each are made at once."""
        provider = {"driver": "openai", "model": "echo", "base_url": f"{self.fake.url}/v1", "max_tokens": ANSWER_TOKENS}
        if parallel is not None:
            provider["limits"] = {"parallel": parallel}
        cheap = {"price_in": "0.01", "price_out": "0.1"}
        providers = {
            "dear": {**provider, "capabilities": PRICES},
            "small": {**provider, "capabilities": cheap},
            "unpriced": provider,
        }
        tree = {"default": "dear", "providers": providers, "retry": {"backoff_ms": 1}, **models}
        text = json.dumps({"models": tree, "budgets": budgets})
        # A number behind the text, or a configuration like the last one would not count as new.
        (self.home.root / "config.jsonc").write_text(f"{text} // {next(self.numbers)}")
        self.fake.forget()

    async def session(self) -> SessionId:
        return (await self.ozzie.sessions.open(f"{next(self.numbers)}", title="test", channel="test")).session_id

    async def submit(self, session: SessionId | None = None, text: str = "Say it.", model: str = "") -> TaskId:
        origin = Origin(channel="test")
        return (await self.ozzie.submit(NewTurn(session or await self.session(), text, origin, model=model))).task_id

    async def rest(self, task_id: TaskId, after: int = 0) -> int:
        """Until the turn has ended, or waits; the position of that."""
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(after, types=RESTS, task_id=task_id) as rests:
            found = await anext(rests)
            assert isinstance(found, Event)
            return found.position

    async def ended(self, task_id: TaskId) -> None:
        """Until the turn has ended, whatever it asked before."""
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=ENDS, task_id=task_id) as ends:
            await anext(ends)

    @contextlib.asynccontextmanager
    async def told(self, step: str) -> AsyncIterator[None]:
        """Until somebody who watches from before is told so."""
        kinds = frozenset({"task.progress"})
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=kinds) as news:
            yield
            async for item in news:
                if isinstance(item, Transient) and step in str(item.payload):
                    return

    async def ask(self, session: SessionId | None = None, text: str = "Say it.", model: str = "") -> TaskId:
        task_id = await self.submit(session, text, model)
        await self.rest(task_id)
        return task_id

    async def answer(self, task_id: TaskId, option: str, **changed: Any) -> None:
        """Answer, and wait until the turn has ended or asks again."""
        head = (await self.ozzie.log.head()).position
        await self.ozzie.answers.answer(task_id, option, by="ann", **changed)
        await self.rest(task_id, after=head)

    async def status(self, task_id: TaskId) -> str:
        return str((await self.ozzie.tasks.get(task_id))["status"])

    async def of(self, task_id: TaskId, *kinds: type[EventBody]) -> list[Any]:
        events = await self.ozzie.log.read_stream(task_stream(task_id))
        return [event.body for event in events if isinstance(event.body, kinds)]

    async def spent(self, scope: Any, key: str) -> tuple[int, int]:
        settled = (await balance_of(self.ozzie.log, Account(scope, key))).settled
        return settled.cost, settled.tokens


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("budgets")
    with pytest.MonkeyPatch.context() as patch, FakeOpenAI() as fake:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "user-config"))
        patch.setattr("ozzie_server_ext.tasks.projects.builtin_tools", lambda: OFFERED)
        (folder / "project").mkdir()
        home = Home(folder / "home")
        home.create()
        ozzie = await Ozzie.start(home, folder / "project")
        bench = Bench(ozzie, home, fake, itertools.count())
        try:
            yield bench
        finally:
            await bench.ozzie.stop()


@pytest.fixture
def bench(running: Bench) -> Bench:
    running.configure({})
    return running


def cost(used: tuple[int, int]) -> int:
    """Of `dear`, in 1e-9 USD."""
    return used[0] * 1000 + used[1] * 10_000


def said(*usages: tuple[int, int], tools: bool = False) -> list[Answer]:
    """Answers that use so many tokens, in and out; with `tools`, all but the last ask for a tool, so that there is
    a next one."""
    asks = [tools and index < len(usages) - 1 for index in range(len(usages))]
    return [
        Answer(
            pieces=[f"Part {index}."],
            usage=usage,
            tool_calls=[ToolCall("calculator", {"expr": f"{index}+1"})] if more else [],
        )
        for index, (usage, more) in enumerate(zip(usages, asks, strict=True))
    ]


async def test_each_call_reserves_the_most_and_is_settled_at_what_it_took(bench: Bench) -> None:
    bench.fake.queue(*said((300, 50), (400, 60), tools=True))
    session = await bench.session()

    task = await bench.ask(session)

    first, second = await bench.of(task, ModelCallStarted)
    document = await bench.ozzie.blobs.get(first.request_blob)
    assert first.reserved_tokens == tokens_in(document) + ANSWER_TOKENS
    assert first.reserved_cost == cost((tokens_in(document), ANSWER_TOKENS))
    assert second.reserved_tokens > first.reserved_tokens, "the conversation is longer"
    day, _ = today(bench.ozzie.clock.now())
    assert (first.project, first.day) == (str(bench.ozzie.project), day)
    used = (cost((700, 110)), 810)
    assert await bench.spent("task", task) == await bench.spent("session", session) == used


async def test_a_turn_whose_budget_is_used_up_asks_and_goes_on_from_where_it_was(bench: Bench) -> None:
    bench.configure({"task": {"max_cost_usd": "0.05"}})
    bench.fake.queue(*said((2000, 3900), (2500, 50), tools=True))

    task = await bench.ask(text="Work on it.")

    assert await bench.status(task) == "WAITING_INPUT"
    assert len(bench.fake.requests) == 1, "the next call was not made"
    (prompt,) = await bench.of(task, PromptRequested)
    (breach,) = await bench.of(task, BudgetExceeded)
    assert (breach.scope, breach.key, breach.measure, breach.action) == ("task", task, "cost", "ask")
    assert (breach.limit, breach.used) == (USD // 20, cost((2000, 3900)))
    assert prompt.question == "This task has used $0.041 of its $0.05."
    assert re.fullmatch(r'The next step takes \$0\.02\d at the most, with "dear"\.', prompt.notes[0])
    assert [(option.name, option.label) for option in prompt.options] == [
        ("allow", "Allow $0.03 more"),
        ("stop", "Stop here"),
    ]

    await bench.answer(task, "allow")

    assert await bench.status(task) == "SUCCEEDED"
    assert [body.text for body in await bench.of(task, MessageCompleted)] == ["Part 0.", "Part 1."]
    (answered,) = await bench.of(task, PromptAnswered)
    (raised,) = await bench.of(task, BudgetRaised)
    assert (answered.option, answered.by, answered.amount) == ("allow", "ann", raised.amount)
    first, second = bench.fake.requests
    roles = [message["role"] for message in second.body["messages"]]
    assert roles == ["system", "user", "assistant", "tool"], "what was done stands above, and nothing was done twice"
    assert first.body["messages"][1] == second.body["messages"][1]


async def test_a_budget_that_is_nearly_used_up_is_said_while_the_turn_goes_on(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 30_000}})
    bench.fake.queue(*said((3000, 100), (21_000, 100), (1500, 20), tools=True))
    head = (await bench.ozzie.log.head()).position
    task = await bench.submit()

    told: list[Any] = []
    async with asyncio.timeout(WAIT_S), bench.ozzie.feed.subscribe(head, task_id=task) as news:
        async for item in news:
            if isinstance(item, Transient) and "budget" in item.payload:
                told.append(item.payload["budget"])
            if getattr(item, "type", "") in RESTS:
                break

    assert told == [81, 86]
    assert await bench.status(task) == "SUCCEEDED"


async def test_an_amount_of_ones_own_is_allowed_and_asked_about_again_when_it_is_used_up(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 5000}})
    bench.fake.queue(*said((3000, 1500), (3000, 900), (3500, 50), tools=True))
    task = await bench.ask()

    await bench.answer(task, "allow", amount=4000)
    assert await bench.status(task) == "WAITING_INPUT"
    _, second = await bench.of(task, BudgetExceeded)
    assert (second.limit, second.used) == (9000, 8400)
    await bench.answer(task, "allow", amount=10_000)

    assert await bench.status(task) == "SUCCEEDED"


async def test_stop_ends_the_turn_where_it_is_and_keeps_what_there_was(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 5000}})
    bench.fake.queue(*said((3000, 1500), (3000, 900), tools=True))
    task = await bench.ask()

    await bench.answer(task, "stop")

    assert await bench.status(task) == "CANCELLED"
    assert [body.text for body in await bench.of(task, MessageCompleted)] == ["Part 0."]


async def test_a_cheaper_model_is_offered_where_it_fits_and_answers_for_the_rest_of_the_turn(bench: Bench) -> None:
    bench.configure({"task": {"max_cost_usd": "0.05"}}, aliases={"cheap": "small"})
    bench.fake.queue(*said((2000, 3900), (2500, 50), (2600, 50), tools=True))
    task = await bench.ask()
    (prompt,) = await bench.of(task, PromptRequested)
    assert [option.label for option in prompt.options] == ["Allow $0.03 more", 'Go on with "cheap"', "Stop here"]

    await bench.answer(task, "cheap")

    assert await bench.status(task) == "SUCCEEDED"
    calls = await bench.of(task, ModelCallStarted)
    assert [(call.alias, call.provider) for call in calls] == [("dear", "dear"), *[("cheap", "small")] * 2]


async def test_degrade_goes_on_with_the_cheaper_model_without_a_question(bench: Bench) -> None:
    bench.configure({"task": {"max_cost_usd": "0.05", "on_exceeded": "degrade"}}, aliases={"cheap": "small"})
    bench.fake.queue(*said((2000, 3900), (2500, 50), tools=True))

    task = await bench.ask()

    assert await bench.status(task) == "SUCCEEDED"
    assert [call.provider for call in await bench.of(task, ModelCallStarted)] == ["dear", "small"]
    assert [body.model for body in await bench.of(task, TaskModelChosen)] == ["cheap"]
    assert [body.action for body in await bench.of(task, BudgetExceeded)] == ["degrade"]


async def test_a_turn_that_got_nowhere_goes_on_with_the_cheaper_model_at_its_next_call(bench: Bench) -> None:
    bench.configure({}, aliases={"cheap": "small"})
    bench.fake.queue(*said((2000, 10), (2500, 50), tools=True))
    works: list[asyncio.Task[Any]] = []

    def stall(events: tuple[Event, ...]) -> None:
        for event in events:
            if event.type == "tool.call.requested" and event.task_id is not None and not works:
                chosen = TaskModelChosen(model="cheap", reason="task.stalled")
                draft = Draft(
                    body=chosen, actor="system", source="test", session_id=event.session_id, task_id=event.task_id
                )
                works.append(asyncio.create_task(bench.ozzie.log.append(task_stream(event.task_id), [draft])))

    bench.ozzie.log.on_commit(stall)
    task = await bench.ask()
    assert len(works) == 1
    assert await bench.status(task) == "SUCCEEDED"
    assert [call.provider for call in await bench.of(task, ModelCallStarted)] == ["dear", "small"]


async def test_degrade_asks_where_the_cheaper_model_does_not_fit_either(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 5000, "on_exceeded": "degrade"}}, aliases={"cheap": "small"})
    bench.fake.queue(*said((3000, 1500), (10, 10), tools=True))

    task = await bench.ask()

    assert await bench.status(task) == "WAITING_INPUT"
    (prompt,) = await bench.of(task, PromptRequested)
    assert [option.name for option in prompt.options] == ["allow", "stop"]


async def test_stop_as_configured_fails_in_words_that_say_what_to_change(bench: Bench) -> None:
    bench.configure({"session": {"max_tokens": 5000, "on_exceeded": "stop"}})
    bench.fake.queue(*said((3000, 1500)), *said((1, 1)))
    session = await bench.session()
    await bench.ask(session)

    task = await bench.ask(session)

    (failed,) = await bench.of(task, TaskFailed)
    assert (failed.kind, failed.code) == ("business", "budget.exceeded")
    assert failed.message == "This session has used 4,500 tokens of its 5,000 tokens."
    assert "budgets.session.max_tokens" in failed.hint
    assert len(bench.fake.requests) == 1


@pytest.mark.parametrize("scope", ["project", "day"])
async def test_budgets_that_sessions_share_count_them_all(bench: Bench, scope: str) -> None:
    before = {
        "project": await bench.spent("project", str(bench.ozzie.project)),
        "day": await bench.spent("day", today(bench.ozzie.clock.now())[0]),
    }[scope]
    bench.configure({scope: {"max_tokens": before[1] + 5000, "on_exceeded": "stop"}})
    bench.fake.queue(*said((3000, 1500)), *said((1, 1)))
    await bench.ask()

    task = await bench.ask()

    (failed,) = await bench.of(task, TaskFailed)
    assert failed.code == "budget.exceeded"
    assert f"budgets.{scope}.max_tokens" in failed.hint


async def test_an_unknown_price_counts_against_tokens_and_never_as_nothing_known(bench: Bench) -> None:
    bench.configure({"session": {"max_cost_usd": "0.000001", "max_tokens": 9000, "on_exceeded": "stop"}})
    bench.fake.queue(*said((3000, 1500)), *said((3000, 1500)), *said((1, 1)))
    session = await bench.session()

    for _ in range(2):
        assert await bench.status(await bench.ask(session, model="unpriced")) == "SUCCEEDED"
    task = await bench.ask(session, model="unpriced")

    (failed,) = await bench.of(task, TaskFailed)
    assert "9,000 tokens" in failed.message
    assert await bench.of(task, ModelCallStarted) == [], "it was not made"


async def test_a_call_that_is_cut_off_counts_with_all_that_it_had_reserved(bench: Bench) -> None:
    bench.fake.queue(Answer(pieces=["Half "], breaks=True), Refusal(status=401))
    session = await bench.session()

    task = await bench.ask(session)

    (call, *_) = await bench.of(task, ModelCallStarted)
    assert await bench.spent("session", session) == (call.reserved_cost, call.reserved_tokens)


async def test_use_beyond_what_was_reserved_is_carried_honestly(bench: Bench) -> None:
    bench.configure({"session": {"max_tokens": 10_000, "on_exceeded": "stop"}})
    bench.fake.queue(*said((30_000, 1)))
    session = await bench.session()
    assert await bench.status(await bench.ask(session)) == "SUCCEEDED"

    task = await bench.ask(session)

    (failed,) = await bench.of(task, TaskFailed)
    assert failed.message == "This session has used its 10,000 tokens."
    assert (await bench.spent("session", session))[1] == 30_001


async def test_the_first_of_two_answers_counts_and_the_other_one_is_told(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 5000}})
    bench.fake.queue(*said((3000, 1500), (3000, 900), tools=True))
    task = await bench.ask()

    answers = [bench.ozzie.answers.answer(task, option, by="ann") for option in ("stop", "stop", "allow", "stop")]
    head = (await bench.ozzie.log.head()).position
    results = await asyncio.gather(*answers, return_exceptions=True)
    await bench.rest(task, after=head)

    assert len(await bench.of(task, PromptAnswered)) == 1
    refused = [result for result in results if result is not None]
    assert len(refused) == 3
    assert all(isinstance(result, Conflict) and result.code == "answer.late" for result in refused)


async def test_what_is_no_answer_is_refused_and_the_question_stays(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 5000}})
    bench.fake.queue(*said((3000, 1500), (3000, 900), tools=True))
    task = await bench.ask()

    for option, amount in (("yes", None), ("allow", 0), ("allow", -5), ("allow", 10**30), ("stop", 5)):
        with pytest.raises(InputError):
            await bench.ozzie.answers.answer(task, option, by="ann", amount=amount)

    assert await bench.status(task) == "WAITING_INPUT"
    await bench.answer(task, "stop")


async def test_while_a_turn_waits_the_next_of_its_session_waits_and_another_session_does_not(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 5000}})
    bench.fake.queue(said((3000, 1500), (1, 1), tools=True)[0])
    session = await bench.session()
    waiting = await bench.ask(session)
    behind = await bench.submit(session, "And then?")

    other = await bench.ask()

    assert await bench.status(other) == "SUCCEEDED"
    assert [await bench.status(task) for task in (waiting, behind)] == ["WAITING_INPUT", "QUEUED"]
    await bench.ozzie.tasks.cancel(waiting, by="ann")
    await bench.rest(behind)
    assert [await bench.status(task) for task in (waiting, behind)] == ["CANCELLED", "SUCCEEDED"]


async def test_a_question_outlives_the_gateway_and_is_answered_to_the_next(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 5000}})
    bench.fake.queue(*said((3000, 1500), (3000, 90), tools=True))
    session = await bench.session()
    waiting = await bench.ask(session)
    behind = await bench.submit(session, "And then?")

    await bench.ozzie.stop()
    bench.ozzie = await Ozzie.start(bench.home, bench.ozzie.project)
    assert [await bench.status(task) for task in (waiting, behind)] == ["WAITING_INPUT", "QUEUED"]
    await bench.answer(waiting, "allow", amount=50_000)
    await bench.rest(behind)

    assert [await bench.status(task) for task in (waiting, behind)] == ["SUCCEEDED", "SUCCEEDED"]
    begun = [task for task in (waiting, behind) for _ in await bench.of(task, ModelCallStarted)]
    assert begun == [waiting, waiting, behind]


async def test_a_deadline_asks_and_more_time_is_given(bench: Bench) -> None:
    bench.configure({"task": {"deadline_s": 1}})
    bench.fake.queue(Answer(pieces=["Half "], endless=True), *said((10, 10)))

    task = await bench.ask()

    (prompt,) = await bench.of(task, PromptRequested)
    assert (prompt.question, prompt.options[0].label) == ("This task has worked for its 1 s.", "Allow 1 s more")
    await bench.answer(task, "allow", amount=60_000)
    assert await bench.status(task) == "SUCCEEDED"
    assert [body.text for body in await bench.of(task, MessageCompleted)][-1] == "Part 0."
    _, again = bench.fake.requests
    assert [message["role"] for message in again.body["messages"]] == ["system", "user"], "nothing half said"


async def test_an_answer_that_breaks_off_for_the_budget_asks_and_comes_anew(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 6900}})
    bench.fake.queue(
        Answer(pieces=["First."], usage=(2000, 500), tool_calls=[ToolCall("calculator", {"expr": "1+1"})]),
        Answer(pieces=["A long answer that br"], usage=(1500, 1500), finish="length"),
        Answer(pieces=["A long answer to its end."], usage=(1500, 700)),
    )

    task = await bench.ask()

    assert await bench.status(task) == "WAITING_INPUT", "it is not the model that could not write more"
    _, bounded = bench.fake.requests
    assert 1024 <= bounded.body["max_tokens"] < ANSWER_TOKENS
    await bench.answer(task, "allow", amount=50_000)
    assert await bench.status(task) == "SUCCEEDED"
    *_, again = bench.fake.requests
    assert [message["role"] for message in again.body["messages"]] == ["system", "user", "assistant", "tool"]
    assert "max_tokens" not in again.body or again.body["max_tokens"] == ANSWER_TOKENS


async def test_degrade_drops_an_answer_that_broke_off_and_has_the_cheaper_model_write_it(bench: Bench) -> None:
    bench.configure({"task": {"max_cost_usd": "0.021", "on_exceeded": "degrade"}}, aliases={"cheap": "small"})
    bench.fake.queue(
        Answer(pieces=["First."], usage=(2000, 500), tool_calls=[ToolCall("calculator", {"expr": "1+1"})]),
        Answer(pieces=["A long answer that br"], usage=(800, 1200), finish="length"),
        Answer(pieces=["A long answer to its end."], usage=(1500, 700)),
    )

    task = await bench.ask()

    assert await bench.status(task) == "SUCCEEDED"
    assert [call.provider for call in await bench.of(task, ModelCallStarted)] == ["dear", "dear", "small"]
    *_, last = bench.fake.requests
    assert [message["role"] for message in last.body["messages"]] == ["system", "user", "assistant", "tool"]


async def test_a_model_that_breaks_off_by_itself_is_not_taken_for_a_budget_that_does(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 6900}})
    bench.fake.queue(
        Answer(pieces=["First."], usage=(2000, 500), tool_calls=[ToolCall("calculator", {"expr": "1+1"})]),
        Answer(pieces=["Cut."], usage=(900, 50), finish="length"),
    )

    task = await bench.ask()

    (failed,) = await bench.of(task, TaskFailed)
    assert failed.code == "provider.length"
    assert await bench.of(task, BudgetExceeded) == []


async def test_an_offer_that_is_taken_lets_the_next_call_through(bench: Bench) -> None:
    bench.configure({"task": {"max_tokens": 5000}})
    bench.fake.queue(
        Answer(
            pieces=["A long answer that br"],
            usage=(3500, 1999),
            finish="stop",
            tool_calls=[ToolCall("calculator", {"expr": "1"})],
        ),
        Answer(pieces=["Done."], usage=(1500, 20)),
    )
    task = await bench.ask()
    (breach,) = await bench.of(task, BudgetExceeded)
    assert breach.used == 5499

    await bench.answer(task, "allow")

    assert await bench.status(task) == "SUCCEEDED"


async def test_whose_price_can_not_be_asked_for_is_passed_over_for_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.configure({"day": {"max_cost_usd": 1000}}, default="main", aliases={"main": ["unpriced", "dear"]})
    bench.fake.queue(*said((10, 10)))

    async def silent(choice: ModelChoice) -> ModelChoice:
        raise Unavailable("Nobody answers.", code="plane.unavailable")

    monkeypatch.setattr(bench.ozzie.projects.own._knowledge, "priced", silent)
    task = await bench.ask()

    assert await bench.status(task) == "SUCCEEDED"
    assert [call.provider for call in await bench.of(task, ModelCallStarted)] == ["dear"]


async def test_a_stop_at_any_moment_of_a_call_leaves_it_with_one_end(bench: Bench) -> None:
    """Also where two come at once: each is waited for until what is being written stands in the log. A stop that was
    taken ends the turn, also one whose deadline asks in the same moment."""
    bench.configure({"task": {"deadline_s": 0.3}})
    for index in range(12):
        bench.fake.queue(Answer(pieces=["a ", "b "], first_s=0.01 * (index % 4), endless=True))
        task = await bench.submit()
        await asyncio.sleep(0.31 if index % 2 else 0.02 * index)  # at, or somewhere before, the deadline
        with contextlib.suppress(Conflict):
            await bench.ozzie.tasks.cancel(task, by="ann")
        await bench.ended(task)

        begun = [call.call_id for call in await bench.of(task, ModelCallStarted)]
        ended = [call.call_id for call in await bench.of(task, ModelCallFailed, ModelCallCompleted)]
        assert sorted(begun) == sorted(ended)


@pytest.mark.parametrize(
    "behaviour",
    [
        Answer(reasoning=["Hm."], error=True),
        Answer(pieces=["Half "], error=True),
        Answer(pieces=[], breaks=True, tool_calls=[ToolCall("calculator", {"expr": "1+1"})]),
    ],
    ids=["reasoning", "text", "a call of a tool"],
)
async def test_what_fails_once_the_provider_was_at_work_counts_each_time(bench: Bench, behaviour: Answer) -> None:
    bench.configure({}, retry={"max_attempts": 2, "backoff_ms": 1})
    bench.fake.queue(behaviour, behaviour)
    session = await bench.session()

    task = await bench.ask(session)

    calls = await bench.of(task, ModelCallStarted)
    reserved = (sum(call.reserved_cost for call in calls), sum(call.reserved_tokens for call in calls))
    assert await bench.spent("session", session) == reserved


async def test_what_was_refused_counts_as_nothing(bench: Bench) -> None:
    bench.configure({}, retry={"max_attempts": 2, "backoff_ms": 1})
    bench.fake.queue(Refusal(status=500), Refusal(status=401))
    session = await bench.session()

    await bench.ask(session)

    assert await bench.spent("session", session) == (0, 0)


async def test_a_turn_that_is_stopped_before_its_first_word_counts_with_all_that_it_had_reserved(bench: Bench) -> None:
    bench.fake.queue(Answer(pieces=["late"], first_s=600))
    session = await bench.session()
    task = await bench.submit(session)
    await asyncio.to_thread(bench.fake.wait_for, lambda fake: len(fake.requests) == 1, seconds=WAIT_S)

    await bench.ozzie.tasks.cancel(task, by="ann")
    await bench.rest(task)

    (call,) = await bench.of(task, ModelCallStarted)
    assert await bench.spent("session", session) == (call.reserved_cost, call.reserved_tokens)
    (row,) = await bench.ozzie.log.rows("tasks", where={"task_id": task})
    assert row["cost_known"] == 0


async def test_under_a_refused_configuration_nothing_is_asked_that_may_cost(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{bench.fake.url}/v1")
    home = Home(tmp_path / "home")
    home.create()
    (home.root / "config.jsonc").write_text('{"budgets": {"day": {"max_cost_usd": "much"}}}')
    other = Bench(await Ozzie.start(home, bench.ozzie.project), home, bench.fake, bench.numbers)
    try:
        refused = await other.ask(model="openai/gpt-4o-mini")
        script = await other.ask()

        (failed,) = await other.of(refused, TaskFailed)
        assert (failed.code, "config.jsonc" in failed.hint) == ("config.refused", True)
        assert await other.status(script) == "SUCCEEDED", "the offline script costs nothing"
        (home.root / "config.jsonc").write_text("{}")
        assert await other.status(await other.ask(model="openai/gpt-4o-mini")) == "SUCCEEDED"
    finally:
        await other.ozzie.stop()


async def test_who_answers_and_goes_leaves_nothing_held(bench: Bench) -> None:
    """The connection of whoever answers, or stops, may end while that is recorded (a kernel that is restarted)."""
    bench.configure({"task": {"max_tokens": 5000}})
    for act in ("allow", "stop", "cancel"):
        bench.fake.queue(*said((3000, 1500), (3000, 90), tools=True))
        session = await bench.session()
        waiting = await bench.ask(session)
        behind = await bench.submit(session, "And then?")
        if act == "cancel":
            doing = asyncio.ensure_future(bench.ozzie.tasks.cancel(waiting, by="ann"))
        else:
            amount = 50_000 if act == "allow" else None
            doing = asyncio.ensure_future(bench.ozzie.answers.answer(waiting, act, by="ann", amount=amount))
        async with asyncio.timeout(WAIT_S), bench.ozzie.feed.subscribe(0, task_id=waiting) as events:
            async for event in events:
                if getattr(event, "type", "") in ("prompt.answered", "task.cancelled"):
                    doing.cancel()
                    break

        await bench.rest(behind)
        assert await bench.status(behind) == "SUCCEEDED", act


async def test_a_call_that_waited_for_its_provider_is_not_made_once_others_have_used_up_the_budget(
    bench: Bench,
) -> None:
    """What was reserved before a wait, of a minute maybe, says nothing about what is left behind it."""
    held = threading.Event()
    probe = await bench.ask()
    (one,) = await bench.of(probe, ModelCallStarted)
    limit = (await bench.spent("project", str(bench.ozzie.project)))[1] + 3 * one.reserved_tokens
    bench.configure({"project": {"max_tokens": limit, "on_exceeded": "stop"}}, parallel=1)
    bench.fake.queue(Answer(pieces=["Done."], usage=(3 * one.reserved_tokens - 1000, 100), held=held))
    try:
        first = await bench.submit()
        await asyncio.to_thread(bench.fake.wait_for, lambda fake: len(fake.requests) == 1, seconds=WAIT_S)
        async with bench.told("waiting for a place"):
            second = await bench.submit()
    finally:
        held.set()
    await bench.rest(first)
    await bench.rest(second)

    (failed,) = await bench.of(second, TaskFailed)
    assert failed.code == "budget.exceeded"
    assert await bench.of(second, ModelCallStarted) == []
    assert len(bench.fake.requests) == 1


@dataclass(frozen=True)
class Step:
    """What the ledger did for a call: let it through with so many tokens, or settled it at so many."""

    kind: Literal["reserved", "settled"]
    call: int
    tokens: int


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """What the ledger does, in its order. The log's says less: a begin is recorded a moment behind its reservation, and
    the end of another call may come between."""
    done: list[Step] = []
    numbers, reserve = itertools.count(), Ledger.reserve

    @contextlib.asynccontextmanager
    async def watched(*args: Any, **kwargs: Any) -> AsyncIterator[Reserved]:
        number = next(numbers)
        async with reserve(*args, **kwargs) as reserved:
            done.append(Step("reserved", number, reserved.tokens))
            yield reserved
        done.append(Step("settled", number, reserved.settled.tokens))

    monkeypatch.setattr(Ledger, "reserve", watched)
    return done


async def test_two_hundred_turns_against_a_budget_for_fifty_overspend_by_no_more_than_was_in_flight(
    bench: Bench, steps: list[Step], say: Callable[[str], None]
) -> None:
    """The provider uses up to twice what was reserved, so all that is in flight at the breach may
    overspend; nothing else does, and every turn that is not let through is told so."""
    probe = await bench.ask()
    (one,) = await bench.of(probe, ModelCallStarted)
    reserved = one.reserved_tokens
    before = (await bench.spent("project", str(bench.ozzie.project)))[1]
    limit = before + 50 * reserved
    bench.configure({"project": {"max_tokens": limit, "on_exceeded": "stop"}})
    uses = [int(reserved * (0.5 + 1.5 * (index % 50) / 49)) for index in range(200)]
    bench.fake.queue(*[Answer(pieces=["Done."], usage=(use - 100, 100), first_s=0.05) for use in uses])
    steps.clear()

    tasks = await asyncio.gather(*(bench.submit() for _ in range(200)))
    await asyncio.gather(*(bench.rest(task) for task in tasks))

    states = [await bench.status(task) for task in tasks]
    refused = [task for task, state in zip(tasks, states, strict=True) if state == "FAILED"]
    done = [task for task, state in zip(tasks, states, strict=True) if state == "SUCCEEDED"]
    assert len(done) + len(refused) == 200
    for task in refused:
        (failed,) = await bench.of(task, TaskFailed)
        assert failed.code == "budget.exceeded"
        assert await bench.of(task, ModelCallStarted) == []
    open_now: dict[int, int] = {}
    used: dict[int, int] = {}
    settled = before
    in_flight: tuple[int, ...] | None = None
    """Those that were, when the budget was used up: what they took more than they had reserved is what it is overspent
    by."""
    for step in steps:
        if step.kind == "reserved":
            assert settled + sum(open_now.values()) + step.tokens <= limit, "let through without room"
            open_now[step.call] = step.tokens
        else:
            used[step.call] = step.tokens
            settled += step.tokens
            if settled > limit and in_flight is None:
                in_flight = tuple(open_now)
            open_now.pop(step.call)
    assert open_now == {}
    recorded = [call.usage.total_tokens for task in done for call in await bench.of(task, ModelCallCompleted)]
    assert sorted(recorded) == sorted(tokens for tokens in used.values() if tokens)
    assert await bench.spent("project", str(bench.ozzie.project)) == (ANY, settled)
    assert in_flight is not None
    overspent = settled - limit
    assert 0 < overspent <= sum(used[call] for call in in_flight)
    say(
        f"{len(done)} of 200 turns done, {len(refused)} told; room for {50 * reserved} tokens, "
        f"overspent {overspent}; {len(in_flight)} calls in flight when it was used up",
    )


async def test_the_log_still_verifies_and_its_tables_are_those_that_it_makes(bench: Bench) -> None:
    live = await bench.ozzie.log.dump()
    assert await bench.ozzie.log.rebuild() == live
