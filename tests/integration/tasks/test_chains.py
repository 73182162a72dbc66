"""Chains, repetitions, cool-downs and limits in real turns: real litellm in the worker, two providers on loopback."""

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import (
    Event,
    EventBody,
    MessageCompleted,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    Origin,
    TaskFailed,
    Transient,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.tasks.service import NewTurn
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Answer, Refusal, Silence

# One loop for the module, because the worker takes seconds to start and serves all of it.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

WAIT_S = 40
KEY = "A_KEY_OF_THIS_TEST"
ENDS = ("task.succeeded", "task.failed", "task.cancelled")


@dataclass
class Bench:
    """One Ozzie, whose models are configured anew by each test, and its providers."""

    ozzie: Ozzie
    home: Home
    first: FakeOpenAI
    second: FakeOpenAI
    numbers: Iterator[int]

    def configure(self, **models: Any) -> None:
        """`first` and `second` are providers; `models` what else stands beside them."""
        providers = {
            "first": {"driver": "openai", "model": "echo", "base_url": f"{self.first.url}/v1"},
            "second": {"driver": "openai", "model": "echo", "base_url": f"{self.second.url}/v1"},
        }
        for name, changed in models.pop("providers", {}).items():
            providers[name] = {**providers.get(name, providers["first"]), **changed}
        tree = {"default": "main", "aliases": {"main": ["first", "second"]}, "retry": {"backoff_ms": 1}, **models}
        text = json.dumps({"models": {**tree, "providers": providers}})
        # A number behind the text, or a configuration like the last one would not count as new.
        (self.home.root / "config.jsonc").write_text(f"{text} // {next(self.numbers)}")
        for fake in (self.first, self.second):
            fake.forget()

    async def submit(self, text: str) -> TaskId:
        session = await self.ozzie.sessions.open(f"{next(self.numbers)}", title="test", channel="test")
        return (await self.ozzie.submit(NewTurn(session.session_id, text, Origin(channel="test")))).task_id

    async def ask(self, text: str = "Say it.") -> list[EventBody]:
        """A turn in a session of its own, to its end: what was recorded of it."""
        task_id = await self.submit(text)
        await self.ended(task_id)
        return [event.body for event in await self.events(task_id)]

    async def ended(self, task_id: TaskId) -> None:
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=frozenset(ENDS), task_id=task_id) as end:
            await anext(end)

    async def events(self, task_id: TaskId) -> tuple[Event, ...]:
        return await self.ozzie.log.read_stream(task_stream(task_id))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("chains")
    with pytest.MonkeyPatch.context() as patch, FakeOpenAI() as first, FakeOpenAI() as second:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "user-config"))
        patch.delenv(KEY, raising=False)
        (folder / "project").mkdir()
        home = Home(folder / "home")
        home.create()
        ozzie = await Ozzie.start(home, folder / "project")
        try:
            yield Bench(ozzie, home, first, second, itertools.count())
        finally:
            await ozzie.stop()


@pytest.fixture
def bench(running: Bench) -> Bench:
    running.configure()
    return running


def of(kind: type[EventBody], bodies: list[EventBody]) -> list[Any]:
    return [body for body in bodies if isinstance(body, kind)]


def calls(bodies: list[EventBody]) -> list[tuple[str, int, str]]:
    return [(body.provider, body.attempt, body.instead_of) for body in of(ModelCallStarted, bodies)]


async def test_what_fails_for_a_moment_is_asked_again_and_said_once(bench: Bench) -> None:
    bench.first.queue(Refusal(status=500), Answer(pieces=["Here ", "it is."]))

    bodies = await bench.ask()

    assert calls(bodies) == [("first", 1, ""), ("first", 2, "")]
    assert [body.code for body in of(ModelCallFailed, bodies)] == ["provider.server"]
    assert [body.text for body in of(MessageCompleted, bodies)] == ["Here it is."]
    assert len(bench.first.requests) == 2
    assert bench.second.requests == []


async def test_a_dead_provider_is_replaced_by_the_next_and_not_asked_while_it_cools_down(bench: Bench) -> None:
    bench.configure(providers={"first": {"base_url": "http://127.0.0.1:9/v1"}})

    one, two = await bench.ask("one"), await bench.ask("two")

    assert calls(one) == [("first", 1, ""), ("second", 2, "first")]
    assert calls(two) == [("second", 1, "first")], "it has just failed"
    assert [body.text for body in of(MessageCompleted, [*one, *two])] == ["one", "two"]
    assert len(bench.second.requests) == 2, "each message was sent once to the one that answers"
    assert [body.alias for body in of(ModelCallStarted, two)] == ["main"]


