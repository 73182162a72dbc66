"""Several real workers: each knows the keys, obeys an abort, and tells how busy it is."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.worker_client import WORKER_ARGV, WorkerDriver
from ozzie_server_ext.planes.pool import Pool
from ozzie_server_ext.planes.supervisor import Supervisor
from tests.integration.models.rig import KEY, WAIT_S, Rig, access_of, read, request, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def pair(rig: Rig, tmp_path: Path) -> AsyncIterator[Rig]:
    """The rig with a second worker that may start; it ends with the test, the first one stays."""
    second = Supervisor("model worker 2", WORKER_ARGV, log_file=tmp_path / "model-worker-2.log")
    hook = rig.plane.on_heartbeat
    pool = Pool(lambda number: rig.plane if number == 1 else second, limit=lambda: 2)
    driver = WorkerDriver(pool, access_of(rig.providers))
    yield replace(rig, driver=driver)
    await driver.known.forget()
    await second.stop()
    rig.plane.on_heartbeat = hook
    # What the rig's own driver told the first worker has been replaced.
    await rig.driver.known.forget()


@pytest.mark.soak
async def test_an_abort_on_the_second_worker_closes_its_connection_and_no_other(pair: Rig) -> None:
    pool = pair.driver._pool
    first = [pair.driver.generate(request("endless")) for _ in range(2)]
    for stream in first:
        await asyncio.wait_for(anext(stream), WAIT_S)
    for _ in range(2):  # as the first worker's heartbeats would say it
        pool._heard(pool._members[0], {"type": "heartbeat", "cpu": 1.0})
    await asyncio.wait_for(pool._members[1].plane.channel(), WAIT_S)

    third = pair.driver.generate(request("endless"))
    await asyncio.wait_for(anext(third), WAIT_S)
    assert [child.calls for child in pool.children] == [2, 1]
    assert {asked.headers["authorization"] for asked in pair.server.requests} == {f"Bearer {KEY}"}

    await third.aclose()
    await asyncio.to_thread(pair.server.wait_for, lambda server: server.disconnects == ["endless"])
    for stream in first:
        await asyncio.wait_for(anext(stream), WAIT_S)
        await stream.aclose()
    await asyncio.to_thread(pair.server.wait_for, lambda server: len(server.disconnects) == 3)
    assert text_of(await read(pair, request("echo"))) == "hello big wide world"
    assert pair.lost == []


async def test_providers_of_one_name_in_two_projects_keep_their_own_keys_in_one_worker(rig: Rig) -> None:
    others = {name: replace(access, api_key="sk-of-the-other-project") for name, access in rig.providers.items()}
    other = replace(rig, driver=WorkerDriver(rig.driver._pool, access_of(others), known=rig.driver.known))

    for _ in range(2):
        await read(rig, request("echo"))
        await read(other, request("echo"))
    await asyncio.gather(*(read(each, request("echo")) for each in (rig, other) * 3))

    keys = [asked.headers["authorization"].removeprefix("Bearer ") for asked in rig.server.requests]
    assert keys[:4] == [KEY, "sk-of-the-other-project"] * 2
    assert sorted(keys[4:]) == sorted([KEY, "sk-of-the-other-project"] * 3)


async def test_a_worker_tells_with_its_heartbeats_what_share_of_a_core_it_uses(rig: Rig) -> None:
    heard: asyncio.Queue[JsonObject] = asyncio.Queue()
    hook, rig.plane.on_heartbeat = rig.plane.on_heartbeat, heard.put_nowait
    try:
        stream = rig.driver.generate(request("endless"))
        await asyncio.wait_for(anext(stream), WAIT_S)
        for _ in range(2):
            share = (await asyncio.wait_for(heard.get(), WAIT_S))["cpu"]
            assert isinstance(share, float)
            assert 0 < share < 2
        await stream.aclose()
    finally:
        rig.plane.on_heartbeat = hook
