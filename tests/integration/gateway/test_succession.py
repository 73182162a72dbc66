"""Who owns a home when its owner goes: one of those that are attached, and nothing is lost (ADR 11)."""

import asyncio
import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psutil
import pytest

from ozzie_kernel import connect as connecting
from ozzie_kernel.connect import reach
from ozzie_server_ext.gateway.routes import PREFIX
from ozzie_server_ext.gateway.state import SERVICE_RESTART
from ozzie_server_ext.protocol.handshake import Handshake
from tests.fakes.openai_server import FakeOpenAI
from tests.integration.gateway.walk import ask
from tests.rig import Gateway, GatewayHome, Kernel, start_attached, start_gateway, start_jupyter, start_kernel
from tests.ws_client import connected

pytestmark = pytest.mark.timeout(180)

SOON_S = 30.0


def health(server: Gateway) -> dict[str, Any]:
    status, found = ask(server, "GET", f"{PREFIX}/health", token=server.token)
    assert status == 200, found
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def owner_of(*servers: Gateway) -> Gateway:
    """The one of them that owns their home, once one does."""
    pids = {server.process.pid: server for server in servers}
    wait_until(lambda: (found := servers[0].home.handshake()) is not None and found.pid in pids)
    found = servers[0].home.handshake()
    assert found is not None
    return pids[found.pid]


@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.soak), signal.SIGKILL])
async def test_an_attached_server_takes_over_and_its_clients_go_on_where_they_were(
    home: GatewayHome, how: signal.Signals
) -> None:
    with start_gateway(home) as first, start_attached(home) as second:
        async with connected(second) as client:
            session_id = await client.open_session("kept")
            done = await client.ask(session_id, "Say hello.")
            first.process.send_signal(how)
            while await client.receive() is not None:
                pass
            code = client.close_code
        first.process.wait(20)
        asked_at_once = await asyncio.to_thread(health, second)
        async with connected(second) as client:
            opened = await client.request("session.open", session_name="kept")
            again = await client.ask(session_id, "And again.")
            await client.request("feed.subscribe", from_position=0)
            await client.until("task.succeeded", task_id=again["task_id"])
        found = home.handshake()

    assert code == SERVICE_RESTART
    assert (asked_at_once["pid"], asked_at_once["role"]) == (second.process.pid, "owner")
    assert opened["payload"]["session_id"] == session_id
    positions = [frame["position"] for frame in client.events if frame["position"] is not None]
    assert {done["position"], again["position"]} <= set(positions)
    assert found is not None
    assert found.pid == second.process.pid


@pytest.mark.soak
async def test_of_three_one_takes_over_and_the_others_are_attached_to_it(home: GatewayHome) -> None:
    with ExitStack() as servers:
        first = servers.enter_context(start_gateway(home))
        others = [servers.enter_context(start_attached(home)) for _ in range(3)]
        left = list(others)
        owner = first
        for _ in range(2):  # and once more, when that one goes
            owner.kill()
            owner = await asyncio.to_thread(owner_of, *left)
            left.remove(owner)
            told = [await asyncio.to_thread(health, server) for server in [owner, *left]]

            assert [found["pid"] for found in told] == [owner.process.pid] * len(told)
            assert [found["role"] for found in told] == ["owner", *["attached"] * len(left)]
            assert {found["pid"] for found in told[0]["attached"]} == {server.process.pid for server in left}
            assert len(list(home.runtime.glob("ozzie-*.json"))) == 1


def test_a_cell_that_runs_when_its_gateway_is_killed_ends_with_its_whole_reply(
    home: GatewayHome, fake_openai: FakeOpenAI
) -> None:
    home.use_provider(fake_openai.url, "paced-10-50-60")
    with start_jupyter(home) as first, start_attached(home) as second:
        kernel = start_kernel(home)
        try:
            request = kernel.send("count")
            kernel.output(request, until_live="w5 ")
            first.kill()
            output = kernel.output(request)
            after = kernel.run("%session")
        finally:
            kernel.stop()
        owner = health(second)["pid"]

    assert owner == second.process.pid
    assert output.status == "ok"
    (text,) = [part["text"] for part in output.turn["parts"] if part.get("text")]
    assert text.split() == [f"w{number}" for number in range(60)]
    assert after.status == "ok"
    assert not (home.home / "logs" / "app" / "gateway-start.log").exists(), "it waited for the one that takes over"


@pytest.fixture
def kernel(home: GatewayHome) -> Iterator[Kernel]:
    """A kernel that started a gateway of its own."""
    kernel = start_kernel(home)
    try:
        kernel.run("%session title Kept")
        yield kernel
    finally:
        kernel.stop()
        home.stop_gateways()


@pytest.mark.soak
def test_a_gateway_that_a_kernel_started_leaves_its_home_to_a_lab_that_starts_later(
    home: GatewayHome, kernel: Kernel
) -> None:
    before = home.handshake()
    assert before is not None
    with start_jupyter(home) as lab:  # returns when the Lab owns the home
        assert lab.process.pid != before.pid
        wait_until(lambda: not psutil.pid_exists(before.pid) or psutil.Process(before.pid).status() == "zombie")
        shown = kernel.run("%session")
        answered = kernel.run("hello")
        told = health(lab)

    assert "Kept" in shown.markdown
    assert answered.status == "ok"
    assert (told["role"], told["temporary"], told["clients"]) == ("owner", False, 1)


