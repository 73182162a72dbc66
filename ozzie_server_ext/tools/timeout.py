"""Waiting for a tool within its time limit, even for one that does not stop when told to."""

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
    """Return the result of `work`, run in a thread, even if the caller is cancelled, who then has to check
    `cancelling()`: an unnoticed half step is worse than a late stop. Work that hangs is abandoned after PATIENCE_S."""
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
"""How long a stopped tool may take: longer than a step that must not be left half done."""

_left: set["asyncio.Future[Any]"] = set()
"""Abandoned work that goes on: the event loop itself holds only weak references."""


async def in_time(work: Coroutine[Any, Any, T], limit_s: float, *, keeps: bool = False) -> T:
    """Return the result of `work`, which is cancelled after `limit_s` or with the caller. A result that it still
    returns after the limit counts. If it ignores cancellation, it is abandoned after GRACE_S.

    With `keeps`, a result counts even if the caller was cancelled (who must check for that): an effect has to be
    reported. Raises TimeoutError, or as the cancellation does.
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


async def limited(work: Coroutine[Any, Any, T], limit_s: float, *, waits: bool, keeps: bool = False) -> T:
    """As `in_time`. Work that never awaits needs no task to be stopped in."""
    return await (in_time(work, limit_s, keeps=keeps) if waits else work)


async def planned(tool: Tool, args: JsonObject, context: ToolContext) -> Plan:
    """Return what a call would do, see `Tool.plan`. Raises only OzzieError."""
    with only_ozzie_errors(tool, "planned"):
        return await limited(tool.plan(args, context), tool.meta.timeout_s, waits=tool.plan_waits)


@contextmanager
def only_ozzie_errors(tool: Tool, doing: str) -> Iterator[None]:
    """Turn every error of the tool into an OzzieError; unexpected ones are logged."""
    try:
        yield
    except OzzieError:
        raise
    except Exception as error:
        if not isinstance(error, TimeoutError):
            log.exception("tool %s broke while it %s", tool.meta.tool_id, doing)
        raise error_of(tool.meta, error) from None


async def _stop(running: "asyncio.Future[Any]") -> None:
    """Cancel and wait. If it does not end, raises CancelledError if the caller was cancelled, else TimeoutError."""
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
