"""What begins at once, and what it becomes where it has to wait."""

import asyncio
import contextvars
import gc
from typing import Any

import pytest

from ozzie_server_ext.store.shielded import Ended, eager_task, shielded

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


async def test_what_waits_for_nothing_is_done_before_the_loop_turns() -> None:
    turned: list[str] = []
    asyncio.get_running_loop().call_soon(turned.append, "turned")

    async def work() -> int:
        return 7

    assert eager_task(work()) == Ended(7)
    assert turned == []


async def test_what_it_raises_before_it_waits_is_raised_at_once() -> None:
    async def work() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        eager_task(work())


async def test_what_has_to_wait_goes_on_in_a_task_of_its_own() -> None:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    seen: list[str] = []

    async def work() -> str:
        seen.append("begun")
        WHO.set("work")
        said = await told
        await asyncio.sleep(0)
        return f"{said} {WHO.get()}"

    task = eager_task(work())

    assert seen == ["begun"]
    assert isinstance(task, asyncio.Task)
    told.set_result("hello")
    assert await task == "hello work"


async def test_what_had_come_before_the_task_was_driven_is_not_missed() -> None:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        return await told

    task = eager_task(work())
    told.set_result("early")

    assert isinstance(task, asyncio.Task)
    assert await task == "early"


async def test_a_failure_of_what_it_waits_for_reaches_it() -> None:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            return await told
        except LookupError:
            return "caught"

    task = eager_task(work())
    told.set_exception(LookupError())

    assert isinstance(task, asyncio.Task)
    assert await task == "caught"


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_it_hears_of_its_cancellation_however_early_that_comes(turns: int) -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("cleaned")

    task = eager_task(work())
    assert isinstance(task, asyncio.Task)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["cleaned"]


async def test_it_may_refuse_to_be_cancelled() -> None:
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "done all the same"

    task = eager_task(work())
    assert isinstance(task, asyncio.Task)
    task.cancel()

    assert await task == "done all the same"


def test_what_nobody_drives_any_more_is_closed_in_silence(recwarn: pytest.WarningsRecorder) -> None:
    closed: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    async def begin() -> Any:
        return eager_task(work())

    asyncio.run(begin())
    gc.collect()

    assert closed == ["closed"]
    assert not [told for told in recwarn if "never awaited" in str(told.message)]


async def test_what_is_uncut_and_waits_for_nothing_is_done_though_its_caller_is_to_stop() -> None:
    done: list[str] = []

    async def work() -> str:
        done.append("work")
        return "result"

    async def caller() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        done.append(await shielded(work()))
        await asyncio.sleep(0)
        done.append("never")

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(caller())
    assert done == ["work", "result"]


async def test_what_is_uncut_comes_to_its_end_however_often_its_caller_is_cancelled() -> None:
    go_on = asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        await go_on.wait()
        done.append("work")

    caller = asyncio.create_task(shielded(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        caller.cancel()
    await asyncio.sleep(0)
    assert done == []
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await caller
    assert done == ["work"]


async def test_what_uncut_work_raises_goes_before_a_cancellation() -> None:
    go_on = asyncio.Event()

    async def work() -> None:
        await go_on.wait()
        raise LookupError

    caller = asyncio.create_task(shielded(work()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.sleep(0)
    go_on.set()

    with pytest.raises(LookupError):
        await caller
