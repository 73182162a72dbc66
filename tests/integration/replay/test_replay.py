"""Replays of recorded sessions: the same code, from the same record, records the same, and reaches nothing."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import Conflict, NotFound
from ozzie_server_ext.domain.events import Draft, Event, EventBody, Origin, TaskStalled
from ozzie_server_ext.domain.ids import MessageId, SessionId, session_stream, task_stream
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step
from ozzie_server_ext.replay.service import Replays
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.tools.builtin import builtin_tools
from tests.integration.replay.recorded import ASKING, LIST, READ, WAIT_S, Recording, recording
from tests.replaying import replayed

pytestmark = pytest.mark.timeout(180)

Recorded = tuple[Home, SessionId]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("recorded")

    async def record() -> SessionId:
        async with recording(folder) as made:
            await made.everything()
            return made.session_id

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield Home(folder / "home"), asyncio.run(record())


def test_all_of_a_session_comes_out_as_it_was_recorded(recorded: Recorded) -> None:
    found = replayed(*recorded)

    assert found.sentence == f"Same for all {found.events:,} events."
    assert found.events > 150
    assert found.is_same


def test_no_tool_runs_and_nothing_is_reached(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, with whatever could act taken away."""

    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("it acts")

    tools = list(builtin_tools())
    for tool in tools:
        for name in ("plan", "run", "happened"):
            monkeypatch.setattr(tool, name, never, raising=False)
    monkeypatch.setattr(socket.socket, "connect", never)
    monkeypatch.setattr(subprocess, "Popen", never)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", never)

    assert replayed(*recorded, tools=tools).is_same


async def test_the_gateway_replays_in_a_process_that_can_reach_nothing(recorded: Recorded) -> None:
    home, session_id = recorded
    replays = Replays(home)

    found = await replays.replay(session_id)
    part = await replays.replay(session_id, until=2)

    assert found.is_same
    assert part.is_same
    assert part.events < found.events


TRIED = """
import os, pathlib, socket, sqlite3, subprocess, sys
from ozzie_server_ext.programs.replay import take_away
own, other = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
folder = other.parent
other.write_text("before")
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
take_away(own)
(own / "skill.jsonc").write_text("its own folder")
(own / "skill.jsonc").unlink()
assert other.read_text() == "before"
sqlite3.connect(":memory:").close()
tries = [
    lambda: socket.create_connection(("127.0.0.1", 9), timeout=1), lambda: udp.sendto(b"x", ("127.0.0.1", 9)),
    lambda: udp.sendmsg([b"x"], [], 0, ("127.0.0.1", 9)), lambda: udp.bind(("127.0.0.1", 0)),
    lambda: socket.getaddrinfo("localhost", 9), lambda: subprocess.run(["true"]), lambda: os.system("true"),
    lambda: os.fork(), lambda: os.execv("/bin/true", ["true"]), lambda: os.kill(os.getppid(), 0),
    lambda: other.write_text("after"), lambda: open(other, "a"), lambda: open(bytes(other), "w"),
    lambda: os.open(other, os.O_WRONLY), lambda: os.open(other, os.O_RDONLY | os.O_TRUNC),
    lambda: os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=os.open(folder, os.O_RDONLY)),
    lambda: os.remove(other), lambda: os.rename(other, folder / "moved"), lambda: os.mkdir(folder / "made"),
    lambda: os.rmdir(own), lambda: os.truncate(other, 0), lambda: os.chmod(other, 0),
    lambda: os.link(other, folder / "l"), lambda: os.symlink(other, folder / "s"), lambda: os.utime(other),
    lambda: sqlite3.connect(folder / "new.db"),
]
for number, each in enumerate(tries):
    try:
        each()
    except PermissionError as error:
        assert "A replay" in str(error), error
    else:
        raise SystemExit(f"the try {number} was not refused")
print("refused", len(tries), other.read_text(), sorted(path.name for path in folder.iterdir()))
"""


def test_a_replaying_process_is_refused_network_programs_and_files(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", TRIED, own, tmp_path / "other"], capture_output=True, text=True, check=False
    )
    assert done.stdout == "refused 26 before ['other', 'own']\n", done.stderr