async def test_a_worker_that_is_lost_before_any_word_is_an_attempt_and_the_next_one_answers(bench: Bench) -> None:
    await bench.ask("Start the worker.")
    bench.first.forget()
    bench.first.queue(Silence())
    task = await bench.submit("Say it.")
    await asyncio.to_thread(bench.first.wait_for, lambda fake: len(fake.requests) == 1, seconds=WAIT_S)
    for row in await bench.ozzie.log.rows("workers", where={"status": "running"}):
        os.kill(int(str(row["pid"])), signal.SIGKILL)
    await bench.ended(task)

    bodies = [event.body for event in await bench.events(task)]
    assert calls(bodies) == [("first", 1, ""), ("first", 2, "")], "each is a call of its own, with its cost"
    assert [body.code for body in of(ModelCallFailed, bodies)] == ["worker.lost"]
    assert [body.text for body in of(MessageCompleted, bodies)] == ["Say it."]


async def kill_worker_in(bench: Bench, task_id: TaskId, *, but: str = "") -> str:
    """Kill the model worker once a reply other than `but` has begun; return the id of that reply."""
    wanted, reply_id = frozenset({"reply.delta"}), but
    async with asyncio.timeout(WAIT_S), bench.ozzie.feed.subscribe(0, types=wanted, task_id=task_id) as live:
        async for each in live:
            reply_id = str(each.payload["reply_id"]) if isinstance(each, Transient) else but
            if reply_id != but:
                break
    for row in await bench.ozzie.log.rows("workers", where={"status": "running"}):
        os.kill(int(str(row["pid"])), signal.SIGKILL)
    return reply_id


HALF = Answer(pieces=["Half of "], endless=True, gap_s=0.02)


async def test_an_answer_whose_worker_is_lost_in_the_middle_of_it_is_asked_for_once_more(bench: Bench) -> None:
    await bench.ask("Start the worker.")
    bench.first.forget()
    bench.first.queue(HALF, Answer(pieces=["All of it."]))
    task_id = await bench.submit("Say it.")
    wanted = frozenset({"reply.reset"})
    async with asyncio.timeout(WAIT_S), bench.ozzie.feed.subscribe(0, types=wanted, task_id=task_id) as live:
        dropped = await kill_worker_in(bench, task_id)
        reset = await anext(live)
    assert isinstance(reset, Transient)
    assert reset.payload == {"reply_id": dropped}
    await bench.ended(task_id)

    bodies = [event.body for event in await bench.events(task_id)]
    assert calls(bodies) == [("first", 1, ""), ("first", 2, "")]
    (failed,) = of(ModelCallFailed, bodies)
    assert (failed.code, failed.partial_blob is None) == ("worker.lost", False)
    assert b"Half of " in await bench.ozzie.blobs.get(failed.partial_blob)
    assert [(body.text, body.finish) for body in of(MessageCompleted, bodies)] == [("All of it.", "stop")]


async def test_if_the_next_worker_is_lost_in_it_too_the_turn_ends_and_what_came_is_kept(bench: Bench) -> None:
    await bench.ask("Start the worker.")
    bench.first.forget()
    bench.first.queue(HALF, HALF)
    task_id = await bench.submit("Say it.")
    first = await kill_worker_in(bench, task_id)
    await kill_worker_in(bench, task_id, but=first)
    await bench.ended(task_id)

    bodies = [event.body for event in await bench.events(task_id)]
    assert [body.code for body in of(ModelCallFailed, bodies)] == ["worker.lost", "worker.lost"]
    (kept,) = of(MessageCompleted, bodies)
    assert (kept.text.startswith("Half of "), kept.finish) == (True, "failed")
    (end,) = of(TaskFailed, bodies)
    assert end.message == '"first" stopped in the middle of its answer. What came is kept.'


async def test_a_failing_provider_is_asked_twice_at_most_while_another_can_answer(bench: Bench) -> None:
    bench.first.queue(*[Refusal(status=500)] * 9)

    bodies = await bench.ask()

    assert calls(bodies) == [("first", 1, ""), ("first", 2, ""), ("second", 3, "first")]
    assert len(bench.first.requests) == 2


async def test_a_changed_configuration_ends_a_cool_down(bench: Bench) -> None:
    bench.first.queue(*[Refusal(status=500)] * 9)
    await bench.ask()

    bench.configure(cool_down_s=31)

    assert calls(await bench.ask()) == [("first", 1, "")]


