"""What Jupyter tells of its files is taken in the order in which it was told."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from ozzie_server_ext.gateway.jupyter_server import follow_contents
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import GatewayState

Listener = Callable[[Any, str, dict[str, Any]], Coroutine[Any, Any, None]]


class Told:
    """Stands for the server, its log of events, and for who is told of moves: the first of them takes a while."""

    root_dir = "/project"

    def __init__(self) -> None:
        self.event_logger = self.notebooks = self
        self.first_may_end = asyncio.Event()
        self.moves: list[tuple[str, str]] = []
        self._begun = 0

    def add_listener(self, *, schema_id: str, listener: Listener) -> None:
        self.listener = listener

    async def moved(self, before: str, after: str, *, by: str) -> None:
        self._begun += 1
        if self._begun == 1:
            await self.first_may_end.wait()
        self.moves.append((before, after))


async def test_a_name_that_another_notebook_takes_at_once_is_left_first() -> None:
    told = Told()
    follow_contents(told, GatewayState(ozzie=cast("Services", told)))
    renames = [("a.ipynb", "b.ipynb"), ("c.ipynb", "a.ipynb")]

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for source, path in renames:
            group.create_task(told.listener(None, "", {"action": "rename", "source_path": source, "path": path}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        told.first_may_end.set()

    assert told.moves == [(f"/project/{source}", f"/project/{path}") for source, path in renames]