def test_cells_that_run_while_a_lab_takes_over_are_each_answered_once(home: GatewayHome, kernel: Kernel) -> None:
    before = home.handshake()
    assert before is not None
    asked = 0
    with ThreadPoolExecutor(1) as pool, ExitStack() as servers:
        starting = pool.submit(servers.enter_context, start_jupyter(home))
        after = 0
        while after < 3:  # and some more, once the Lab owns the home
            asked += 1
            output = kernel.run(f"hello {asked}")
            assert output.status == "ok", output.markdown
            after += starting.done()
        lab = starting.result()
        told = health(lab)
        tasks = ask(lab, "GET", f"{PREFIX}/tasks?limit=500", token=lab.token)[1]["items"]

    assert (told["pid"], told["role"]) == (lab.process.pid, "owner")
    assert before.pid != lab.process.pid
    assert sorted(task["title"] for task in tasks) == sorted(f"hello {number}" for number in range(1, asked + 1))
    assert {task["status"] for task in tasks} == {"SUCCEEDED"}


def test_while_a_turn_runs_there_the_lab_is_attached_and_the_turn_ends_as_ever(
    home: GatewayHome, fake_openai: FakeOpenAI
) -> None:
    home.use_provider(fake_openai.url, "endless")
    kernel = start_kernel(home)
    try:
        request = kernel.send("count")
        kernel.output(request, until_live="1 2 3 ")
        before = home.handshake()
        assert before is not None
        with start_attached(home) as lab:
            while_busy = health(lab)
            kernel.interrupt()
            output = kernel.output(request)
            owner = owner_of(lab)
            shown = kernel.run("%session")
    finally:
        kernel.stop()
        home.stop_gateways()

    assert (while_busy["pid"], while_busy["temporary"], while_busy["tasks_running"]) == (before.pid, True, 1)
    (text,) = [part["text"] for part in output.turn["parts"] if part.get("text")]
    words = text.split()
    assert words == [str(number) for number in range(1, len(words) + 1)]
    assert "Stopped here by you." in output.markdown
    assert "continued after a restart" not in json.dumps(output.bundles) + "".join(output.live)
    assert owner is lab
    assert shown.status == "ok"


def test_a_gateway_that_a_person_started_keeps_its_home(home: GatewayHome) -> None:
    with start_gateway(home) as gateway, start_attached(home) as lab:

        async def ask_through() -> None:
            async with connected(lab) as client:
                await client.ask(await client.open_session("one"), "hi")

        asyncio.run(ask_through())
        told = health(lab)

    assert (told["pid"], told["temporary"]) == (gateway.process.pid, False)


def test_a_server_that_can_not_start_says_so_and_starts_once_it_can(home: GatewayHome) -> None:
    database = home.home / "data" / "ozzie.db"
    with start_gateway(home) as first, start_attached(home) as second:
        health(second)
        first.kill()
        kept = database.read_bytes()
        database.write_bytes(b"this is no database" * 100)
        for name in ("ozzie.db-wal", "ozzie.db-shm"):
            (home.home / "data" / name).unlink(missing_ok=True)

        def refused() -> bool:
            status, error = ask(second, "GET", f"{PREFIX}/health", token=second.token)
            return status == 503 and "database" in error["message"]

        wait_until(refused)
        assert not list((home.home / "run" / "attached").glob("*.json")), "nobody waits for it"
        database.write_bytes(kept)
        wait_until(lambda: ask(second, "GET", f"{PREFIX}/health", token=second.token)[0] == 200)
        told = health(second)

    assert told["role"] == "owner"
    log = (home.home.parent / "attached-1.log").read_text()
    assert log.count("Ozzie does not run in this server.") == 1, log


def test_an_attached_server_that_is_killed_is_known_no_more(home: GatewayHome) -> None:
    with start_gateway(home) as gateway, start_attached(home) as attached, start_attached(home) as other:
        attached.kill()
        told = health(gateway)["attached"]

    assert [found["pid"] for found in told] == [other.process.pid]


async def test_where_the_one_that_is_attached_hangs_a_kernel_has_a_gateway_all_the_same(
    home: GatewayHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(connecting, "OWNER_WAIT_S", 0.2)

    async def found(handshake: Handshake) -> Handshake:
        return handshake

    with start_gateway(home) as first, start_attached(home) as hangs:
        hangs.process.send_signal(signal.SIGSTOP)
        try:
            first.kill()
            own = await reach(found)
            gateway = Gateway(home, hangs.process, own.url, own.token)
            await asyncio.to_thread(wait_until, lambda: health(gateway)["uptime_s"] > 2)
        finally:
            hangs.process.send_signal(signal.SIGCONT)
        told = await asyncio.to_thread(health, hangs)
        home.stop_gateways()

    assert (told["pid"], told["temporary"], told["role"]) == (own.pid, True, "attached")
