"""Owning, being attached, failing and trying again, with a start that does as a test says (ADR 11)."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.gateway import leadership as succeeding
from ozzie_server_ext.gateway.leadership import Leadership, OwnerLock
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import SERVICE_RESTART, GatewayState
from ozzie_server_ext.protocol.attached import AttachedServer, Attachment, attached_servers
from ozzie_server_ext.protocol.owner import owner_pid

SOON_S = 20.0


class Server:
    """A server on a home: `errors` are what its next starts end with; one that is left out goes well."""

    def __init__(self, folder: Path, *, temporary: bool = False, unfit: OzzieError | None = None) -> None:
        self.home = Home(folder / "home")
        self.errors: list[Exception] = []
        self.said: list[str] = []
        self.failures: list[OzzieError] = []
        self.ended = 0
        self.state = GatewayState(temporary=temporary, on_failure=self.failures.append)
        self.leadership = Leadership(
            self.home,
            folder / "runtime",
            folder,
            self.state,
            AttachedServer(pid=os.getpid(), url="http://127.0.0.1:1/", headless=True),
            begin=self._begin,
            end=self._end,
            reporter=self,
            unfit=unfit,
        )

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    warn = say

    def failed(self, error: OzzieError) -> None:
        self.said.append(str(error))

    async def _begin(self) -> Services:
        if self.errors:
            raise self.errors.pop(0)
        return cast(Services, object())

    async def _end(self) -> None:
        self.ended += 1

    async def until(self, is_so: Callable[[], Any]) -> None:
        async with asyncio.timeout(SOON_S):
            while not is_so():  # noqa: ASYNC110 there is nothing else to wait for
                await asyncio.sleep(0.001)


class Page:
    """A WebSocket."""

    def __init__(self) -> None:
        self.codes: list[int | None] = []

    def close(self, code: int | None = None, reason: str | None = None) -> None:
        self.codes.append(code)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(succeeding, "POLL_S", 0.001)
    monkeypatch.setattr(succeeding, "RETRY_S", (0.002, 0.004))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path)
    yield server
    await server.leadership.stop()


@pytest.fixture
def other(server: Server) -> OwnerLock:
    """The lock of the same home, as another server has it."""
    server.home.create()
    return OwnerLock(server.home.root)


async def test_the_first_one_owns_the_home_and_gives_it_back(server: Server, other: OwnerLock) -> None:
    await server.leadership.start()
    owned, owner = server.state.ozzie is not None, owner_pid(server.home.root)
    page = Page()
    server.state.connections.add(page)
    await server.leadership.stop()
    await server.leadership.stop()

    assert (owned, owner) == (True, os.getpid())
    assert page.codes[0] == SERVICE_RESTART
    assert server.state.ozzie is None
    assert server.said == [f"Ozzie is ready at http://127.0.0.1:1/; its folder is {server.home.root}."]
    other.acquire()
    other.release()


async def test_the_second_is_attached_until_the_first_goes(server: Server, other: OwnerLock) -> None:
    other.acquire()
    await server.leadership.start()
    relay, known = server.state.relay, attached_servers(server.home.root)
    page = Page()
    server.state.connections.add(page)
    other.release()
    await server.until(lambda: server.state.ozzie)

    assert relay is not None
    assert [found.pid for found in known] == [os.getpid()]
    assert page.codes == [SERVICE_RESTART], "it is to connect to this server now"
    assert (server.state.relay, attached_servers(server.home.root)) == (None, [])
    assert server.said == [
        f"This gateway is attached to the server of process {os.getpid()}, and takes over when that one goes.",
        "The server that this one was attached to is gone: Ozzie is ready at http://127.0.0.1:1/; its folder is"
        f" {server.home.root}.",
    ]


async def test_an_attached_one_is_known_again_after_its_file_was_removed(server: Server, other: OwnerLock) -> None:
    other.acquire()
    await server.leadership.start()
    (file,) = (server.home.root / "run" / "attached").iterdir()
    file.unlink()
    await server.until(lambda: attached_servers(server.home.root))

    assert len(server.said) == 1, "nothing happened to who uses it"
    other.release()


async def test_an_attached_one_that_can_not_be_written_down_says_so_once_and_goes_on_trying(
    server: Server, other: OwnerLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Attachment] = []
    enter = Attachment.enter

    def counted(attachment: Attachment) -> None:
        tries.append(attachment)
        enter(attachment)

    monkeypatch.setattr(Attachment, "enter", counted)
    in_the_way = server.home.root / "run" / "attached"
    in_the_way.write_text("a file in its place")
    other.acquire()
    await server.leadership.start()
    await server.until(lambda: len(tries) > 3)
    in_the_way.unlink()
    await server.until(lambda: attached_servers(server.home.root))
    other.release()
    await server.until(lambda: server.state.ozzie)

    assert [line for line in server.said if "Others will not know" in line] == [server.said[1]]
    assert "Ozzie is ready" in server.said[2]


async def test_to_stop_while_attached_takes_nothing_from_the_owner(server: Server, other: OwnerLock) -> None:
    other.acquire()
    await server.leadership.start()
    await server.leadership.stop()

    assert owner_pid(server.home.root) == os.getpid()
    assert attached_servers(server.home.root) == []
    other.release()


@pytest.mark.parametrize("error", [Unavailable("The disk is full."), ValueError("what nobody foresaw")])
async def test_one_that_can_not_start_gives_the_home_back_and_tries_again(
    server: Server, other: OwnerLock, error: Exception
) -> None:
    other.acquire()
    await server.leadership.start()
    server.errors = [error, error]
    other.release()
    await server.until(lambda: server.state.failure)
    others = attached_servers(server.home.root)
    with pytest.raises(OzzieError, match=str(error)):
        server.state.require()
    await server.until(lambda: server.state.ozzie)

    assert others == [], "a temporary owner would leave for a server that can't start"
    assert server.ended == 2
    assert [line for line in server.said if str(error) in line][1:] == [], "once is enough"
    assert server.failures == [], "it had worked before; a headless one does not end for this"


async def test_one_that_could_not_start_is_attached_where_another_could(server: Server, other: OwnerLock) -> None:
    server.errors = [Unavailable("The disk is full.") for _ in range(1000)]
    await server.leadership.start()
    assert [str(error) for error in server.failures] == ["The disk is full."]

    async with asyncio.timeout(SOON_S):
        while True:
            try:
                other.acquire()
                break
            except OzzieError:
                await asyncio.sleep(0)
    await server.until(lambda: server.state.relay)

    assert attached_servers(server.home.root) == [], "it does not ask for the home: it could not use it"
    other.release()


async def test_a_temporary_one_is_attached_to_none(tmp_path: Path, other: OwnerLock) -> None:
    server = Server(tmp_path, temporary=True)
    other.acquire()
    await server.leadership.start()
    await server.leadership.stop()

    assert "belongs to another server already" in str(server.failures[0])
    other.release()


async def test_one_that_nobody_could_reach_is_attached_and_never_owns(tmp_path: Path, other: OwnerLock) -> None:
    server = Server(tmp_path, unfit=Unavailable("It listens on a Unix socket."))
    other.acquire()
    await server.leadership.start()
    attached, known = server.state.relay is not None, attached_servers(server.home.root)
    other.release()
    await server.until(lambda: server.state.failure)
    other.acquire()  # it is free
    other.release()
    await server.leadership.stop()

    assert (attached, known) == (True, [])
    assert server.said[0] == f"This gateway is attached to the server of process {os.getpid()}."
    assert "Unix socket" in server.said[-1]


@pytest.mark.parametrize("attached", [False, True])
async def test_to_stop_in_the_middle_of_a_start_gives_the_home_back(
    tmp_path: Path, other: OwnerLock, attached: bool
) -> None:
    class Slow(Server):
        began = False

        async def _begin(self) -> Services:
            self.began = True
            await asyncio.Event().wait()
            raise AssertionError

    server = Slow(tmp_path)
    if attached:
        other.acquire()
    starting = asyncio.create_task(server.leadership.start())
    if attached:
        await starting
        other.release()
    await server.until(lambda: server.began)
    await server.leadership.stop()
    await starting

    assert (server.ended >= 1, server.state.ozzie, server.failures) == (True, None, [])
    other.acquire()
    other.release()


class SlowEnd(Server):
    """One whose Ozzie takes its time to stop: `ending` tells that it began to, `may_end` lets it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ending, self.may_end = asyncio.Event(), asyncio.Event()
        self.running = False
        self.ended_whole = 0

    async def _begin(self) -> Services:
        self.running = True
        return await super()._begin()

    async def _end(self) -> None:
        running, self.running = self.running, False
        if running:
            self.ending.set()
            await self.may_end.wait()
            self.ended_whole += 1


