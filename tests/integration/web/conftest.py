"""Servers on loopback, and the web as Ozzie reaches it, held to them."""

from collections.abc import Iterator

import pytest

from ozzie_server_ext.web.reach import ErrandWeb
from tests.fakes.web_server import FakeWeb


@pytest.fixture(autouse=True)
def _warm(warm_programs: None) -> None:
    """Each test reads a page in a process of its own, or many."""


@pytest.fixture
def servers() -> Iterator[FakeWeb]:
    with FakeWeb() as running:
        yield running


@pytest.fixture
def web(servers: FakeWeb) -> ErrandWeb:
    return ErrandWeb(allowance=servers.allowance())
