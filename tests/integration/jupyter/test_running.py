"""Code in real kernels: what comes of it, and that nothing of the user's is touched that was not asked for."""

import asyncio
import base64
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.jupyter.kernels import Ended, KernelBusy, KernelChanged, KernelUnfit, NoSuchKernel, Ran
from ozzie_server_ext.jupyter.outputs import MOST_CHARACTERS, pictures_of, raised_in, text_of
from tests.integration.jupyter.rig import WAIT_S, KernelBench, open_files
from tests.loop_holds import longest_hold

pytestmark = pytest.mark.asyncio(loop_scope="package")

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()


async def test_code_runs_as_a_cell_that_counts_and_gives_its_outputs(kernels: KernelBench) -> None:
    kernel = await kernels.kernel()
    first = await kernels.run(kernel, "x = 41\nprint('hello')\nx + 1")
    second = await kernels.run(kernel, "_ + x")

    assert first.ended is Ended.DONE
    assert first.execution_count is not None
    assert second.execution_count == first.execution_count + 1
    assert text_of(first.outputs) == "hello\n42"
    assert text_of(second.outputs) == "83"


async def test_what_it_prints_is_shown_as_it_comes(kernels: KernelBench) -> None:
    kernel = await kernels.kernel()
    shown: list[str] = []
    seen = asyncio.Event()

    def show(text: str) -> None:
        shown.append(text)
        seen.set()

    code = "import pathlib, time\nprint('first', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\n"
    running = asyncio.create_task(kernels.run(kernel, code + "print('second')", show=show))
    await asyncio.wait_for(seen.wait(), WAIT_S)
    assert not running.done()
    (kernels.folder / "go").touch()

    assert text_of((await running).outputs) == "first\nsecond"
    assert "".join(shown) == "first\nsecond\n"


async def test_a_picture_is_kept_and_what_could_act_is_left_out(kernels: KernelBench) -> None:
    kernel = await kernels.kernel()
    ran = await kernels.run(
        kernel,
        "from IPython.display import display\n"
        f"display({{'image/png': '{PIXEL}', 'text/plain': 'a figure', 'text/html': '<img src=x onerror=alert(1)>',"
        " 'application/javascript': 'alert(1)', 'image/svg+xml': '<svg onload=alert(1)>'}, raw=True)",
    )

    assert ran.outputs == (
        {"output_type": "display_data", "data": {"image/png": PIXEL, "text/plain": "a figure"}, "metadata": {}},
    )
    assert pictures_of(ran.outputs) == (("image/png", base64.b64decode(PIXEL)),)
    assert {*ran.left_out} == {"text/html", "application/javascript", "image/svg+xml"}


async def test_what_it_raises_is_told_without_colours(kernels: KernelBench) -> None:
    ran = await kernels.run(await kernels.kernel(), "def f():\n    return 1 / 0\nf()")

    assert (ran.ended, raised_in(ran.outputs)) == (Ended.FAILED, "ZeroDivisionError: division by zero")
    assert "\x1b" not in text_of(ran.outputs)
    assert "return 1 / 0" in text_of(ran.outputs)


async def test_code_that_asks_for_input_is_refused_it(kernels: KernelBench) -> None:
    ran = await kernels.run(await kernels.kernel(), "input('name? ')")

    assert ran.ended is Ended.FAILED
    assert raised_in(ran.outputs).startswith("StdinNotImplementedError")


async def test_a_busy_kernel_is_refused_and_the_cell_in_it_goes_on(kernels: KernelBench) -> None:
    kernel = await kernels.kernel()
    process = await kernels.live.process(kernel)
    page = await kernels.page(kernel)
    (kernels.folder / "free").unlink(missing_ok=True)
    cell = await page.begin("import pathlib, time\nwhile not pathlib.Path('free').exists(): time.sleep(0.01)")

    words = r"^The kernel of `analysis\.ipynb` is busy with a cell; try again when it is done\.$"
    with pytest.raises(KernelBusy, match=words):
        await kernels.live.run(kernel, "mine = 1", process=process, timeout_s=WAIT_S)
    with pytest.raises(KernelBusy, match=words):
        await kernels.live.process(kernel)
    with pytest.raises(KernelBusy, match=words):
        await kernels.live.inspect(kernel)

    (kernels.folder / "free").touch()
    assert (await page.reply(cell))["status"] == "ok"
    assert raised_in((await kernels.run(kernel, "mine")).outputs) == "NameError: name 'mine' is not defined"
    page.leave()


