"""A gateway in this process whose offline model answers at once, and turns in it."""

import time
from pathlib import Path

from bench.steps import ENDS
from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.models.offline import OfflineDriver
from ozzie_server_ext.tasks.service import NewTurn

_ORIGIN = Origin(channel="notebook", sender_id="bench")


class InstantOzzie(Ozzie):
    """Without the pauses that let a person see the answer stream."""

    def __init__(self, home: Home, project: Path, jupyter: Jupyter) -> None:
        super().__init__(home, project, jupyter)
        self.offline = OfflineDriver(pause_s=0)


async def session_of(ozzie: Ozzie, name: str) -> SessionId:
    """Return the session of this name, a new one if there is none."""
    return (await ozzie.sessions.open(name, title="bench", channel="notebook")).session_id


async def turn(ozzie: Ozzie, session: SessionId) -> float:
    """Return the seconds from a message to the end of its turn. Raise ValueError if that did not succeed."""
    began = time.perf_counter()
    sent = await ozzie.submit(NewTurn(session, "What is 6 * 7?", _ORIGIN))
    async with ozzie.feed.subscribe(sent.position, types=ENDS, task_id=sent.task_id) as events:
        end = await anext(events)
    took = time.perf_counter() - began
    if end.type != "task.succeeded":
        raise ValueError(f"a turn did not come to its end: {end}")
    return took
