"""A gateway with 120 tools beside Ozzie's own and a script for a model; as a program, one that waits to be killed.

`python -m tests.integration.tasks.many_tools_gateway FOLDER MESSAGE` submits the message, finds tools in its first
round, and says "waiting" once it is asked for the second.
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.models.scripted import Round, ScriptedDriver, Use, Wait
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.tools.builtin import builtin_tools
from tests.unit.tools.many import many_tools

FIND = Use("find_tools", {"query": "assign a reactor"})


@contextmanager
def parts(script: Iterable[Round], told_by: Content = CLEAN) -> Iterator[ScriptedDriver]:
    """A gateway that starts within this has them from its first moment: what was unfinished goes on with them."""
    model = ScriptedDriver(script)
    tools = (*builtin_tools(), *many_tools(told_by=told_by))
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr("ozzie_server_ext.app.OfflineDriver", lambda: model)
        changed.setattr("ozzie_server_ext.tasks.projects.builtin_tools", lambda: tools)
        yield model


async def start(folder: Path) -> Ozzie:
    home, project = Home(folder / "home"), folder / "project"
    (project / "notes").mkdir(parents=True, exist_ok=True)
    home.create()
    return await Ozzie.start(home, project)


async def ask(ozzie: Ozzie, said: str) -> TaskId:
    session = await ozzie.sessions.open("n", title="n", channel="notebook")
    return (await ozzie.submit(NewTurn(session.session_id, said, Origin(channel="notebook", sender_id="ana")))).task_id


async def wait_to_be_killed(folder: Path, said: str) -> None:
    reached = asyncio.Event()
    with parts([[FIND], [Wait(asyncio.Event(), reached)]]):
        ozzie = await start(folder)
        task_id = await ask(ozzie, said)
        await reached.wait()
        print("waiting", task_id, flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(wait_to_be_killed(Path(sys.argv[1]), sys.argv[2]))
