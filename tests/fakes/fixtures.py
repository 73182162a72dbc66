"""Fixtures of the fakes, for tests/conftest.py to import."""

from collections.abc import Iterator

import pytest

from tests.fakes.openai_server import FakeOpenAI


@pytest.fixture(scope="session")
def fake_openai_server() -> Iterator[FakeOpenAI]:
    """One server for the whole run; most tests want `fake_openai`, which forgets what came before."""
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def fake_openai(fake_openai_server: FakeOpenAI) -> FakeOpenAI:
    """A provider on loopback with nothing recorded and nothing queued."""
    fake_openai_server.forget()
    return fake_openai_server
