"""The rig of these tests, let go of at their end."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.tasks.rig import TaskRig


@pytest.fixture
async def rig() -> AsyncIterator[TaskRig]:
    rig = TaskRig()
    yield rig
    await rig.driver.stop()
