"""Fixtures of these tests."""

import pytest

from tests.integration.tasks.runs_rig import runs

__all__ = ["runs"]


@pytest.fixture(autouse=True)
def _warm(warm_programs: None) -> None:
    """The gateway of many tests runs in their own process: its model workers, pages and checked schemas are forks."""