async def test_what_takes_too_long_is_interrupted_and_the_kernel_stays(kernels: KernelBench) -> None:
    kernel = await kernels.kernel()
    ran = await kernels.run(
        kernel, "import time\nlasting = 7\nprint('begun', flush=True)\ntime.sleep(600)", timeout_s=1
    )

    assert (ran.ended, raised_in(ran.outputs)) == (Ended.TIMED_OUT, "KeyboardInterrupt")
    assert text_of((await kernels.run(kernel, "lasting")).outputs) == "7"


@pytest.mark.soak
async def test_what_misses_one_interrupt_is_interrupted_again(kernels: KernelBench) -> None:
    """As Python misses one that comes in the instant before a blocking call."""
    kernel = await kernels.kernel("missing.ipynb")
    code = (
        "import signal, time\nusual = signal.getsignal(signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, usual))\n"
        "until = time.monotonic() + 600\nwhile time.monotonic() < until: time.sleep(600)"
    )
    ran = await kernels.run(kernel, code, timeout_s=1)

    assert (ran.ended, raised_in(ran.outputs)) == (Ended.TIMED_OUT, "KeyboardInterrupt")


async def test_what_ignores_the_interrupt_is_told_to_go_on(kernels: KernelBench) -> None:
    kernel = await kernels.kernel("stubborn.ipynb")
    code = (
        "import signal, time, pathlib\nbefore = signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "while not pathlib.Path('enough').exists(): time.sleep(0.01)\nsignal.signal(signal.SIGINT, before)"
    )
    ran = await kernels.run(kernel, code, timeout_s=1)
    (kernels.folder / "enough").touch()

    assert ran.ended is Ended.RUNS_ON


async def test_a_cell_that_came_first_is_not_interrupted_by_our_limit(kernels: KernelBench) -> None:
    """It becomes busy between the look and the run: ours stands in the queue."""
    kernel = await kernels.kernel()
    page = await kernels.page(kernel)
    (kernels.folder / "end").unlink(missing_ok=True)
    cells: list[str] = []

    async def with_a_cell_before() -> None:
        cells.append(await page.begin("import pathlib, time\nwhile not pathlib.Path('end').exists(): time.sleep(0.01)"))

    process = await kernels.live.process(kernel)
    kernels.between = with_a_cell_before
    ran = await kernels.live.run(kernel, "late = 1", process=process, timeout_s=1)
    kernels.between = None
    (kernels.folder / "end").touch()

    assert (ran.ended, ran.outputs) == (Ended.QUEUED, ())
    assert (await page.reply(cells[0]))["status"] == "ok"
    await page.run("pass")
    assert text_of((await kernels.run(kernel, "late")).outputs) == "1", "it did run, as was said that it may"
    page.leave()


@pytest.mark.parametrize(
    "code",
    [
        "while True: print('x' * 1000)",
        pytest.param("import sys\nwhile True: sys.stdout.write('x'); sys.stdout.flush()", marks=pytest.mark.soak),
        pytest.param("while True: print('x' * 3_000_000, flush=True)", marks=pytest.mark.soak),
        pytest.param(
            "from IPython.display import display\nwhile True: display({'text/plain': 'x' * 1000}, raw=True)",
            marks=pytest.mark.soak,
        ),
    ],
    ids=["lines", "characters", "large pieces", "displays"],
)
async def test_a_flood_is_cut_and_interrupted_and_the_server_goes_on(kernels: KernelBench, code: str) -> None:
    kernel = await kernels.kernel("flood.ipynb")
    async with asyncio.timeout(WAIT_S):
        running = asyncio.create_task(kernels.run(kernel, code, timeout_s=6))
        longest = await longest_hold(running)
        ran = await running

    assert ran.ended in (Ended.CUT, Ended.TIMED_OUT)
    assert ran.is_cut or ran.ended is Ended.TIMED_OUT
    assert sum(len(str(output)) for output in ran.outputs) < 2 * MOST_CHARACTERS
    assert longest < 0.5
    assert text_of((await kernels.run(kernel, "1 + 1")).outputs) == "2"


