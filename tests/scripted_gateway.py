"""A gateway without HTTP in which the model is a script: log, tools, rules, approvals and files are real."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.models.driver import Models
from ozzie_server_ext.models.scripted import Round, ScriptedDriver, Use

RESTS = frozenset({"task.succeeded", "task.failed", "task.cancelled", "task.waiting_input", "task.waiting_approval"})
"""A task has ended, or waits for a person."""


class ScriptedOzzie(Ozzie):
    """With a script in the place of the offline model, and of those that are configured."""

    def plays(self, *rounds: Round | Use | tuple[Use, ...]) -> ScriptedDriver:
        """From now on: a round each, of one call, of several at once, or of what a script's round may be."""
        driver = ScriptedDriver([[each] if isinstance(each, Use) else each for each in rounds])
        self.offline = driver
        self._shared = replace(self._shared, offline=driver)  # of projects that are opened from now on
        for project in self.projects.opened:
            project.turn_runner.parts = replace(project.turn_runner.parts, models=Models(offline=driver, worker=driver))
        return driver

    async def rests(self, task_id: TaskId, count: int = 1, *, wait_s: float) -> str:
        """What a task came to rest with, the given time that it did."""
        async with asyncio.timeout(wait_s), self.feed.subscribe(0, types=RESTS, task_id=task_id) as events:
            for _ in range(count - 1):
                await anext(events)
            return (await anext(events)).type

    async def again(self) -> "ScriptedOzzie":
        """Stop, and start another one on the same home, whose model goes on with the same script from the first
        moment."""
        await self.stop()
        offline = self.offline

        class _Again(ScriptedOzzie):
            def __init__(self, home: Home, project: Path, jupyter: Jupyter) -> None:
                super().__init__(home, project, jupyter)
                self.offline = offline

        started = await _Again.start(self.home, self.project, self.jupyter)
        assert isinstance(started, ScriptedOzzie)
        return started