LOST = Unavailable("Another gateway has taken over.")


async def test_a_stop_while_the_home_is_left_waits_until_all_has_ended(tmp_path: Path, other: OwnerLock) -> None:
    server = SlowEnd(tmp_path)
    await server.leadership.start()
    server.leadership.replaced(LOST)
    await asyncio.wait_for(server.ending.wait(), SOON_S)
    stopping = [asyncio.create_task(server.leadership.stop()) for _ in range(2)]
    await asyncio.sleep(0.01)
    with pytest.raises(OzzieError):  # what is not ended holds the lock
        other.acquire()
    stopped_early = [stop.done() for stop in stopping]
    server.may_end.set()
    await asyncio.wait_for(asyncio.gather(*stopping), SOON_S)

    assert (stopped_early, server.ended_whole, server.state.ozzie) == ([False, False], 1, None)
    other.acquire()
    await asyncio.sleep(0.01)  # ten of its looks at the lock
    assert (server.running, attached_servers(server.home.root)) == (False, [])
    other.release()


async def test_to_hear_during_a_stop_that_another_has_taken_over_begins_nothing_anew(
    tmp_path: Path, other: OwnerLock
) -> None:
    server = SlowEnd(tmp_path)
    await server.leadership.start()
    stopping = asyncio.create_task(server.leadership.stop())
    await asyncio.wait_for(server.ending.wait(), SOON_S)
    server.leadership.replaced(LOST)
    server.may_end.set()
    await asyncio.wait_for(stopping, SOON_S)
    await asyncio.sleep(0.01)

    assert (server.running, server.state.ozzie, server.state.relay) == (False, None, None)
    other.acquire()
    other.release()


