"""`ozzie worker` as a process: asked by raw lines as in S2's examples, and by our own driver for foreign workers."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.models.driver import (
    ChatMessage,
    ModelChoice,
    ModelError,
    ModelEvent,
    ModelRequest,
    ProviderAccess,
    TextDelta,
)
from ozzie_server_ext.models.foreign import ForeignWorkerDriver
from ozzie_server_ext.models.scripted import ScriptedDriver
from ozzie_server_ext.observability.clock import CountingIds
from ozzie_server_ext.programs.worker_server import WorkerServer, listening
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.replies import Refusal
from tests.integration.models.rig import finished, text_of
from tests.rig import GatewayHome, new_home

WAIT_S = 40
PROGRAM = (sys.executable, "-P", "-m", "ozzie_server_ext.cli.main", "worker")
KEY = "sk-worker-0123456789"


class Running:
    """A worker in a process of its own."""

    def __init__(self, home: GatewayHome, path: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [*PROGRAM, "--socket", str(path), *arguments],
            cwd=home.project,
            env={**home.env, **(env or {})},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()

    def talk(self, *messages: dict[str, Any] | str) -> list[dict[str, Any]]:
        """One connection: says all, closes its side, and reads to the end."""
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(WAIT_S)
            end.connect(str(self.path))
            for message in messages:
                line = message if isinstance(message, str) else json.dumps(message)
                end.sendall(line.encode() + b"\n")
            end.shutdown(socket.SHUT_WR)
            with end.makefile() as answers:
                return [json.loads(line) for line in answers]

    def session(self, **params: str) -> str:
        [answer] = self.talk({"type": "create_session", "params": params})
        assert answer["ok"] is True
        return answer["session_id"]

    def ask(self, session_id: str, prompt: str) -> str:
        """The whole answer; the last line must be a stop, the others tokens."""
        *tokens, last = self.talk({"type": "generate", "session_id": session_id, "prompt": prompt, "stream": True})
        assert {token["type"] for token in tokens} <= {"token"}
        assert (last["type"], last["finish"]) == ("stop", "stop")
        return "".join(token["text"] for token in tokens)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(20)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> GatewayHome:
    return new_home(tmp_path_factory.mktemp("worker"))


@pytest.fixture(scope="module")
def worker(place: GatewayHome, fake_openai_server: FakeOpenAI) -> Iterator[Running]:
    """One that answers through a provider on loopback."""
    provider = {"driver": "openai", "base_url": fake_openai_server.base_url}
    place.configure(
        {
            "models": {
                "default": "main",
                "providers": {
                    "main": {**provider, "model": "echo", "auth": {"type": "api_key", "env": "WORKER_KEY"}},
                    "endless": {**provider, "driver": "vllm", "model": "endless"},
                    "gemma": {"driver": "worker", "model": "gemma"},
                },
            }
        }
    )
    running = Running(place, place.runtime / "own" / "w.sock", env={"WORKER_KEY": KEY})
    yield running
    assert running.stop() == 0


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[Running]:
    running = Running(new_home(tmp_path), tmp_path / "own" / "w.sock")
    yield running
    running.stop()


# --- raw lines ----------------------------------------------------------------------------------------


def test_it_says_what_answers_and_where(worker: Running) -> None:
    assert worker.said == f'"main" (openai/echo) answers at {worker.path}. Stop with Ctrl-C.\n'
    assert stat.S_IMODE(worker.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(worker.path.parent.stat().st_mode) == 0o700


def test_a_session_keeps_its_history(worker: Running, fake_openai: FakeOpenAI) -> None:
    session = worker.session(system="Be brief.")

    assert worker.ask(session, "my name is Ana") == "my name is Ana"
    assert worker.ask(session, "what is my name?") == "what is my name?"

    [_, asked] = fake_openai.requests
    assert [(message["role"], message["content"]) for message in asked.body["messages"]] == [
        ("system", "Be brief."),
        ("user", "my name is Ana"),
        ("assistant", "my name is Ana"),
        ("user", "what is my name?"),
    ]
    assert asked.headers["authorization"] == f"Bearer {KEY}"


def test_sessions_of_several_clients_do_not_mix(worker: Running, fake_openai: FakeOpenAI) -> None:
    sessions = [worker.session() for _ in range(4)]
    answers: dict[str, str] = {}

    def follow(session: str) -> None:
        for number in range(2):
            answers[f"{session} {number}"] = worker.ask(session, f"I am {session} {number}")

    clients = [threading.Thread(target=follow, args=(session,)) for session in sessions]
    for client in clients:
        client.start()
    for client in clients:
        client.join(WAIT_S)

    assert answers == {f"{session} {n}": f"I am {session} {n}" for session in sessions for n in range(2)}
    for request in fake_openai.requests:
        said = [message["content"] for message in request.body["messages"]]
        assert len({text.split()[2] for text in said}) == 1


def test_status_and_close_are_answered_and_a_closed_session_is_gone(worker: Running) -> None:
    session = worker.session()

    [state] = worker.talk({"type": "status"})
    assert (state["ok"], state["model"], state["answering"]) == (True, "main", 0)
    assert state["sessions"] >= 1
    assert worker.talk({"type": "close_session", "session_id": session}) == [{"ok": True}]
    [refused] = worker.talk({"type": "generate", "session_id": session, "prompt": "hello", "stream": True})
    assert refused == {"ok": False, "error": f'There is no session "{session}". Begin one with create_session.'}


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        "42",
        "{",
        '{"type":"status","type":"status"}',
        {"type": "dance"},
        {"type": "create_session"},
        {"type": "create_session", "params": []},
        {"type": "create_session", "params": {"system": 7}},
        {"type": "generate", "prompt": "hello"},
        {"type": "generate", "session_id": "s"},
        {"type": "generate", "session_id": 7, "prompt": "hello"},
        {"type": "generate", "session_id": "nobody", "prompt": "hello"},
        {"type": "abort"},
        {"type": "abort", "session_id": "nobody"},
        {"type": "close_session", "session_id": "nobody"},
        {"type": "configure", "providers": {}},
    ],
    ids=str,
)
def test_a_request_that_is_none_is_refused_and_the_connection_goes_on(
    worker: Running, message: dict[str, Any] | str
) -> None:
    refused, state = worker.talk(message, {"type": "status"})

    assert refused["ok"] is False
    assert refused["error"].endswith(".")
    assert state["ok"] is True


def test_an_answer_without_a_stream_comes_in_one_line(worker: Running) -> None:
    session = worker.session()

    assert worker.talk({"type": "generate", "session_id": session, "prompt": "all at once", "stream": False}) == [
        {"ok": True, "text": "all at once", "finish": "stop"}
    ]


def test_a_provider_that_fails_is_an_error_event_in_words_and_not_part_of_the_history(
    worker: Running, fake_openai: FakeOpenAI
) -> None:
    session = worker.session()
    fake_openai.queue(Refusal(status=401, message=f"Wrong key {KEY}."))

    [error] = worker.talk({"type": "generate", "session_id": session, "prompt": "first", "stream": True})

    assert error == {
        "type": "error",
        "message": 'The model provider refused the key for "main".',
        "code": "provider.auth",
    }
    worker.ask(session, "second")
    assert [message["content"] for message in fake_openai.requests[-1].body["messages"]] == ["second"]


def test_an_abort_on_another_connection_ends_the_answer(
    place: GatewayHome, fake_openai: FakeOpenAI, worker: Running
) -> None:
    path = place.runtime / "endless" / "w.sock"
    running = Running(place, path, "--model", "endless", env={"HOSTED_VLLM_API_KEY": "sk-from-the-environment"})
    try:
        session = running.session()
        with socket.socket(socket.AF_UNIX) as end:
            end.settimeout(WAIT_S)
            end.connect(str(running.path))
            generate = {"type": "generate", "session_id": session, "prompt": "go on", "stream": True}
            end.sendall(json.dumps(generate).encode() + b"\n")
            with end.makefile() as answers:
                assert json.loads(answers.readline())["type"] == "token"
                [busy] = running.talk(generate)
                assert busy["error"].startswith(f'The session "{session}" is answering already.')
                assert running.talk({"type": "abort", "session_id": session}) == [{"ok": True}]
                last = next(json.loads(line) for line in answers if '"stop"' in line)
        assert last == {"type": "stop", "finish": "cancelled"}
        fake_openai.wait_for(lambda fake: fake.disconnects == ["endless"])
        assert "sk-from-the-environment" not in str(fake_openai.requests[0].headers), "Nobody gave this key to it."
    finally:
        assert running.stop() == 0


# --- what answers -------------------------------------------------------------------------------------


def test_where_nothing_is_configured_the_offline_script_answers_and_says_what_it_is(offline: Running) -> None:
    assert "not a language model" in offline.said
    answer = offline.ask(offline.session(), "hello")
    assert "Offline script, not a language model." in answer
    assert [state["model"] for state in offline.talk({"type": "status"})] == ["offline"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--model", "nonesuch"), 'There is no model "nonesuch".'),
        (("--model", "main"), "WORKER_KEY is not set."),
        (("--model", "gemma"), '"gemma" is a worker itself.'),
        (
            ("--model", "offline", "--socket", "/proc/nowhere/w.sock"),
            "for the socket can't be made:",
        ),
        (("--model", "offline", "--socket", "/" + "x" * 200), "The path of the socket is longer than 107 bytes."),
        (("--json",), "ozzie worker prints no JSON."),
    ],
    ids=str,
)
@pytest.mark.usefixtures("worker")
def test_what_can_not_be_served_is_told_in_a_sentence(
    place: GatewayHome, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    given = arguments if "--socket" in arguments else ("--socket", str(tmp_path / "own" / "w.sock"), *arguments)
    done = subprocess.run(
        [*PROGRAM, *given], cwd=place.project, env=dict(place.env), capture_output=True, text=True, timeout=WAIT_S
    )

    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


# --- the socket ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_removes_the_socket(tmp_path: Path, number: signal.Signals) -> None:
    running = Running(new_home(tmp_path), tmp_path / "own" / "w.sock")

    assert running.stop(number) == 0
    assert not running.path.exists()


def test_a_socket_of_a_dead_worker_is_taken_over_and_one_of_a_living_is_not(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    first = Running(home, tmp_path / "own" / "w.sock")
    first.process.kill()
    first.stop()
    assert first.path.exists()

    second = Running(home, first.path)
    try:
        again = subprocess.run(
            [*PROGRAM, "--socket", str(first.path)], env=dict(home.env), capture_output=True, text=True, timeout=WAIT_S
        )
        assert second.ask(second.session(), "hello")
        assert again.returncode == 1
        assert f"A worker listens at {first.path} already." in again.stderr
    finally:
        second.stop()


def test_a_folder_that_others_may_enter_is_no_place_for_a_socket(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)

    with pytest.raises(Unavailable, match="Others may enter") as caught, listening(tmp_path / "open" / "w.sock"):
        pass

    assert "ozzie worker --socket" in caught.value.hint


def test_what_is_no_socket_is_left_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "own" / "w.sock").write_text("mine")

    with pytest.raises(Unavailable, match="is not a socket"), listening(tmp_path / "own" / "w.sock"):
        pass

    assert (tmp_path / "own" / "w.sock").read_text() == "mine"


async def test_a_client_of_another_user_is_closed_before_its_first_byte_is_read(tmp_path: Path) -> None:
    choice = ModelChoice(alias="m", provider="scripted", driver="scripted", model="m")
    asked: list[int | None] = []

    def stranger(uid: int | None) -> bool:
        asked.append(uid)
        return False

    server = WorkerServer(ScriptedDriver([]), choice, CountingIds(), max_history=10, trusts=stranger)
    with listening(tmp_path / "own" / "w.sock") as end:
        accepting = await asyncio.start_unix_server(server.accept, sock=end)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "own" / "w.sock"))
        writer.write(b'{"type":"status"}\n')
        try:
            answer = await asyncio.wait_for(reader.read(), WAIT_S)
        except ConnectionResetError:
            answer = b""
        writer.close()
        accepting.close()
        await server.stop()

    assert (answer, asked) == (b"", [os.getuid()])


class Broken:
    """A model that fails as none should."""

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta("so far")
        raise RuntimeError("a mistake of ours")


@pytest.mark.parametrize("streams", [True, False])
async def test_an_answer_that_fails_by_a_mistake_of_ours_has_an_end_all_the_same(tmp_path: Path, streams: bool) -> None:
    choice = ModelChoice(alias="m", provider="scripted", driver="scripted", model="m")
    server = WorkerServer(Broken(), choice, CountingIds(), max_history=10)
    with listening(tmp_path / "own" / "w.sock") as end:
        accepting = await asyncio.start_unix_server(server.accept, sock=end)
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "own" / "w.sock"))
        async with asyncio.timeout(WAIT_S):
            writer.write(b'{"type":"create_session","params":{}}\n')
            session = json.loads(await reader.readline())["session_id"]
            asked = {"type": "generate", "session_id": session, "prompt": "x", "stream": streams}
            writer.write(json.dumps(asked).encode() + b"\n")
            writer.write_eof()
            *_, last = [json.loads(line) async for line in reader]
        writer.close()
        accepting.close()
        await server.stop()

    said = "The answer was cut off."
    assert last == ({"type": "error", "message": said} if streams else {"ok": False, "error": said})


# --- through our own driver ---------------------------------------------------------------------------


@pytest.fixture
def request_of() -> Callable[..., ModelRequest]:
    def make(*messages: ChatMessage) -> ModelRequest:
        choice = ModelChoice(alias="gemma", provider="gemma", driver="worker", model="gemma")
        return ModelRequest(call_id=CallId("01JZZZZZZZZZZZZZZZZZZZZZZZ"), choice=choice, messages=messages)

    return make


async def test_our_own_driver_reaches_a_provider_through_it(
    worker: Running, fake_openai: FakeOpenAI, request_of: Callable[..., ModelRequest]
) -> None:
    driver = ForeignWorkerDriver(lambda _: ProviderAccess(driver="worker", socket=str(worker.path)))

    events = [event async for event in driver.generate(request_of(ChatMessage(role="user", content="hello you")))]
    await driver.close()

    assert text_of(events) == "hello you"
    assert finished(events).usage.input_tokens == 11, "What our own worker tells beyond S2 is understood."
    [asked] = fake_openai.requests
    assert asked.body["messages"] == [{"role": "user", "content": "hello you"}]


async def test_a_failure_behind_it_comes_in_its_words(
    worker: Running, fake_openai: FakeOpenAI, request_of: Callable[..., ModelRequest]
) -> None:
    fake_openai.queue(Refusal(status=500))
    driver = ForeignWorkerDriver(lambda _: ProviderAccess(driver="worker", socket=str(worker.path)))

    with pytest.raises(ModelError) as caught:
        async for _ in driver.generate(request_of(ChatMessage(role="user", content="hello"))):
            pass
    await driver.close()

    assert caught.value.code == "worker.refused"
    assert 'The model provider of "main" failed while answering.' in str(caught.value)
