"""A foreign worker at a real socket that knows only the worker protocol: its requests, and every possible answer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.models.driver import (
    ChatMessage,
    ModelChoice,
    ModelError,
    ModelEvent,
    ModelRequest,
    ProviderAccess,
)
from ozzie_server_ext.models.foreign import ForeignWorkerDriver
from tests.fakes.foreign_worker import FakeForeignWorker
from tests.integration.models.rig import finished, text_of

WAIT_S = 20


@pytest.fixture
def worker() -> Iterator[FakeForeignWorker]:
    with FakeForeignWorker() as running:
        yield running


def driver_at(path: str, *, wait_s: float = 10.0) -> ForeignWorkerDriver:
    access = ProviderAccess(driver="worker", socket=path, first_s=wait_s, next_s=wait_s)
    return ForeignWorkerDriver(lambda _: access)


@pytest.fixture
async def driver(worker: FakeForeignWorker) -> AsyncIterator[ForeignWorkerDriver]:
    made = driver_at(worker.path)
    yield made
    await made.close()


def request(model: str, *messages: ChatMessage, max_tokens: int | None = None) -> ModelRequest:
    choice = ModelChoice(alias="gemma", provider="gemma", driver="worker", model=model, max_tokens=max_tokens)
    return ModelRequest(
        call_id=CallId("01JZZZZZZZZZZZZZZZZZZZZZZZ"),
        choice=choice,
        messages=messages or (ChatMessage(role="user", content="hello"),),
    )


async def read(driver: ForeignWorkerDriver, asked: ModelRequest, into: list[ModelEvent]) -> list[ModelEvent]:
    async with asyncio.timeout(WAIT_S):
        async for event in driver.generate(asked):
            into.append(event)
    return into


async def failure(driver: ForeignWorkerDriver, model: str) -> tuple[ModelError, str]:
    events: list[ModelEvent] = []
    with pytest.raises(ModelError) as caught:
        await read(driver, request(model), events)
    await driver.close()
    return caught.value, text_of(events)


# --- what it is asked ---------------------------------------------------------------------------------


async def test_it_is_asked_in_the_specifications_words_each_on_a_connection_of_its_own(
    worker: FakeForeignWorker, driver: ForeignWorkerDriver
) -> None:
    await read(driver, request("lines", max_tokens=50), [])
    await driver.close()

    assert worker.seen == [
        [{"type": "create_session", "params": {"model": "lines", "max_tokens": 50}}],
        [{"type": "generate", "session_id": "s0", "prompt": "hello", "stream": True}],
        [{"type": "close_session", "session_id": "s0"}],
    ]


async def test_a_worker_that_names_no_session_gets_our_name_for_it() -> None:
    with FakeForeignWorker(names_sessions=False) as worker:
        driver = driver_at(worker.path)
        await read(driver, request("m"), [])
        await driver.close()

        asked = {message.get("session_id") for message in worker.messages if message["type"] != "create_session"}
        assert asked == {"01JZZZZZZZZZZZZZZZZZZZZZZZ"}


async def test_the_conversation_goes_as_one_text(worker: FakeForeignWorker, driver: ForeignWorkerDriver) -> None:
    said = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content="I am Ana."),
        ChatMessage(role="assistant", content="Hello Ana."),
        ChatMessage(role="user", content="Who am I?"),
    ]

    await read(driver, request("m", *said), [])

    prompt = next(message["prompt"] for message in worker.messages if message["type"] == "generate")
    assert prompt == "Be brief.\n\nUser: I am Ana.\n\nAssistant: Hello Ana.\n\nUser: Who am I?\n\nAssistant:"


async def test_a_worker_that_does_not_read_what_it_is_asked_is_let_go_of(tmp_path: Path) -> None:
    prompt = "x" * 900_000  # more than a socket holds
    arrived: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    let_go = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begin = await reader.read(40)
        if b"generate" in begin:
            await let_go.wait()
            arrived.set_result(await reader.read())
        else:
            writer.write(b'{"ok": true, "session_id": "s"}\n')
        writer.close()

    path = str(tmp_path / "s")
    async with await asyncio.start_unix_server(serve, path, limit=1024):
        driver = driver_at(path, wait_s=0.2)
        with pytest.raises(ModelError) as caught:
            await read(driver, request("m", ChatMessage(role="user", content=prompt)), [])
        let_go.set()
        async with asyncio.timeout(WAIT_S):
            rest = await arrived
        await driver.close()

    assert caught.value.code == "provider.timeout"
    assert len(rest) < len(prompt), "the connection stood until the worker had read all"


async def test_a_burst_of_lines_does_not_stop_the_loop(tmp_path: Path) -> None:
    lines = 20_000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = b"generate" in await reader.readline()
        writer.write(b"\n" * lines + b'{"type": "stop"}\n' if asked else b'{"ok": true, "session_id": "s"}\n')
        await writer.drain()
        writer.close()

    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    path = str(tmp_path / "s")
    async with await asyncio.start_unix_server(serve, path):
        driver = driver_at(path)
        counting = asyncio.ensure_future(count())
        answer = driver.generate(request("m"))
        await anext(answer)
        begun = turns
        async with asyncio.timeout(WAIT_S):
            events = [event async for event in answer]
        counting.cancel()
        await driver.close()

    assert len(events) == lines
    assert turns - begun > lines // 100


# --- what it may say ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("lines", "one\ntwo\nthree\n"),
        ("crlf", "one\ntwo\n"),
        ("tokens", "Hello\n"),
        ("mixed", "Hello\nplain\nagain"),
        ("empty-lines", "\none\n\n\ntwo\n"),
        ("json-lines", '42\n"x"\n{"a": 1}\n[1]\nnull\n{"type":"dance"}\n{"type":"token"}\n{"ok":true}\n'),
        ("acknowledged", "yes\n"),
        ("own-fields", "hi\n"),
        ("nothing", ""),
        ("bad-bytes", "caf\ufffd \ufffd\n"),
    ],
)
async def test_an_answer_is_taken_as_it_stands(driver: ForeignWorkerDriver, model: str, text: str) -> None:
    events = await read(driver, request(model), [])

    assert text_of(events) == text
    assert (finished(events).finish, finished(events).cost) == ("stop", None)


async def test_what_a_worker_tells_of_its_end_is_kept(driver: ForeignWorkerDriver) -> None:
    last = finished(await read(driver, request("counted"), []))

    assert (last.finish, last.usage) == ("length", Usage(input_tokens=3, output_tokens=2))


@pytest.mark.parametrize(
    ("model", "code", "text", "detail"),
    [
        ("refuses-sessions", "worker.refused", "", "No such model."),
        ("refuses", "worker.refused", "", "The model is not loaded."),
        ("refuses-within", "worker.refused", "so far\n", "Out of memory."),
        ("fails", "worker.refused", "so far\n", "CUDA ran out of memory."),
        ("answers-in-prose", "provider.garbage", "", "Hello, I am a worker."),
        ("cut", "provider.broken_stream", "so far\n", "The worker closed the connection."),
        ("cut-within-a-line", "provider.broken_stream", "so far\nand th", "The worker closed the connection."),
        ("cut-at-once", "provider.broken_stream", "", "The worker closed the connection."),
        ("long-line", "provider.garbage", "", "A line is longer than 1,048,576 bytes."),
    ],
)
async def test_a_failure_has_its_code_and_the_workers_own_words(
    driver: ForeignWorkerDriver, model: str, code: str, text: str, detail: str
) -> None:
    error, had_come = await failure(driver, model)

    assert (error.code, had_come, error.detail) == (code, text, detail)
    assert error.streamed is bool(text)


@pytest.mark.parametrize("model", ["silent-at-once", "silent", "silent-within"])
async def test_silence_runs_into_the_time_out_and_the_answer_is_aborted(worker: FakeForeignWorker, model: str) -> None:
    error, text = await failure(driver_at(worker.path, wait_s=0.3), model)

    assert (error.code, text) == ("provider.timeout", "so far\n" if model == "silent-within" else "")
    said = [message["type"] for message in worker.messages]
    if model != "silent-at-once":
        assert said == ["create_session", "generate", "abort", "close_session"]


async def test_a_stopped_answer_is_aborted_on_a_connection_of_its_own(
    worker: FakeForeignWorker, driver: ForeignWorkerDriver
) -> None:
    stream = driver.generate(request("endless"))
    await asyncio.wait_for(anext(stream), WAIT_S)

    await stream.aclose()

    await asyncio.to_thread(
        worker.wait_for, lambda seen: [message["type"] for message in seen.messages][2:] == ["abort", "close_session"]
    )
    assert [len(connection) for connection in worker.seen] == [1, 1, 1, 1]
    await asyncio.to_thread(worker.wait_for, lambda seen: seen.gone == ["s0"])


# --- who answers --------------------------------------------------------------------------------------


async def test_a_socket_that_is_not_there_is_told_with_its_path(tmp_path: Path) -> None:
    error, _ = await failure(driver_at(str(tmp_path / "none.sock")), "m")

    assert error.code == "provider.unreachable"
    assert str(error) == f'No worker answers for "gemma" at {tmp_path}/none.sock.'
    assert "socket in the configuration" in error.hint


async def test_a_socket_that_a_dead_worker_left_is_told_the_same(tmp_path: Path) -> None:
    server = await asyncio.start_unix_server(lambda *_: None, str(tmp_path / "left.sock"))
    server.close()
    await server.wait_closed()
    if not (tmp_path / "left.sock").exists():  # newer Pythons remove it
        import socket

        left = socket.socket(socket.AF_UNIX)
        left.bind(str(tmp_path / "left.sock"))
        left.close()

    error, _ = await failure(driver_at(str(tmp_path / "left.sock")), "m")

    assert error.code == "provider.unreachable"


async def test_a_worker_of_another_user_is_told_nothing(worker: FakeForeignWorker) -> None:
    access = ProviderAccess(driver="worker", socket=worker.path)
    asked: list[int | None] = []

    def stranger(uid: int | None) -> bool:
        asked.append(uid)
        return False

    error, _ = await failure(ForeignWorkerDriver(lambda _: access, trusts=stranger), "m")

    assert error.code == "worker.stranger"
    assert "belongs to another user" in str(error)
    assert asked == [worker.folder.stat().st_uid], "Who listens was asked of the system."
    assert worker.messages == []
