"""Turns that work with kernels: what is asked, what a yes is for, and what the model reads."""

import asyncio
from typing import Any

import pytest

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.kernels import Ended, Ran
from ozzie_server_ext.models.scripted import Use
from ozzie_server_ext.tasks.approvals import Answerer
from tests.fakes.kernels import InMemoryKernels
from tests.integration.jupyter.rig import NOTEBOOK, WAIT_S, KernelBench
from tests.integration.jupyter.turns import ANA

pytestmark = pytest.mark.asyncio(loop_scope="package")

RULE = """{"rules": [{"id": "free", "decision": "allow", "reason": "All of it.", "when": {"tools": ["run_in_kernel"]},
"examples": {"match": [{"tool": "run_in_kernel", "args": {"kernel": "a", "code": "1"}}]}}]}"""


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
    assert (asked.proof, asked.shown, asked.cover, asked.needs) == (
        "print('hello')\n20 + 22",
        "text",
        None,
        AuthStrength.CLI,
    )
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
        await turns.ozzie.approvals.approve(
            (await turns.pending()).approval_id, Answerer(name="k", way=AuthStrength.RELAY)
        )
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
        assert "It was not run." in told["message"]
        return
    assert told["output"]["cut"], told
    assert told["kept"][0]["name"] == "out/analysis-4.log"
    assert ("ended" in told) is (ended not in (Ended.DONE, Ended.FAILED))
