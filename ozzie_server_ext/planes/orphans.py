"""Children of a gateway that is gone: waited for, and ended where they stay (DESIGN §2.5).

A child ends with its parent by itself. But until it has, it may still do what a dead gateway asked of it, and nobody
may judge meanwhile what was left undone.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence

from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.identity import ProcessMark, is_running

log = logger(__name__)

PATIENCE_S = 5.0
"""How long children may take to end by themselves."""
KILLED_S = 5.0
"""How long one may take to be gone once it was killed."""
_POLL_S = 0.02


async def see_off(
    marks: Sequence[ProcessMark], *, patience_s: float = PATIENCE_S, killed_s: float = KILLED_S
) -> dict[ProcessMark, str]:
    """Wait until these processes are gone, and kill those that stay; what became of each, in words.

    Returns in bounded time. One that can't be killed is left out of the answer, and the log says so.
    """
    fates = {mark: "It was gone." for mark in marks if not is_running(mark)}
    if left := [mark for mark in marks if mark not in fates]:
        log.info("waiting for %d processes of a gateway that is gone", len(left))
    left = await _wait(left, patience_s, fates, "It ended after its gateway.")
    for mark in left:
        log.warning("process %d has outlived its gateway and is killed", mark.pid)
        _kill(mark)
    for mark in await _wait(left, killed_s, fates, "It had outlived its gateway and was killed."):
        log.error("process %d has outlived its gateway and can't be killed", mark.pid)
    return fates


async def _wait(
    marks: Sequence[ProcessMark], seconds: float, fates: dict[ProcessMark, str], fate: str
) -> list[ProcessMark]:
    """Note the fate of those that end in time; those that do not."""
    left = list(marks)
    for _ in range(max(1, int(seconds / _POLL_S))):
        fates.update((mark, fate) for mark in left if not is_running(mark))
        left = [mark for mark in left if mark not in fates]
        if not left:
            break
        await asyncio.sleep(_POLL_S)
    return left


def _kill(mark: ProcessMark) -> None:
    with contextlib.suppress(OSError):
        # A descriptor stands for one process: what is looked at through it is what is killed.
        descriptor = os.pidfd_open(mark.pid)
        try:
            if is_running(mark):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
