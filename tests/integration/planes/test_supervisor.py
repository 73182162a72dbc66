"""The supervisor with real child processes that die, go silent or refuse to go."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.planes.channel import Channel, ChannelLost
from ozzie_server_ext.planes.identity import ProcessMark, mark_of
from ozzie_server_ext.planes.supervisor import ChildProcess, Pace, PlaneUnavailable, Supervisor
from tests.tiers import rows

CHILD = (sys.executable, "-m", "tests.fakes.plane_child")
QUICK = Pace(pauses_s=(0.01,), circuit_deaths=3)
WAIT_S = 20


class Story:
    """A supervisor and what it told."""

    def __init__(self, log_file: Path, *, behaviour: str = "serve", pace: Pace | None = None) -> None:
        self.started: list[int] = []
        self.lost: list[tuple[int, str]] = []
        self._changed = asyncio.Condition()
        self.plane = Supervisor(
            "test plane",
            (*CHILD, "--behaviour", behaviour),
            log_file=log_file,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENAI_API_KEY": "sk-secret"},
            on_started=self._on_started,
            on_lost=self._on_lost,
            pace=pace,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    async def _on_started(self, mark: ProcessMark) -> None:
        self.started.append(mark.pid)
        self._tell()

    def _on_lost(self, pid: int, reason: str) -> None:
        self.lost.append((pid, reason))
        self._tell()

    def _tell(self) -> None:
        task = asyncio.get_running_loop().create_task(self._notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Callable[["Story"], bool]) -> None:
        async with asyncio.timeout(WAIT_S), self._changed:
            await self._changed.wait_for(lambda: condition(self))


@pytest.fixture
async def tell(tmp_path: Path) -> AsyncIterator[Callable[..., Story]]:
    stories: list[Story] = []

    def make(*, behaviour: str = "serve", pace: Pace | None = None) -> Story:
        stories.append(Story(tmp_path / "logs" / "child.log", behaviour=behaviour, pace=pace))
        return stories[-1]

    yield make
    for story in stories:
        await story.plane.stop()
    assert children_of_ours() == []


def children_of_ours() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "tests.fakes.plane_child" in " ".join(child.cmdline())]


def generate(session: str, prompt: str = "") -> JsonObject:
    return {"type": "generate", "id": "1", "session_id": session, "prompt": prompt, "stream": True}


@asynccontextmanager
async def call(
    channel: Channel, session: str, prompt: str = ""
) -> AsyncIterator[Callable[[], "asyncio.Future[JsonObject]"]]:
    abort: JsonObject = {"type": "abort", "id": "1", "session_id": session}
    inbox = channel.open_call("1", start=generate(session, prompt), abort=abort)
    try:
        yield lambda: asyncio.ensure_future(asyncio.wait_for(inbox.get(), WAIT_S))
    finally:
        channel.close_call(inbox)


async def test_a_child_is_started_when_it_is_asked_for_and_answers(tell: Callable[..., Story]) -> None:
    story = tell()
    assert story.plane.pid is None
    channel = await story.plane.channel()
    async with call(channel, "echo", "hello") as get:
        assert [(await get()).get("text") for _ in range(3)] == ["hello", "!", None]
    assert story.started == [story.plane.pid]


async def test_those_who_ask_at_once_share_one_child(tell: Callable[..., Story]) -> None:
    story = tell()
    first, second = await asyncio.gather(story.plane.channel(), story.plane.channel())
    assert first is second
    assert len(story.started) == 1


async def test_a_killed_child_fails_its_calls_and_the_next_one_comes_by_itself(tell: Callable[..., Story]) -> None:
    story = tell(pace=Pace(pauses_s=(0.01,)))
    channel = await story.plane.channel()
    async with call(channel, "die") as get:
        assert (await get())["text"] == "last words"
        with pytest.raises(ChannelLost):
            await get()
    again = await asyncio.wait_for(story.plane.channel(), WAIT_S)
    assert again is not channel
    await story.until(lambda story: len(story.started) == 2)
    [(pid, reason)] = story.lost
    assert pid == story.started[0]
    assert "SIGKILL" in reason


async def test_a_line_over_the_limit_costs_the_child_its_life(tell: Callable[..., Story]) -> None:
    story = tell(pace=Pace(pauses_s=(0.01,)))
    async with call(await story.plane.channel(), "long line") as get:
        with pytest.raises(ChannelLost, match="longer"):
            await get()
    await story.until(lambda story: len(story.started) == 2)


@pytest.mark.parametrize(
    ("behaviour", "started", "pace"),
    [("silent", 3, replace(QUICK, silent_s=0.2)), ("mute", 0, replace(QUICK, starting_silent_s=0.2))],
)
async def test_a_silent_child_is_ended_and_the_circuit_opens_in_the_end(
    tell: Callable[..., Story], behaviour: str, started: int, pace: Pace
) -> None:
    story = tell(behaviour=behaviour, pace=pace)
    story.plane.start()
    if started:
        await story.until(lambda story: len(story.lost) == started)
        assert all("It sent nothing" in reason for _, reason in story.lost)
    with pytest.raises(PlaneUnavailable):
        await asyncio.wait_for(unavailable(story.plane), WAIT_S)
    assert len(story.started) == started


async def unavailable(plane: Supervisor) -> None:
    """Asks for connections until there is none to be had."""
    for _ in range(1000):
        await plane.channel()
        await asyncio.sleep(0.01)


async def test_a_child_that_can_not_start_opens_the_circuit_and_says_so(tell: Callable[..., Story]) -> None:
    story = tell(behaviour="dead", pace=QUICK)
    with pytest.raises(PlaneUnavailable, match="ended with status 3"):
        await asyncio.wait_for(story.plane.channel(), WAIT_S)
    with pytest.raises(PlaneUnavailable, match="too often"):
        await story.plane.channel()


async def test_a_program_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    plane = Supervisor("test plane", ("/nonexistent",), log_file=tmp_path / "log", pace=QUICK)
    with pytest.raises(PlaneUnavailable, match="can't be started"):
        await asyncio.wait_for(plane.channel(), WAIT_S)
    await plane.stop()


@pytest.mark.parametrize("behaviour", rows(["serve", "stubborn", "mute"], "mute"))
async def test_stopping_leaves_no_process_behind_whatever_the_child_does(
    tell: Callable[..., Story], behaviour: str
) -> None:
    story = tell(behaviour=behaviour)
    if behaviour == "mute":
        story.plane.start()
        for _ in range(1000):
            if story.plane.pid is not None:
                break
            await asyncio.sleep(0.005)
    else:
        await story.plane.channel()
    pid = story.plane.pid
    assert pid is not None
    await asyncio.wait_for(story.plane.stop(), WAIT_S)
    assert not psutil.pid_exists(pid)
    assert [lost for lost, _ in story.lost] == story.started
    with pytest.raises(PlaneUnavailable):
        await story.plane.channel()


async def test_a_child_whose_start_can_not_be_noted_is_ended_and_keeps_nobody_from_trying_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[int] = []

    async def refuse_twice(mark: ProcessMark) -> None:
        if len(refused) < 2:
            refused.append(mark.pid)
            raise RuntimeError("sk-secret can't be noted")

    plane = Supervisor(
        "test plane",
        CHILD,
        log_file=tmp_path / "log",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        on_started=refuse_twice,
    )
    for number in (1, 2):
        with pytest.raises(PlaneUnavailable, match="RuntimeError") as caught:
            await asyncio.wait_for(plane.channel(), WAIT_S)
        assert "sk-" not in str(caught.value), "It may be a key, and this sentence is shown."
        assert len(refused) == number
        assert plane.pid is None
        assert plane.connected is None
    assert "test plane" in caplog.text
    assert children_of_ours() == []
    await asyncio.wait_for(plane.channel(), WAIT_S)
    await asyncio.wait_for(plane.stop(), WAIT_S)


async def test_stopping_succeeds_after_the_keeper_has_failed(tmp_path: Path) -> None:
    async def refuse(mark: ProcessMark) -> None:
        raise RuntimeError("nothing can be noted")

    plane = Supervisor(
        "test plane",
        CHILD,
        log_file=tmp_path / "log",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        on_started=refuse,
    )
    with pytest.raises(PlaneUnavailable):
        await asyncio.wait_for(plane.channel(), WAIT_S)
    assert not plane.kept
    await asyncio.wait_for(plane.stop(), WAIT_S)
    with pytest.raises(PlaneUnavailable, match="was stopped"):
        await plane.channel()


async def test_heartbeats_of_a_child_that_is_ready_are_told(tell: Callable[..., Story]) -> None:
    story = tell()
    heard: list[JsonObject] = []
    story.plane.on_heartbeat = heard.append
    channel = await story.plane.channel()
    async with call(channel, "held") as get:
        channel.post({"type": "load", "id": "1", "cpu": 0.5})
        assert (await get())["text"] == "told"
    assert heard == [{"type": "heartbeat", "cpu": 0.5}]


async def test_stopping_fails_those_who_wait(tell: Callable[..., Story]) -> None:
    story = tell(behaviour="mute")
    waiting = asyncio.create_task(story.plane.channel())
    await asyncio.sleep(0)
    await story.plane.stop()
    with pytest.raises(PlaneUnavailable):
        await waiting


async def test_a_child_has_its_own_session_and_only_the_listed_environment(tell: Callable[..., Story]) -> None:
    story = tell()
    await story.plane.channel()
    pid = story.plane.pid
    assert pid is not None
    assert os.getsid(pid) == pid
    environment = psutil.Process(pid).environ()
    assert "PATH" in environment
    assert "OPENAI_API_KEY" not in environment


async def test_the_log_of_a_child_is_private_and_does_not_grow_for_ever(tmp_path: Path) -> None:
    log_file = tmp_path / "logs" / "child.log"
    log_file.parent.mkdir()
    log_file.write_bytes(b"x" * ((1 << 20) + 1))
    story = Story(log_file)
    await story.plane.channel()
    await story.plane.stop()
    assert log_file.stat().st_size < 1000
    assert log_file.stat().st_mode & 0o777 == 0o600
    assert log_file.with_name("child.log.1").exists()


PARENT = """
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from ozzie_server_ext.planes.supervisor import Supervisor