async def test_one_huge_message_is_not_received_at_all(kernels: KernelBench) -> None:
    kernel = await kernels.kernel("flood.ipynb")
    ran = await kernels.run(kernel, "print('small', flush=True)\nprint('x' * 200_000_000)")

    assert ran.ended in (Ended.DONE, Ended.CUT)
    assert ran.is_cut
    assert len(text_of(ran.outputs)) < 100
    assert text_of((await kernels.run(kernel, "1 + 1")).outputs) == "2"


async def test_whoever_stops_waiting_has_the_code_interrupted_and_learns_what_came_of_it(kernels: KernelBench) -> None:
    kernel = await kernels.kernel()
    begun = asyncio.Event()
    running = asyncio.create_task(
        kernels.run(kernel, "print('begun', flush=True)\nimport time\ntime.sleep(600)", show=lambda text: begun.set())
    )
    await asyncio.wait_for(begun.wait(), WAIT_S)
    running.cancel()
    ran = await running

    assert (ran.ended, raised_in(ran.outputs)) == (Ended.STOPPED, "KeyboardInterrupt")
    assert text_of((await kernels.run(kernel, "'free'")).outputs) == "'free'"


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
async def test_a_kernel_that_dies_in_the_middle_is_lost(kernels: KernelBench, signal_number: int) -> None:
    kernel = await kernels.kernel(f"dying-{signal_number}.ipynb")
    code = f"print('begun', flush=True)\nimport os, time\nos.kill(os.getpid(), {signal_number})\ntime.sleep(600)"
    ran = await kernels.run(kernel, code)

    assert ran.ended is Ended.LOST
    assert text_of(ran.outputs).startswith("begun") or ran.outputs == ()
    # Not restarted: that asks the dead kernel to end, and the one after it, on the same ports, may get the request.
    await kernels.manager.shutdown_kernel(kernel, now=True)


async def test_a_kernel_that_is_restarted_in_the_middle_is_lost(kernels: KernelBench) -> None:
    kernel = await kernels.kernel("restarted.ipynb")
    begun = asyncio.Event()
    code = "print('begun', flush=True)\nimport time\ntime.sleep(600)"
    running = asyncio.create_task(kernels.run(kernel, code, show=lambda text: begun.set()))
    await asyncio.wait_for(begun.wait(), WAIT_S)
    await kernels.restart(kernel)

    assert (await running).ended is Ended.LOST