async def test_an_answer_that_broke_off_is_not_asked_for_anywhere_else(bench: Bench) -> None:
    bench.first.queue(Answer(pieces=["Half "], breaks=True))

    bodies = await bench.ask()

    assert calls(bodies) == [("first", 1, "")]
    assert [(body.text, body.finish) for body in of(MessageCompleted, bodies)] == [("Half ", "failed")]
    assert bench.second.requests == []


async def test_a_provider_without_its_key_is_passed_over(bench: Bench) -> None:
    bench.configure(providers={"first": {"auth": {"type": "api_key", "env": KEY}}})

    assert calls(await bench.ask()) == [("second", 1, "first")]


async def test_where_all_fail_the_first_ones_error_is_told_with_what_became_of_the_others(bench: Bench) -> None:
    bench.first.queue(Refusal(status=403))
    bench.second.queue(Refusal(status=404, code="model_not_found"))

    (failed,) = of(TaskFailed, await bench.ask())

    assert failed.code == "provider.forbidden"
    assert failed.message == (
        'The model provider does not let this key use "first" (echo). '
        '"second", asked in its place: The model provider knows no model "echo", which "second" names.'
    )


async def test_a_provider_that_was_asked_for_by_its_own_name_is_not_replaced(bench: Bench) -> None:
    bench.configure(default="first", aliases={"fallback": "second"})
    bench.first.queue(Refusal(status=403), Refusal(status=403))
    session = await bench.ozzie.sessions.open("chosen", title="test", channel="test")
    submitted = await bench.ozzie.submit(NewTurn(session.session_id, "hello", Origin(channel="test"), model="first"))
    await bench.ended(submitted.task_id)

    chosen = [event.body for event in await bench.events(submitted.task_id)]
    by_default = await bench.ask()

    assert calls(chosen) == [("first", 1, "")]
    assert calls(by_default) == [("second", 1, "first")], "the default has the alias fallback behind it"


async def test_an_empty_answer_is_asked_for_from_the_stronger_model(bench: Bench) -> None:
    bench.configure(aliases={"main": "first"}, upgrade={"main": "second"})
    bench.first.queue(Answer())

    bodies = await bench.ask("Say it.")

    assert calls(bodies) == [("first", 1, ""), ("second", 2, "first")]
    assert len(of(ModelCallCompleted, bodies)) == 2, "both are billed"
    assert [body.text for body in of(MessageCompleted, bodies)] == ["Say it."]


async def test_a_busy_provider_is_waited_for_as_long_as_it_asks(bench: Bench) -> None:
    bench.configure(aliases={"main": "first"})
    bench.first.queue(Refusal(status=429, retry_s=1))
    task_id = await bench.submit("Say it.")
    async with (
        asyncio.timeout(WAIT_S),
        bench.ozzie.feed.subscribe(0, types=frozenset({"task.progress", *ENDS}), task_id=task_id) as news,
    ):
        told = [item async for item in take_until_end(news)]
    started = [event for event in await bench.events(task_id) if isinstance(event.body, ModelCallStarted)]

    assert 'trying again in 1 s: "main" is busy.' in told
    assert (started[1].ts - started[0].ts).total_seconds() >= 1


async def take_until_end(news: AsyncIterator[Any]) -> AsyncIterator[str]:
    async for item in news:
        if not isinstance(item, Transient):
            return
        yield str(item.payload.get("step", ""))


async def test_all_turns_share_a_providers_limit_of_calls_at_once(bench: Bench) -> None:
    bench.configure(aliases={"main": "first"}, providers={"first": {"model": "endless", "limits": {"parallel": 1}}})
    one = await bench.submit("one")
    await asyncio.to_thread(bench.first.wait_for, lambda fake: len(fake.requests) == 1, seconds=WAIT_S)
    two = await bench.submit("two")
    async with (
        asyncio.timeout(WAIT_S),
        bench.ozzie.feed.subscribe(0, types=frozenset({"task.progress"}), task_id=two) as news,
    ):
        async for item in news:
            if isinstance(item, Transient) and "waiting for a place" in str(item.payload):
                break

    assert len(bench.first.requests) == 1
    await bench.ozzie.tasks.cancel(one, by="test")
    await asyncio.to_thread(bench.first.wait_for, lambda fake: len(fake.requests) == 2, seconds=WAIT_S)
    await bench.ozzie.tasks.cancel(two, by="test")
    await bench.ended(two)
    # An abort closes the connection to the provider, which may see it after the turn's end is recorded.
    await asyncio.to_thread(bench.first.wait_for, lambda fake: len(fake.disconnects) == 2, seconds=WAIT_S)