async def main():
    plane = Supervisor("test plane", sys.argv[2:], log_file=Path(sys.argv[1]))
    await plane.channel()
    # Threads come and go; only the end of the one that started the child is the child's end.
    for _ in range(20):
        await asyncio.get_running_loop().run_in_executor(ThreadPoolExecutor(1), int)
    print(plane.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("behaviour", rows(["serve", "stubborn", "busy", "stuck", "stopped"], "serve", "stopped"))
def test_a_child_dies_with_its_parent_even_if_it_does_not_look_at_the_channel(tmp_path: Path, behaviour: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", PARENT, str(tmp_path / "log"), *CHILD, "--behaviour", behaviour]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.is_running()
        parent.kill()
        child.wait(timeout=WAIT_S)
        assert not child.is_running()


async def test_a_child_is_started_from_the_loops_thread_only(tmp_path: Path) -> None:
    def spawn() -> None:
        ChildProcess.spawn(CHILD, env=os.environ, log_file=tmp_path / "log")

    with pytest.raises(RuntimeError, match="no running event loop"):
        await asyncio.to_thread(spawn)


async def test_a_call_goes_to_a_child_only_once_its_start_is_recorded(tmp_path: Path) -> None:
    asked, recorded = asyncio.Event(), asyncio.Event()
    marks: list[ProcessMark] = []

    async def record(mark: ProcessMark) -> None:
        marks.append(mark)
        asked.set()
        await recorded.wait()

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    plane = Supervisor("test plane", CHILD, log_file=tmp_path / "log", env=env, on_started=record)
    channel = asyncio.ensure_future(plane.channel())
    await asyncio.wait_for(asked.wait(), WAIT_S)
    assert marks == [mark_of(plane.pid or 0)]
    assert not channel.done()
    recorded.set()
    await asyncio.wait_for(channel, WAIT_S)
    await plane.stop()