async def test_a_stop_in_the_moment_in_which_the_first_try_is_over_begins_nothing_anew(
    tmp_path: Path, other: OwnerLock
) -> None:
    server = Server(tmp_path)
    stops: list[asyncio.Task[None]] = []

    class Stops(Page):
        def close(self, code: int | None = None, reason: str | None = None) -> None:
            stops.append(asyncio.create_task(server.leadership.stop()))
            server.state.connections.clear()

    server.state.connections.add(Stops())
    other.acquire()
    await server.leadership.start()
    await asyncio.gather(*stops)
    other.release()
    await asyncio.sleep(0.01)

    assert (server.state.ozzie, attached_servers(server.home.root)) == (None, [])
    other.acquire()
    other.release()


async def test_a_start_behind_a_stop_begins_nothing(server: Server, other: OwnerLock) -> None:
    """A server may be told to stop while another extension of it still starts."""
    await server.leadership.stop()
    await server.leadership.start()

    assert (server.state.ozzie, server.said, attached_servers(server.home.root)) == (None, [], [])
    other.acquire()
    other.release()


class Stubborn(Server):
    """One whose first start, told to stop, ends with a failure of its own: what it had opened could not be closed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.tries = 0
        self.began = asyncio.Event()

    async def _begin(self) -> Services:
        self.tries += 1
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self.tries > 1:
                raise
            raise ValueError("what was opened could not be closed") from None
        raise AssertionError


@pytest.mark.parametrize("attached", [False, True])
async def test_a_stop_is_heard_where_the_start_that_it_cuts_off_ends_with_a_failure(
    tmp_path: Path, other: OwnerLock, attached: bool
) -> None:
    server = Stubborn(tmp_path)
    if attached:
        other.acquire()
    starting = asyncio.create_task(server.leadership.start())
    if attached:
        await starting
        other.release()
    await asyncio.wait_for(server.began.wait(), SOON_S)

    await asyncio.wait_for(server.leadership.stop(), SOON_S)
    await asyncio.wait_for(starting, SOON_S)

    assert (server.tries, server.state.ozzie, server.state.failure, server.failures) == (1, None, None, [])
    other.acquire()
    other.release()


async def test_a_home_that_is_lost_in_the_moment_in_which_the_start_is_over_is_waited_for_once(
    tmp_path: Path, other: OwnerLock
) -> None:
    server = Server(tmp_path)
    said = server.say

    def lost(sentence: str) -> None:
        """Told that it is ready, it hears that it is not."""
        said(sentence)
        if len(server.said) == 1:
            server.errors = [Unavailable("The disk is full.") for _ in range(1000)]
            server.leadership.replaced(LOST)

    server.say = lost
    await server.leadership.start()
    await server.until(lambda: server.state.failure)
    await asyncio.wait_for(server.leadership.stop(), SOON_S)

    waiting = [task for task in asyncio.all_tasks() if task.get_name() == "ozzie leadership"]
    assert (waiting, server.state.ozzie) == ([], None)
    other.acquire()
    other.release()


async def test_a_folder_that_can_not_be_used_is_tried_again(server: Server) -> None:
    server.home.root.write_text("a file in its place")
    await server.leadership.start()
    said = str(server.failures[0])
    server.home.root.unlink()
    await server.until(lambda: server.state.ozzie)

    assert "can't be used" in said
