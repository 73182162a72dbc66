"""A program that is run for one answer: what it says, what becomes of one that fails, and of one that never ends."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.agent.structured_output import UnfitAnswer, expect_schema, find_misfit
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.planes import one_shot
from ozzie_server_ext.planes.one_shot import ErrandEnded, ErrandFailed, run_errand
from ozzie_server_ext.protocol.jsontext import canonical_bytes

PROGRAM = "ozzie_server_ext.programs.fits"
ENDLESS: JsonObject = {"anyOf": [{"type": "array", "minItems": least, "items": {"$ref": "#"}} for least in (2, 3)]}
"""With each level of an answer, the work doubles."""
DEEP = "[" * 60 + "]" * 60


def running() -> list[int]:
    """The processes that look at something just now."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if PROGRAM.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  # processes tell nobody
            await asyncio.sleep(0.01)


async def test_it_answers_what_it_is_asked() -> None:
    assert await run_errand(PROGRAM, b'{"schema": {"type": "string"}, "text": "7"}') == (
        b'{"problem":"At $: the value is not of type \\"string\\"."}'
    )


async def test_what_it_says_of_its_own_fault_is_kept() -> None:
    with pytest.raises(ErrandFailed, match="InvalidJson") as failed:
        await run_errand(PROGRAM, b"no JSON")
    assert not isinstance(failed.value, ErrandEnded)


async def test_one_that_uses_up_its_time_is_ended() -> None:
    await expect_schema(ENDLESS)

    with pytest.raises(UnfitAnswer, match="takes too much time or memory"):
        await find_misfit(ENDLESS, DEEP)

    assert running() == []


async def test_others_go_on_meanwhile() -> None:
    """The gateway's loop and its threads are not held up by any number of them."""
    slow = [asyncio.create_task(find_misfit(ENDLESS, DEEP)) for _ in range(8)]
    await until(lambda: len(running()) == len(slow))

    await asyncio.to_thread(int)
    is_open = [not task.done() for task in slow]

    assert any(is_open)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_a_caller_that_is_cancelled_ends_it() -> None:
    looking = asyncio.create_task(find_misfit(ENDLESS, DEEP))
    await until(running)

    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking

    assert running() == []


async def test_whoever_starts_it_says_how_long_it_may_take() -> None:
    task = canonical_bytes({"schema": ENDLESS, "text": DEEP})

    with pytest.raises(ErrandEnded):
        await run_errand(PROGRAM, task, wall_s=0.05)

    assert running() == []


def test_one_that_waits_for_others_ends_by_itself_where_nobody_is_left_to_end_it() -> None:
    limited = "from ozzie_server_ext.planes.child import limit_child\n"
    limited += "limit_child(cpu_s=2, memory=1 << 30, nice=0, wall_s=1)\nimport time\ntime.sleep(50)"

    done = subprocess.run([sys.executable, "-c", limited], check=False, timeout=40)

    assert done.returncode == -signal.SIGALRM


async def test_one_that_hangs_is_ended_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_shot, "MAX_WALL_S", 0.05)
    task = canonical_bytes({"schema": ENDLESS, "text": DEEP})

    with pytest.raises(ErrandEnded):
        await run_errand(PROGRAM, task)

    assert running() == []
