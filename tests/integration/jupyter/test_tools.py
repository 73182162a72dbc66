"""Turns that work with kernels: what is asked, what a yes is for, and what the model reads."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import Way
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    EventBody,
    ModelCallStarted,
    Origin,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.kernels import Ended, Kernels, Ran
from ozzie_server_ext.jupyter.memory import InMemoryKernels
from ozzie_server_ext.jupyter.server import Jupyter
from ozzie_server_ext.models.scripted import Say, Use
from ozzie_server_ext.tasks.approvals import Answerer, Approval
from tests.integration.jupyter.rig import NOTEBOOK, WAIT_S, KernelBench
from tests.scripted_gateway import ScriptedOzzie

pytestmark = pytest.mark.asyncio(loop_scope="package")

ANA = Answerer(name="Ana", way=Way.BROWSER)
RESTS = frozenset({"task.succeeded", "task.failed", "task.cancelled", "task.waiting_input", "task.waiting_approval"})
T = TypeVar("T", bound=EventBody)
RULE = """{"rules": [{"id": "free", "decision": "allow", "reason": "All of it.", "when": {"tools": ["run_in_kernel"]},
"examples": {"match": [{"tool": "run_in_kernel", "args": {"kernel": "a", "code": "1"}}]}}]}"""


class Turns:
    """A gateway whose model is a script, with these kernels around it."""

    def __init__(self, ozzie: ScriptedOzzie) -> None:
        self.ozzie = ozzie

    async def turn(self, *uses: Use, attended: bool = True) -> TaskId:
        """A turn of those calls one after the other, once it rests."""
        self.ozzie.plays(*uses, [Say("Done.")])
        session = await self.ozzie.sessions.open("n", title="n", channel="notebook")
        origin = Origin(channel="notebook", sender_id="ana")
        sent = await self.ozzie.submit(session.session_id, "Go on.", origin, attended=attended)
        task_id = sent.task_id
        await self.rests(task_id)
        return task_id

    async def rests(self, task_id: TaskId, count: int = 1) -> str:
        async with asyncio.timeout(WAIT_S), self.ozzie.feed.subscribe(0, types=RESTS, task_id=task_id) as events:
            for _ in range(count - 1):
                await anext(events)
            return (await anext(events)).type

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
        """What the model read of the last call."""
        last = (await self.facts(task_id, ModelCallStarted))[-1]
        return json.loads(json.loads(await self.ozzie.blobs.get(last.request_blob))["messages"][-1]["content"])


@pytest_asyncio.fixture(loop_scope="package")
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    home, project = Home(tmp_path / "home"), tmp_path / "project"
    home.create()
    project.mkdir()
    started: list[ScriptedOzzie] = []

    async def begin(kernels: Kernels, rules: str = "") -> Turns:
        if rules:
            home.policy_file.write_text(rules)
        ozzie = await ScriptedOzzie.start(home, project, Jupyter(kernels=kernels))
        assert isinstance(ozzie, ScriptedOzzie)
        started.append(ozzie)
        return Turns(ozzie)

    yield begin
    for ozzie in started:
        assert (await ozzie.log.verify()).ok
        await ozzie.stop()


def run(code: str = "x + 1", kernel: str = "analysis.ipynb") -> Use:
    return Use("run_in_kernel", {"kernel": kernel, "code": code})


async def test_a_yes_has_the_code_that_was_shown_run_in_a_real_kernel(start: Any, kernels: KernelBench) -> None:
    await kernels.kernel()
    turns = await start(kernels.live)
    task_id = await turns.turn(run("print('hello')\n20 + 22"))
    asked = (await turns.pending()).asked

    assert asked.sentence.startswith(
        "Run 2 lines of code in the kernel of `analysis.ipynb`? It can do all that you can"
    )
    assert (asked.proof, asked.shown, asked.cover, asked.needs) == ("print('hello')\n20 + 22", "text", None, Way.CLI)
    assert asked.reason == "It runs code in a live kernel, which can do all that you can."
    assert await turns.yes(task_id) == "task.succeeded"
    assert (await turns.read(task_id))["output"] == "hello\n42"
    (done,) = await turns.facts(task_id, ToolCallCompleted)
    assert (done.ok, done.summary, done.brought) == (True, "2 lines", ("output:analysis.ipynb",))


async def test_a_yes_is_void_once_the_kernel_was_restarted(start: Any, kernels: KernelBench) -> None:
    kernel = await kernels.kernel("bound.ipynb")
    turns = await start(kernels.live)
    task_id = await turns.turn(run("open('bound', 'w')", kernel[:8]))
    await kernels.restart(kernel)

    assert await turns.yes(task_id) == "task.waiting_approval", "it is asked anew"
    assert [each.why for each in await turns.facts(task_id, ApprovalExpired)] == ["changed"]
    assert not (kernels.folder / "bound").exists()
    assert await turns.yes(task_id, 3) == "task.succeeded"
    assert (kernels.folder / "bound").exists()


async def test_what_is_stopped_is_interrupted_and_that_is_recorded(start: Any, kernels: KernelBench) -> None:
    kernel = await kernels.kernel()
    turns = await start(kernels.live)
    task_id = await turns.turn(run("print('begun')\nimport time\ntime.sleep(600)"))
    shown = asyncio.Event()
    async with turns.ozzie.feed.subscribe(0, types=frozenset({"tool.output"}), task_id=task_id) as events:
        asked = await turns.pending()
        await turns.ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)
        async with asyncio.timeout(WAIT_S):
            await anext(events)
        shown.set()
    await turns.ozzie.tasks.cancel(task_id, by="ana", reason="No more.")

    assert await turns.rests(task_id, 2) == "task.cancelled"
    (done,) = await turns.facts(task_id, ToolCallCompleted)
    assert isinstance(done.data, dict)
    assert done.data["ended"] == "It was interrupted because the turn was stopped. What it did until then is done."
    assert (await kernels.run(kernel, "1")).ended is Ended.DONE


@pytest.mark.parametrize("rules", ["", RULE], ids=["without rules", "with one that allows the very tool"])
async def test_no_rule_lets_code_run_unasked(start: Any, rules: str) -> None:
    kernels = InMemoryKernels(kernels=[NOTEBOOK])
    turns = await start(kernels, rules)
    task_id = await turns.turn(run())

    assert await turns.rests(task_id) == "task.waiting_approval"
    with pytest.raises(OzzieError):
        await turns.ozzie.approvals.approve((await turns.pending()).approval_id, Answerer(name="k", way=Way.RELAY))
    with pytest.raises(OzzieError):
        await turns.ozzie.approvals.approve((await turns.pending()).approval_id, ANA, extent="session")
    assert kernels.code == []


async def test_where_nobody_is_there_it_is_not_run(start: Any) -> None:
    kernels = InMemoryKernels(kernels=[NOTEBOOK])
    turns = await start(kernels)
    task_id = await turns.turn(run(), attended=False)

    assert await turns.rests(task_id) == "task.succeeded"
    assert kernels.code == []


async def test_looking_runs_unasked_and_what_it_tells_is_from_outside(start: Any) -> None:
    turns = await start(InMemoryKernels(kernels=[NOTEBOOK], variables={"variables": [{"name": "x"}], "left_out": 0}))
    task_id = await turns.turn(Use("list_kernels", {}), Use("inspect_kernel", {"kernel": "analysis.ipynb"}))

    assert await turns.rests(task_id) == "task.succeeded"
    listed, looked = await turns.facts(task_id, ToolCallCompleted)
    assert (listed.summary, listed.brought) == ("1 kernel", ())
    assert (looked.summary, looked.brought) == ("1 variable", ("output:analysis.ipynb",))


async def test_without_kernels_the_list_says_so(start: Any) -> None:
    turns = await start(InMemoryKernels())
    task_id = await turns.turn(Use("list_kernels", {}), run())

    listed, ran = (await turns.facts(task_id, ToolCallCompleted))[0], (await turns.facts(task_id, ToolCallFailed))[0]
    words = "No kernel runs in this Jupyter server. Kernels belong to the Jupyter Server that hosts Ozzie's gateway."
    assert listed.data == {"kernels": [], "note": words}
    assert ran.message == words


@pytest.mark.parametrize("kernel", ["nothing.ipynb", "1f0", "", "analysis", "../analysis.ipynb", "ffff"])
async def test_what_fits_no_kernel_is_refused_with_those_there_are(start: Any, kernel: str) -> None:
    kernels = InMemoryKernels(kernels=[NOTEBOOK])
    turns = await start(kernels)
    task_id = await turns.turn(run(kernel=kernel))

    (failed,) = await turns.facts(task_id, ToolCallFailed)
    assert failed.code in ("kernel.unknown", "tool.arguments")
    assert kernels.code == []


@pytest.mark.parametrize("ended", [Ended.QUEUED, Ended.RUNS_ON])
async def test_what_may_still_run_waits_for_a_person(start: Any, ended: Ended) -> None:
    turns = await start(InMemoryKernels(kernels=[NOTEBOOK], ran=Ran(ended=ended)))
    task_id = await turns.turn(run())

    assert await turns.yes(task_id) == "task.waiting_input"
    (unknown,) = await turns.facts(task_id, ToolCallUncertain)
    assert unknown.reason.startswith("The kernel of `analysis.ipynb` ")


@pytest.mark.parametrize("ended", [each for each in Ended if each not in (Ended.QUEUED, Ended.RUNS_ON)])
async def test_every_other_end_is_told(start: Any, ended: Ended) -> None:
    long: tuple[JsonObject, ...] = ({"output_type": "stream", "name": "stdout", "text": "x\n" * 50_000},)
    turns = await start(InMemoryKernels(kernels=[NOTEBOOK], ran=Ran(ended=ended, outputs=long, execution_count=4)))
    task_id = await turns.turn(run())

    assert await turns.yes(task_id) == "task.succeeded"
    told = await turns.read(task_id)
    if ended is Ended.NOT_BEGUN:
        assert "It was not run." in told["error"]
        return
    told = told.get("error", told)
    assert told["output"]["cut"], told
    assert told["kept"][0]["name"] == "out/analysis-4.log"
    assert ("ended" in told) is (ended not in (Ended.DONE, Ended.FAILED))
