"""One kernel with many models for a whole module: its model worker takes seconds to start."""

from collections.abc import Iterator

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.rig import GatewayHome, Kernel, new_home, start_kernel

MODELS = ("echo", "tools", "parallel", "endless", "broken", "garbage", "status-401", "status-500")


@pytest.fixture(scope="module")
def served_home(tmp_path_factory: pytest.TempPathFactory, fake_openai_server: FakeOpenAI) -> Iterator[GatewayHome]:
    home = new_home(tmp_path_factory.mktemp("served"))
    home.use_provider(fake_openai_server.url, *MODELS)
    yield home
    home.stop_gateways()


@pytest.fixture(scope="module")
def served(served_home: GatewayHome) -> Iterator[Kernel]:
    """A kernel whose session may choose among MODELS."""
    kernel = start_kernel(served_home)
    yield kernel
    kernel.stop()
