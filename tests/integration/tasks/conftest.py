"""Fixtures of these tests."""

from tests.integration.tasks.runs_rig import runs

__all__ = ["runs"]
