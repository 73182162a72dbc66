"""A gateway whose runs somebody asks for something, and which dies around that.

`python -m tests.integration.runs.asked_gateway FOLDER PORT [holds]`: what skills there are lies in the home below the
folder; what their steps change is counted by the process at PORT. It takes one request a line and answers each by a
line, both JSON; see `Asked`. What is asked for is asked for at the `at`th commit, and it kills itself at the `nth` time
that a moment comes: `before` it asks, `writing` (so many turns of the event loop after), at a `commit` after it asked,
whoever made it, at a commit of the `request` itself, when it was `answered`, or when a budget is `over`; `never`. It
says where it died, in a line that is no JSON.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from ozzie_server_ext import app
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    FINAL_TYPES,
    BudgetExceeded,
    Event,
    EventBody,
    Origin,
    TaskPauseRequested,
    TaskResumed,
    TaskRetried,
    TaskSignalled,
    TaskUpdated,
)
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Fail, Say, ScriptedDriver, Step, Use, Wait
from ozzie_server_ext.tasks import projects
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest
from ozzie_server_ext.tools.base import FunctionTool, ToolContext
from ozzie_server_ext.tools.builtin import builtin_tools
from tests.integration.crashes.counter import Client
from tests.integration.runs.dying_gateway import Fate, counting_tool, keyed

REQUESTS: tuple[type[EventBody], ...] = (TaskPauseRequested, TaskResumed, TaskRetried, TaskSignalled, TaskUpdated)
WORDS = "In French, please."
GOES_ON = ["CREATED", "QUEUED", "RUNNING"]
LINGERS_S = 0.1
WAITS_S = 30.0


class Arrivals(asyncio.Event):
    """Counts how often it was set."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = asyncio.Semaphore(0)

    def set(self) -> None:
        super().set()
        self.counted.release()


class Model:
    """Answers by what a step is told first: what `holds` once the gateway was asked for something, what `fails` once a
    file says that it may, and what `lingers` takes its time, by a tool. Who has read the words says so."""

    def __init__(self, folder: Path, holds: bool) -> None:
        self._mended = folder / "mended"
        self.go = asyncio.Event()
        self.arrivals = Arrivals()
        if not holds:
            self.go.set()

    def __call__(self, request: ModelRequest) -> Sequence[Step]:
        said = next(each.content for each in request.messages if each.role == "user").splitlines()[0]
        if "lingers" in said:
            return [Use("linger", {"what": f"{said} {len(request.messages)}"})]
        if "fails" in said and not self._mended.exists():
            return [Fail("provider.auth")]
        heard = any(WORDS in each.content for each in request.messages)
        answer = Say(f"<{said}, heard>" if heard else f"<{said}>")
        return [Wait(self.go, self.arrivals), answer] if "holds" in said else [answer]


def lingering_tool(counter: Client) -> FunctionTool:
    async def linger(context: ToolContext, *, what: str) -> ToolResult:
        """Work for a while, and count it."""
        await counter.ask_beside("pass", run="linger", point="run", call=what)
        await asyncio.sleep(LINGERS_S)
        await counter.ask_beside("effect", run="linger", tool="counted", key=context.key, pid=os.getpid())
        return ToolResult(ok=True, data={"worked": what}, summary="worked")

    return keyed("linger", linger)


