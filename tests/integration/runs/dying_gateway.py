"""A gateway that runs one graph of thirty steps, and dies at a moment that it is told.

`python -m tests.integration.runs.dying_gateway FOLDER PORT MOMENT NTH`: the first one on a folder begins the run, later
ones go on with it. What its steps change is counted by the process at PORT. A person who says yes to whatever asks is
part of it. At the Nth time that the moment comes (`event`: something is durable; `before` and `after` an effect) it
kills itself; `held` is an event at which it stops until a line comes in, so that another one can take over; `never`.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ozzie_server_ext import app
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import FINAL_TYPES, Event, Origin
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, ScriptedDriver, Step
from ozzie_server_ext.tasks import projects
from ozzie_server_ext.tasks.approvals import Answerer
from ozzie_server_ext.tasks.service import NewTurn, SkillRequest
from ozzie_server_ext.tools.base import FunctionTool, ToolContext
from ozzie_server_ext.tools.builtin import builtin_tools
from tests.integration.crashes.counter import Client

ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)
COUNTED = tuple(f"count-{number}" for number in range(10))


def skill() -> dict[str, Any]:
    """Thirty steps: agents, counted effects and a yes, side by side where they can be."""
    first = [_counts(name, needs=["plan"]) for name in COUNTED[:6]]
    gate = {"id": "gate", "approve": {"question": "Go on?", "show": "{{steps.plan.output}}"}, "needs": ["plan"]}
    agents = [
        (_agent if number < 10 else _sum)(f"agent-{number}", needs=[COUNTED[number % 6], "gate"])
        for number in range(12)
    ]
    last = [_counts(name, needs=[f"agent-{number}"]) for number, name in enumerate(COUNTED[6:])]
    joins = [_agent(f"join-{number}", needs=[f"agent-{4 * number + each}" for each in range(4)]) for number in range(3)]
    whole = ["join-0", "join-1", "join-2", *COUNTED[6:]]
    more = [_sum("check", needs=["join-0"]), _sum("compare", needs=["join-1", "check"])]
    end = _agent("end", needs=[*whole, "check", "compare"])
    steps = [_agent("plan", needs=[]), *first, gate, *agents, *last, *joins, *more, end]
    assert len(steps) == 30
    return {"name": "thirty", "type": "workflow", "max_parallel": 6, "steps": steps}


def _agent(step_id: str, needs: list[str]) -> dict[str, Any]:
    named = " ".join(f"{{{{steps.{need}.output}}}}" for need in needs[:1] if need != "gate" and need not in COUNTED)
    return {"id": step_id, "instruction": f"{step_id} {named}".strip(), "needs": needs}


def _sum(step_id: str, needs: list[str]) -> dict[str, Any]:
    """Made at once, and recorded behind what it sets free."""
    return {"id": step_id, "call": {"tool": "calculator", "args": {"expr": f"{len(step_id)} * 7"}}, "needs": needs}


def _counts(step_id: str, needs: list[str]) -> dict[str, Any]:
    return {"id": step_id, "call": {"tool": "count_it", "args": {"what": step_id}}, "needs": needs}


class Fate:
    """When it dies."""

    def __init__(self, moment: str, nth: int) -> None:
        self._moment = moment
        self._left = nth

    def meet(self, moment: str, what: str) -> None:
        if moment != self._moment and (moment, self._moment) != ("event", "held"):
            return
        self._left -= 1
        if self._left:
            return
        sys.stdout.write(f"{self._moment} {what}\n")
        sys.stdout.flush()
        if self._moment == "held":
            sys.stdin.readline()  # all of it stands still meanwhile, as in a machine that swaps
        else:
            os.kill(os.getpid(), signal.SIGKILL)


def counting_tool(counter: Client, fate: Fate) -> FunctionTool:
    async def count(context: ToolContext, *, what: Annotated[str, Field(description="what is counted")]) -> ToolResult:
        """Add one to what is counted."""
        await counter.ask_beside("pass", run=what, point="run", call=context.key)
        fate.meet("before", what)
        await counter.ask_beside("effect", run=what, tool="idempotent", key=context.key, pid=os.getpid())
        fate.meet("after", what)
        return ToolResult(ok=True, data={"counted": what}, summary="counted")

    return keyed("count_it", count)


def keyed(name: str, function: Callable[..., Awaitable[ToolResult]]) -> FunctionTool:
    """A tool that changes something, and takes a key."""
    meta = ToolMeta(
        tool_id=f"test.{name}",
        name=name,
        side_effect=SideEffect.REVERSIBLE,
        risk_level=RiskLevel.LOW,
        timeout_s=30,
        idempotency=Idempotency.SUPPORTED,
    )
    return FunctionTool(function, meta)


def answer(request: ModelRequest) -> Sequence[Step]:
    """The same answer to the same step, however often it is asked."""
    return [Say(f"<{request.messages[-1].content.splitlines()[0]}>")]


async def main(folder: Path, port: int, fate: Fate) -> None:
    model, tools = ScriptedDriver([answer] * 500), (*builtin_tools(), counting_tool(Client(port), fate))
    app.OfflineDriver = lambda: model
    projects.builtin_tools = lambda: tools
    home, project = Home(folder / "home"), folder / "project"
    project.mkdir(parents=True, exist_ok=True)
    home.create()
    (home.root / "skills" / "thirty.jsonc").write_text(json.dumps(skill()))
    over = asyncio.Event()
    ozzie = await app.Ozzie.start(home, project)
    ozzie.on_replaced = lambda error: over.set()

    def say(events: tuple[Event, ...]) -> None:
        for event in events:
            fate.meet("event", event.type)

    ozzie.log.on_commit(say)
    rows = await ozzie.log.rows("tasks", where={"mode": "GRAPH"})
    if not rows:
        session = await ozzie.sessions.open("n", title="n", channel="notebook")
        await ozzie.submit(
            NewTurn(
                session.session_id, "", Origin(channel="notebook", sender_id="ana"), skill=SkillRequest(name="thirty")
            )
        )
        rows = await ozzie.log.rows("tasks", where={"mode": "GRAPH"})
    person = asyncio.create_task(_say_yes(ozzie))
    ended = asyncio.create_task(_wait_for_end(ozzie, str(rows[0]["task_id"])))
    replaced = asyncio.create_task(over.wait())
    await asyncio.wait({ended, replaced}, return_when=asyncio.FIRST_COMPLETED)
    person.cancel()
    ended.cancel()
    replaced.cancel()
    await ozzie.stop()
    sys.stdout.write("replaced\n" if over.is_set() else "over\n")
    sys.stdout.flush()


async def _say_yes(ozzie: app.Ozzie) -> None:
    """Whatever asks gets a yes, as soon as it asks or, behind a restart, at once."""
    async with ozzie.feed.subscribe(0, types=frozenset({"approval.requested"})) as events:
        async for _ in events:
            for asked in await ozzie.approvals.list(statuses=["pending"]):
                try:
                    await ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)
                except OzzieError as error:  # somebody was first, or another gateway has taken over
                    sys.stderr.write(f"no yes: {type(error).__name__}\n")


async def _wait_for_end(ozzie: app.Ozzie, task_id: str) -> None:
    async with ozzie.feed.subscribe(0, types=FINAL_TYPES) as events:
        async for event in events:
            if event.task_id == task_id:
                return


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), Fate(sys.argv[3], int(sys.argv[4]))))
