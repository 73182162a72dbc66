"""Turns of a gateway whose model is a script, with kernels around it."""

import json
from typing import Any, TypeVar

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import EventBody, ModelCallStarted, Origin
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.models.scripted import Say, Use
from ozzie_server_ext.tasks.approvals import Answerer, Approval
from ozzie_server_ext.tasks.service import NewTurn
from tests.integration.jupyter.rig import WAIT_S
from tests.results import result_of
from tests.scripted_gateway import ScriptedOzzie

ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)
T = TypeVar("T", bound=EventBody)


class Turns:
    """A gateway whose model is a script, with these kernels around it."""

    def __init__(self, ozzie: ScriptedOzzie) -> None:
        self.ozzie = ozzie

    async def turn(self, *uses: Use, attended: bool = True) -> TaskId:
        """A turn of those calls one after the other, once it rests."""
        self.ozzie.plays(*uses, [Say("Done.")])
        session = await self.ozzie.sessions.open("n", title="n", channel="notebook")
        origin = Origin(channel="notebook", sender_id="ana")
        sent = await self.ozzie.submit(NewTurn(session.session_id, "Go on.", origin, attended=attended))
        task_id = sent.task_id
        await self.rests(task_id)
        return task_id

    async def rests(self, task_id: TaskId, count: int = 1) -> str:
        return await self.ozzie.rests(task_id, count, wait_s=WAIT_S)

    async def pending(self) -> Approval:
        (found,) = await self.ozzie.approvals.list(statuses=["pending"])
        return found

    async def yes(self, task_id: TaskId, count: int = 2) -> str:
        asked = await self.pending()
        await self.ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)
        return await self.rests(task_id, count)

    async def facts(self, task_id: TaskId, kind: type[T]) -> list[T]:
        bodies = [event.body for event in await self.ozzie.log.read_stream(task_stream(task_id))]
        return [body for body in bodies if isinstance(body, kind)]

    async def read(self, task_id: TaskId) -> Any:
        """What the model read of the last call: its data, or the error."""
        last = (await self.facts(task_id, ModelCallStarted))[-1]
        result = result_of(json.loads(await self.ozzie.blobs.get(last.request_blob))["messages"][-1]["content"])
        return result.error if result.data is None else result.data
