"""Waiting for a tool no longer than it was given, also for one that does not let itself be stopped."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.tools.base import Plan, Tool, ToolContext
from ozzie_server_ext.tools.outcome import error_of

T = TypeVar("T")

PATIENCE_S = 10.0


async def to_its_end(work: Callable[[], T]) -> T:
    """The result of `work`. Where the caller is cancelled meanwhile, it still gets the result of what was begun: a
    thread can't be stopped, and half a step that nobody knows of is worse than a stop that comes a moment later. It
    asks its own task (`cancelling()`) whether that was so. Work that hangs is given up after PATIENCE_S."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running}, timeout=PATIENCE_S)
        if not running.done():
            raise
    return running.result()


log = logger(__name__)


GRACE_S = PATIENCE_S + 2
"""How long a tool that is told to stop may take for it: longer than a step that must not be left half done takes."""

_left: set["asyncio.Future[Any]"] = set()
"""Those that go on though nobody waits for them any more: the loop itself holds them by a weak reference only."""


async def in_time(work: Coroutine[Any, Any, T], limit_s: float, *, keeps: bool = False) -> T:
    """The result of `work`, which is told to stop after `limit_s`, or when the caller is cancelled; what it comes to
    after `limit_s`, it still comes to. Where it goes on regardless, it is left alone after GRACE_S.

    With `keeps`, it also comes to that where the caller was cancelled, who has to look for that then: what had an
    effect is told. Raises TimeoutError, or what the cancellation raises.
    """
    running = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({running}, timeout=limit_s)
    except asyncio.CancelledError:
        await _stop(running)
        if keeps or running.cancelled():
            return running.result()
        running.exception()  # nobody else will ask for it
        raise
    if not done:
        await _stop(running)
        if running.cancelled():
            raise TimeoutError
    return running.result()


async def limited(tool: Tool, work: Coroutine[Any, Any, T], *, keeps: bool = False) -> T:
    """As `in_time`, with the limit of the tool. What waits for nothing needs no task in which it could be stopped."""
    return await (in_time(work, tool.meta.timeout_s, keeps=keeps) if tool.waits else work)


async def planned(tool: Tool, args: JsonObject, context: ToolContext) -> Plan:
    """What a call would do, see `Tool.plan`. Raises OzzieError, and nothing else."""
    with told_as_errors(tool, "planned"):
        return await limited(tool, tool.plan(args, context))


@contextmanager
def told_as_errors(tool: Tool, doing: str) -> Iterator[None]:
    """Let what goes wrong while the tool did that be an OzzieError, and nothing else. A break is noted in the log."""
    try:
        yield
    except OzzieError:
        raise
    except Exception as error:
        if not isinstance(error, TimeoutError):
            log.exception("tool %s broke while it %s", tool.meta.tool_id, doing)
        raise error_of(tool.meta, error) from None


async def _stop(running: "asyncio.Future[Any]") -> None:
    """Returns once it has ended. Raises as the caller was told to stop, or TimeoutError, where it goes on."""
    loop = asyncio.get_running_loop()
    end = loop.time() + GRACE_S
    cancelled: asyncio.CancelledError | None = None
    running.cancel()
    while not running.done() and loop.time() < end:
        try:
            await asyncio.wait({running}, timeout=end - loop.time())
        except asyncio.CancelledError as error:
            cancelled = error
            running.cancel()
    if running.done():
        return
    log.error("%s goes on though it was told to stop; nobody waits for it any more", running)
    _left.add(running)
    running.add_done_callback(_forget)
    current = asyncio.current_task()
    if cancelled is not None or (current is not None and current.cancelling()):
        raise cancelled or asyncio.CancelledError
    raise TimeoutError


def _forget(ended: "asyncio.Future[Any]") -> None:
    _left.discard(ended)
    if not ended.cancelled():
        ended.exception()  # nobody else will ask for it