async def test_what_can_not_be_replayed_is_refused_in_words(recorded: Recorded) -> None:
    home, session_id = recorded
    replays = Replays(home)

    with pytest.raises(NotFound, match=r"There is no turn 99: the session has \d+\."):
        await replays.replay(session_id, until=99)
    with pytest.raises(NotFound, match="There is no session sess_01"):
        await replays.replay(SessionId("sess_01J00000000000000000000000"))
    with pytest.raises(Conflict, match="expected"):
        await replays.replay(session_id, policy="{")
    with pytest.raises(Conflict, match="expected"):
        await replays.replay(session_id, skills=("{",))


def test_a_session_in_the_middle_of_its_turn_replays_up_to_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    async def record() -> SessionId:
        async with recording(tmp_path) as made:
            await made.turn(ASKING)  # nobody answers
            return made.session_id

    assert replayed(Home(tmp_path / "home"), asyncio.run(record())).is_same


def test_a_restart_in_a_turn_and_a_fork_of_it_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    async def record() -> list[SessionId]:
        async with recording(tmp_path, soul="You are brief.") as made:
            await made.turn(READ)
            asking = await made.turn(ASKING)
            made.ozzie = await made.ozzie.again()
            await made.approve(asking)
            forks = made.ozzie.projects.own.forks
            fork = await forks.fork(made.session_id, "fork", channel="notebook", by="ana", turn=1, event=None)
            own, made.session_id = made.session_id, fork.info.session_id
            await made.turn(READ)
            return [own, made.session_id]

    for session_id in asyncio.run(record()):
        found = replayed(Home(tmp_path / "home"), session_id)
        assert found.is_same, found.sentence


def test_an_erased_turn_is_named_as_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    async def record() -> SessionId:
        async with recording(tmp_path) as made:
            await made.turn(READ)
            task_id = await made.turn(READ)
            row = await made.ozzie.log.row("tasks", task_id) or {}
            await made.ozzie.erasures.erase_message(MessageId(str(row["message_id"])), by="ana")
            return made.session_id

    home, session_id = Home(tmp_path / "home"), asyncio.run(record())

    whole, part = replayed(home, session_id), replayed(home, session_id, until=1)

    assert (whole.missing, whole.same) == ("The log does not have what follows: it was erased.", part.events)
    assert whole.sentence == f"Same up to event {whole.same}. {whole.missing}"
    assert part.is_same


EXTRA = TaskStalled(action="remind", quiet_s=1.0, doing="It is said that", hint="nothing happened.")


