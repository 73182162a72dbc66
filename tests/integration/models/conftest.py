"""One worker for all tests of this folder, because litellm takes seconds to load."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ozzie_server_ext.models.worker_client import WORKER_ARGV, WorkerDriver
from ozzie_server_ext.planes.pool import Pool
from ozzie_server_ext.planes.supervisor import Pace, Supervisor
from ozzie_server_ext.store.blobs import InMemoryBlobs
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.providers import all_providers
from tests.integration.models.rig import Rig, access_of, providers


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    log_file = tmp_path_factory.mktemp("logs") / "model-worker.log"
    lost: list[str] = []
    plane = Supervisor(
        "model worker",
        WORKER_ARGV,
        log_file=log_file,
        env={**os.environ, "OPENAI_API_KEY": "sk-from-the-environment"},
        on_lost=lambda _, reason: lost.append(reason),
        pace=Pace(pauses_s=(0.05,)),
    )
    with FakeOpenAI() as server, all_providers() as fakes:
        known = providers(server, fakes)
        blobs = InMemoryBlobs()
        driver = WorkerDriver(Pool(lambda _: plane, limit=lambda: 1), access_of(known), blobs.get)
        yield Rig(driver, plane, server, fakes, log_file, lost, known, blobs)
        await plane.stop()


@pytest.fixture
def rig(shared_rig: Rig) -> Rig:
    for fake in (shared_rig.server, *shared_rig.fakes.values()):
        fake.forget()
    shared_rig.lost.clear()
    return shared_rig