class Asked:
    """The gateway, and what may be asked of it."""

    def __init__(self, ozzie: app.Ozzie, model: Model) -> None:
        self.ozzie = ozzie
        self._model = model
        self._fate = Fate("never", 1)
        self._has_asked = False
        self._commits = 0
        self._ended: set[str | None] = set()
        self._committed = asyncio.Condition()
        ozzie.log.on_commit(self._follow)

    async def begin(self, skill: str) -> dict[str, Any]:
        session = await self.ozzie.sessions.open("n", title="n", channel="notebook")
        sent = await self.ozzie.submit(
            NewTurn(session.session_id, "", Origin(channel="notebook", sender_id="ana"), skill=SkillRequest(name=skill))
        )
        return {"task": sent.task_id}

    async def ask_for(
        self, what: str, task: str, at: int = 0, moment: str = "", nth: int = 1, **more: Any
    ) -> dict[str, Any]:
        """What a person does to the run: pause, resume, tell, update, retry; or nothing, and it dies all the same.
        Without a `moment`, it dies when it was to die anyway."""
        async with asyncio.timeout(WAITS_S), self._committed:
            await self._committed.wait_for(lambda: self._commits >= at or task in self._ended)
        return await self._do(what, TaskId(task), Fate(moment, nth) if moment else self._fate, more)

    async def ask_held(self, what: str, task: str, held: int, moment: str = "never", nth: int = 1) -> dict[str, Any]:
        """The same while so many agents are held in the middle of their answers."""
        async with asyncio.timeout(WAITS_S):
            for _ in range(held):
                await self._model.arrivals.counted.acquire()
        return await self._do(what, TaskId(task), Fate(moment, nth), {})

    async def _do(self, what: str, task: TaskId, fate: Fate, more: dict[str, Any]) -> dict[str, Any]:
        self._fate = fate
        fate.meet("before", what)
        self._has_asked = True
        control = self.ozzie.control
        by = "Ana"
        do: dict[str, Callable[[], Awaitable[Any]]] = {
            "pause": lambda: control.pauses.pause(task, by=by),
            "resume": lambda: control.pauses.resume(task, by=by),
            "retry": lambda: control.retries.retry(task, by=by),
            "update": lambda: control.updates.update(task, WORDS, by=by),
            "tell": lambda: control.signals.send(task, more["event"], more["data"], by=by, key=more["key"]),
            "nothing": lambda: asyncio.sleep(0),
        }
        asking = asyncio.ensure_future(do[what]())
        while not asking.done():
            fate.meet("writing", what)
            await asyncio.sleep(0)
        fate.meet("answered", what)
        self._model.go.set()
        try:
            told = await asking
        except OzzieError as error:
            return {"refused": error.code}
        return {"told": told if what == "tell" else True}

    async def quiet(self) -> dict[str, Any]:
        """The states of all tasks, once nothing goes on."""
        return await self._once(lambda rows: not any(row["status"] in GOES_ON for row in rows))

    async def ended(self, task: str) -> dict[str, Any]:
        """Those states once that task has ended."""
        await self._once(lambda rows: any(row["task_id"] == task and row["status"] in _FINAL for row in rows))
        return await self.quiet()

    async def waits(self, step: str, times: int) -> dict[str, Any]:
        """Once a step of that name waits, after so many others have."""
        async with asyncio.timeout(WAITS_S), self._feed() as events:
            while True:
                rows = await self.ozzie.log.rows("steps", where={"step_id": step})
                if len(rows) == times and any(row["status"] == "RUNNING" for row in rows):
                    return {}
                await anext(events)

    async def retry_refused(self, task: str) -> dict[str, Any]:
        try:
            await self.ozzie.control.retries.retry(TaskId(task), by="Ana")
        except OzzieError as error:
            return {"refused": error.code}
        return {}

    async def _once(self, wanted: Callable[[list[dict[str, Any]]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(WAITS_S), self._feed() as events:
            while True:
                rows = [dict(row) for row in await self.ozzie.log.rows("tasks")]
                if wanted(rows):
                    return {str(row["task_id"]): row["status"] for row in rows}
                await anext(events)

    def _feed(self) -> AbstractAsyncContextManager[Any]:
        return self.ozzie.feed.subscribe(0)

    def _follow(self, events: tuple[Event, ...]) -> None:
        self._commits += 1
        self._ended |= {event.task_id for event in events if event.type in FINAL_TYPES}
        if self._has_asked:
            what = events[-1].type
            self._fate.meet("commit", what)
            if any(isinstance(event.body, REQUESTS) for event in events):
                self._fate.meet("request", what)
            if any(isinstance(event.body, BudgetExceeded) for event in events):
                self._fate.meet("over", what)
        self._notifying = asyncio.ensure_future(self._notify())

    async def _notify(self) -> None:
        async with self._committed:
            self._committed.notify_all()


_FINAL = {kind.removeprefix("task.").upper() for kind in FINAL_TYPES}


async def main(folder: Path, counter: Client, holds: bool) -> None:
    model = Model(folder, holds)
    script = ScriptedDriver([model] * 500)
    tools = (*builtin_tools(), counting_tool(counter, Fate("never", 1)), lingering_tool(counter))
    app.OfflineDriver = lambda: script
    projects.builtin_tools = lambda: tools
    project = folder / "project"
    project.mkdir(exist_ok=True)
    asked = Asked(await app.Ozzie.start(Home(folder / "home"), project), model)
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = json.loads(line)
        answer = await getattr(asked, request.pop("do"))(**request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    await asked.ozzie.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Client(int(sys.argv[2])), "holds" in sys.argv[3:]))
