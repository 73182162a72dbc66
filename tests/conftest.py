"""Fixtures that tests of several kinds share: a real gateway, a real kernel, a fake provider."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.fakes.fixtures import fake_openai, fake_openai_server
from tests.other_account import nobody, open_folder
from tests.rig import Gateway, GatewayHome, Kernel, new_home, start_gateway, start_kernel
from tests.tiers import SOAK
from tests.warm import cold, programs_warm, start_kernels_warm

__all__ = ["fake_openai", "fake_openai_server", "nobody", "open_folder"]

# `make test` tries the same few examples of each property every time, `make soak` many, and others each time. How long
# one takes says more about the machine than about the code.
settings.register_profile("few", max_examples=25, derandomize=True, deadline=None)
settings.register_profile("many", max_examples=400, deadline=None)
settings.load_profile("many" if SOAK else "few")

# As in the model worker (`programs.worker_backend`): litellm would ask the web for prices as it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LITELLM_MODE"] = "PRODUCTION"

start_kernels_warm()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the properties as `sampled`: both tiers try them."""
    for item in items:
        if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
            item.add_marker("sampled")


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Writes a line where whoever runs the tests sees it."""

    def write(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}")
            sys.stdout.flush()

    return write


@pytest.fixture(autouse=True)
def _start_cold(request: pytest.FixtureRequest) -> Iterator[None]:
    with cold() if request.node.get_closest_marker("cold") else nullcontext():
        yield


@pytest.fixture
def warm_programs() -> Iterator[None]:
    """Programs that the code under test starts from this process are forks, as those are that a gateway starts."""
    with programs_warm():
        yield


@pytest.fixture
def home(tmp_path: Path) -> GatewayHome:
    """An Ozzie home of this test's own, with a project folder beside it."""
    return new_home(tmp_path)


@pytest.fixture
def gateway(home: GatewayHome) -> Iterator[Gateway]:
    """A headless gateway on that home, in a process of its own."""
    with start_gateway(home) as running:
        yield running


@pytest.fixture(scope="session")
def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway for the tests that leave it as it was."""
    with start_gateway(new_home(tmp_path_factory.mktemp("shared"))) as running:
        yield running


@pytest.fixture
def new_kernel(home: GatewayHome) -> Iterator[Callable[[], Kernel]]:
    """Starts Ozzie kernels on the test's home; all are shut down at its end."""
    started: list[Kernel] = []

    def start() -> Kernel:
        started.append(start_kernel(home))
        return started[-1]

    yield start
    for kernel in started:
        kernel.stop()
    home.stop_gateways()