@pytest.mark.parametrize("where", ["its own stream", "the session's"])
@pytest.mark.parametrize("behind", ["tool.call.started", "task.succeeded", "task.waiting_approval"])
def test_more_than_was_recorded_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, behind: str
) -> None:
    """The code records one event more and does not wait for it, so that all others come out as they were."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    async def record() -> SessionId:
        async with recording(tmp_path) as made:
            await made.turn(READ)
            await made.turn(ASKING)
            return made.session_id

    session_id = asyncio.run(record())
    real, begun = Recorder.append, set[asyncio.Task[object]]()

    async def append(self: Recorder, *bodies: EventBody, **more: Any) -> tuple[Event, ...]:
        events = await real(self, *bodies, **more)
        if events[-1].type == behind:
            stream = events[-1].stream if where == "its own stream" else session_stream(self.session_id)
            draft = Draft(EXTRA, "system", "agent", self.session_id, self.task_id)
            begun.add(asyncio.ensure_future(self.log.append(stream, [draft])))
        return events

    monkeypatch.setattr(Recorder, "append", append)
    monkeypatch.setattr(Recorder, "append_each", _one_by_one)

    found = replayed(Home(tmp_path / "home"), session_id)

    assert not found.is_same
    assert (found.now_type, found.cause) == (EXTRA.type, "code")
    assert found.turn == (2 if behind == "task.waiting_approval" else 1)


async def _one_by_one(self: Recorder, facts: Iterable[tuple[EventBody, Content]]) -> tuple[Event, ...]:
    """As `append_each`, by way of `append`."""
    *before, (last, content) = facts
    for body, made_from in before:
        await self.made_from(made_from).append(body)
    return await self.made_from(content).append(last)


async def test_a_turn_that_goes_on_is_replayed_as_far_as_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    async with recording(tmp_path) as made:
        await made.turn(READ)
        await made.turn(ASKING)

    whole, last = await asyncio.gather(
        asyncio.to_thread(replayed, Home(tmp_path / "home"), made.session_id),
        asyncio.to_thread(replayed, Home(tmp_path / "home"), made.session_id, until=2),
    )

    assert whole.is_same
    assert last.events == whole.events


def configure(made: Recording, **capabilities: Any) -> None:
    """One model, which the script plays; nothing is at its address."""
    model = {"driver": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "auth": {"api_key": "A_KEY"}}
    models = {"default": "one", "providers": {"one": {**model, "capabilities": capabilities}}}
    made.ozzie.home.config_file.write_text(json.dumps({"models": models}))


async def summed_up(made: Recording) -> None:
    """Earlier turns are summarized, as the context of the model is small."""
    configure(made, tools=True, context=60_000, max_output=3_000)
    for number in range(9):
        made.ozzie.plays(*[[Say("word " * 200)]] * 5)
        await made.sent(f"say {number} {'something long ' * 1500}")


async def configured_anew(made: Recording) -> None:
    """Whether the model takes tools, and how long its answers may be, changes between two turns."""
    configure(made, tools=False, context=60_000, max_output=500)
    await made.turn()
    configure(made, tools=True, context=60_000, max_output=900)
    await made.turn(READ)


async def mistaken(made: Recording) -> None:
    """A driver makes a mistake that nobody foresaw."""

    def breaks(request: ModelRequest) -> list[Step]:
        raise RuntimeError("nobody foresaw it")

    made.ozzie.plays(breaks)
    await made.sent("Break.")
    await made.turn(READ)


async def moved(made: Recording) -> None:
    """The session goes on in another folder, with other rules."""
    await made.turn(READ)
    other = made.ozzie.project.parent / "other"
    other.mkdir()
    await made.ozzie.sessions.move("n", "other", by="ana", project=str(other))
    await made.turn()
    await made.turn(LIST)


async def stopped_behind(made: Recording, kind: str) -> str:
    """The gateway stops when an event is recorded, before the turn hears of that; the next one goes on with it.
    Returns what was recorded of the call that was not begun."""
    stopping: list[asyncio.Task[None]] = []

    def stop(events: tuple[Event, ...]) -> None:
        if not stopping:
            stopping.append(asyncio.ensure_future(made.ozzie.driver.stop()))

    made.ozzie.log.on_commit(stop, types={kind})
    made.ozzie.plays(READ, [Say("Done.")])
    sent = await made.ozzie.submit(NewTurn(made.session_id, "Read it.", Origin(channel="notebook", sender_id="ana")))
    async with (
        asyncio.timeout(WAIT_S),
        made.ozzie.feed.subscribe(0, types=frozenset({kind}), task_id=sent.task_id) as events,
    ):
        await anext(events)
    await asyncio.gather(*stopping)
    last = (await made.ozzie.log.read_stream(task_stream(sent.task_id)))[-1].body
    made.ozzie = await made.ozzie.again()
    made.ozzie.plays(READ, [Say("Done.")])
    await made.rests(sent.task_id)
    return str(getattr(last, "message", "") or getattr(last, "reason", ""))


async def stopped_before_a_model(made: Recording) -> None:
    assert await stopped_behind(made, "model.call.started") == "Ozzie's gateway was stopped before it was sent."


async def stopped_before_a_tool(made: Recording) -> None:
    assert await stopped_behind(made, "tool.call.started") == "The turn was stopped before it was begun."


@pytest.mark.parametrize(
    "scene", [summed_up, configured_anew, mistaken, moved, stopped_before_a_model, stopped_before_a_tool]
)
def test_what_counted_then_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scene: Callable[[Recording], Awaitable[None]]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("A_KEY", "none")

    async def record() -> SessionId:
        async with recording(tmp_path) as made:
            await scene(made)
            return made.session_id

    found = replayed(Home(tmp_path / "home"), asyncio.run(record()))

    assert found.is_same, found.sentence
