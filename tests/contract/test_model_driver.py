"""What every model driver promises, run over each of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.models.driver import (
    ChatMessage,
    Finished,
    ModelChoice,
    ModelDriver,
    ModelEvent,
    ModelRequest,
    ProviderAccess,
    TextDelta,
)
from ozzie_server_ext.models.foreign import ForeignWorkerDriver
from ozzie_server_ext.models.offline import OfflineDriver
from ozzie_server_ext.models.scripted import Say, ScriptedDriver, Wait
from ozzie_server_ext.models.worker_client import WORKER_ARGV, WorkerDriver
from ozzie_server_ext.planes.pool import Pool
from ozzie_server_ext.planes.supervisor import Supervisor
from tests.fakes.foreign_worker import FakeForeignWorker
from tests.fakes.openai_server import FakeOpenAI

# One loop for the module, because the worker takes seconds to start and serves all of it.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Subject:
    """A driver, the choice that reaches it, and two questions: one answered in a few deltas, one that goes on."""

    driver: ModelDriver
    choice: ModelChoice
    short: str = "Hello, what are you?"
    long: str = "Hello, what are you?"
    long_model: str = "m"

    def request(self, text: str) -> ModelRequest:
        message = ChatMessage(role="user", content=text)
        choice = replace(self.choice, model=self.long_model) if text == self.long else self.choice
        return ModelRequest(call_id=CallId("01JZZZZZZZZZZZZZZZZZZZZZZZ"), choice=choice, messages=(message,))


def choice(driver: str, model: str = "m") -> ModelChoice:
    return ModelChoice(alias="main", provider=driver, driver=driver, model=model)


def offline(*_: object) -> Subject:
    return Subject(OfflineDriver(pause_s=0.001), choice("offline"))


def scripted(*_: object) -> Subject:
    endless = [Say("a"), Wait(asyncio.Event()), Say("b")]
    short = [Say("a"), Say("b")]
    driver = ScriptedDriver([lambda request: endless if request.messages[-1].content == "go on" else short] * 10)
    return Subject(driver, choice("scripted"), long="go on")


def through_the_worker(worker: WorkerDriver, _: FakeForeignWorker) -> Subject:
    return Subject(worker, choice("openai", "paced-0-40-3"), long="go on", long_model="endless")


def foreign(_: WorkerDriver, worker: FakeForeignWorker) -> Subject:
    driver = ForeignWorkerDriver(lambda choice: ProviderAccess(driver=choice.driver, socket=worker.path))
    return Subject(driver, choice("worker", "lines"), long="go on", long_model="endless")


@pytest.fixture(scope="module")
def foreign_worker() -> Iterator[FakeForeignWorker]:
    with FakeForeignWorker() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerDriver]:
    """A worker that starts with its first call, in front of a provider on loopback."""
    log_file: Path = tmp_path_factory.mktemp("logs") / "model-worker.log"
    pool = Pool(lambda _: Supervisor("model worker", WORKER_ARGV, log_file=log_file), limit=lambda: 1)
    with FakeOpenAI() as server:
        yield WorkerDriver(pool, lambda _: ProviderAccess(driver="openai", base_url=server.base_url))
        await pool.stop()


@pytest_asyncio.fixture(params=[offline, scripted, through_the_worker, foreign], loop_scope="module")
async def subject(
    request: pytest.FixtureRequest, worker: WorkerDriver, foreign_worker: FakeForeignWorker
) -> AsyncIterator[Subject]:
    make: Callable[[WorkerDriver, FakeForeignWorker], Subject] = request.param
    made = make(worker, foreign_worker)
    yield made
    if isinstance(made.driver, ForeignWorkerDriver):
        await made.driver.close()


async def read(driver: ModelDriver, request: ModelRequest) -> list[ModelEvent]:
    return [event async for event in driver.generate(request)]


async def test_text_comes_in_pieces_and_then_finished_exactly_once(subject: Subject) -> None:
    events = await read(subject.driver, subject.request(subject.short))
    assert len(events) > 2
    assert all(isinstance(event, TextDelta) and event.text for event in events[:-1])
    assert isinstance(events[-1], Finished)


async def test_the_recorded_response_holds_the_whole_text(subject: Subject) -> None:
    events = await read(subject.driver, subject.request(subject.short))
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.response["text"] == "".join(event.text for event in events if isinstance(event, TextDelta))
    assert last.response["finish"] == last.finish == "stop"
    assert last.ttft_ms is not None


async def test_closing_the_iterator_ends_the_call_and_the_next_one_works(subject: Subject) -> None:
    stream = subject.driver.generate(subject.request(subject.long))
    assert isinstance(await anext(stream), TextDelta)
    await stream.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert isinstance((await read(subject.driver, subject.request(subject.short)))[-1], Finished)


async def test_cancelling_the_reader_ends_the_call_and_the_next_one_works(subject: Subject) -> None:
    begun = asyncio.Event()
    seen: list[ModelEvent] = []

    async def follow() -> None:
        async for event in subject.driver.generate(subject.request(subject.long)):
            seen.append(event)
            begun.set()

    reader = asyncio.create_task(follow())
    await asyncio.wait_for(begun.wait(), 30)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert not any(isinstance(event, Finished) for event in seen)
    assert isinstance((await read(subject.driver, subject.request(subject.short)))[-1], Finished)


async def test_two_calls_at_once_do_not_mix(subject: Subject) -> None:
    both = await asyncio.gather(*(read(subject.driver, subject.request(subject.short)) for _ in range(2)))
    for events in both:
        last = events[-1]
        assert isinstance(last, Finished)
        assert last.response["text"] == "".join(event.text for event in events if isinstance(event, TextDelta))