async def test_a_restart_whose_interrupt_is_answered_first_is_no_failure_of_the_code(
    kernels: KernelBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = await kernels.kernel("interrupted.ipynb")
    manager = kernels.manager.get_kernel(kernel)
    begun, ended = asyncio.Event(), asyncio.Event()
    shut_down = manager._async_request_shutdown

    async def once_it_ended(**how: Any) -> None:
        await asyncio.wait_for(ended.wait(), WAIT_S)
        await shut_down(**how)

    async def run() -> Ran:
        code = "print('begun', flush=True)\nimport time\ntime.sleep(600)"
        try:
            return await kernels.run(kernel, code, show=lambda text: begun.set())
        finally:
            ended.set()

    monkeypatch.setattr(manager, "_async_request_shutdown", once_it_ended)
    running = asyncio.create_task(run())
    await asyncio.wait_for(begun.wait(), WAIT_S)
    await kernels.restart(kernel)

    ran = await running
    assert (ran.ended, raised_in(ran.outputs)) == (Ended.LOST, "KeyboardInterrupt")


async def test_a_kernel_that_was_restarted_before_runs_nothing(kernels: KernelBench) -> None:
    kernel = await kernels.kernel("restarted.ipynb")
    process = await kernels.live.process(kernel)
    assert await kernels.live.process(kernel) == process
    await kernels.restart(kernel)

    with pytest.raises(KernelChanged, match=r"was restarted meanwhile\. Nothing was run in it\.$"):
        await kernels.live.run(kernel, "open('ran', 'w')", process=process, timeout_s=WAIT_S)
    assert await kernels.live.process(kernel) != process
    assert not (kernels.folder / "ran").exists()


async def test_two_at_once_do_not_get_in_each_others_way(kernels: KernelBench) -> None:
    kernel, other = await kernels.kernel(), await kernels.kernel("other.ipynb")
    process = await kernels.live.process(kernel)
    begun = asyncio.Event()
    first = asyncio.create_task(
        kernels.run(kernel, "print('begun', flush=True)\nimport time\ntime.sleep(1)\n1", show=lambda text: begun.set())
    )
    await asyncio.wait_for(begun.wait(), WAIT_S)

    with pytest.raises(KernelBusy):
        await kernels.live.run(kernel, "2", process=process, timeout_s=WAIT_S)
    assert text_of((await kernels.run(other, "3")).outputs) == "3"
    assert text_of((await first).outputs) == "begun\n1"


async def test_our_failing_code_lets_the_users_queued_cells_run(kernels: KernelBench) -> None:
    kernel = await kernels.kernel()
    page = await kernels.page(kernel)
    begun = asyncio.Event()
    running = asyncio.create_task(
        kernels.run(
            kernel, "print('begun', flush=True)\nimport time\ntime.sleep(0.5)\n1 / 0", show=lambda text: begun.set()
        )
    )
    await asyncio.wait_for(begun.wait(), WAIT_S)
    cell = page.send("'mine'")

    assert (await running).ended is Ended.FAILED
    assert (await page.reply(cell))["status"] == "ok"
    page.leave()


async def test_an_unknown_kernel_and_our_own_are_refused_in_words(kernels: KernelBench) -> None:
    with pytest.raises(NoSuchKernel, match="No kernel of that id runs here"):
        await kernels.live.process("11111111-1111-4111-8111-111111111111")

    agent = await kernels.kernel("turns.ipynb", "ozzie")
    with pytest.raises(KernelUnfit, match=r"^The kernel of `turns\.ipynb` is Ozzie's own"):
        await kernels.live.process(agent)


async def test_our_own_is_refused_whatever_starts_it(
    kernels: KernelBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Code that is run in it would be a message, as if the user had typed it."""
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    spec = tmp_path / "kernels" / "wrapped"
    spec.mkdir(parents=True)
    (spec / "start").write_text(f'#!/bin/sh\nexec {sys.executable} -m ozzie_kernel -f "$1"\n')
    (spec / "start").chmod(0o755)
    argv = [str(spec / "start"), "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Wrapped", "language": "markdown"}))

    agent = await kernels.kernel("wrapped.ipynb", "wrapped")
    listed = {each.kernel_id: each for each in await kernels.live.list()}
    with pytest.raises(KernelUnfit, match=r"^The kernel of `wrapped\.ipynb` is Ozzie's own"):
        await kernels.live.process(agent)
    with pytest.raises(KernelUnfit, match=r"^The kernel of `wrapped\.ipynb` is Ozzie's own"):
        await kernels.live.run(agent, "Hello.", process="any", timeout_s=WAIT_S)

    assert not listed[agent].is_agent, "nothing in its specification says so"


async def test_kernels_are_listed_with_their_notebooks(kernels: KernelBench) -> None:
    kernel, other = await kernels.kernel(), await kernels.kernel("RTC:deep/shared.ipynb")
    bare = await kernels.manager.start_kernel()
    listed = {each.kernel_id: each for each in await kernels.live.list()}

    assert (listed[kernel].notebook, listed[kernel].language, listed[kernel].name) == (
        "analysis.ipynb",
        "python",
        "python3",
    )
    assert listed[other].notebook == "deep/shared.ipynb"
    assert listed[bare].notebook == ""
    assert [each.notebook for each in await kernels.live.list()][-1] == "", "those without a notebook come last"
    await kernels.manager.shutdown_kernel(bare, now=True)


@pytest.mark.soak
async def test_no_descriptor_is_left_open(kernels: KernelBench) -> None:
    kernel = await kernels.kernel()

    async def use() -> None:
        await kernels.run(kernel, "1")
        await kernels.live.inspect(kernel)

    await use()
    before = open_files()
    for _ in range(20):
        await use()
    # Of the last ones, the transport may still be closing its ends, in a thread of its own.
    assert open_files() < before + 20
