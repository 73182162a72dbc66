"""What a run has still to record: all that comes while one append is under way goes into the next one.

What only reads may be recorded behind what it sets free: were it lost in a crash, it is read again (ADR 44). Whoever is
about to have an effect, or to hand something over, waits until all before it is durable.
"""

import asyncio
from collections.abc import Callable

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import CheckpointSaved, EventBody
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.uncut import uncut

MOST_NOTED = 256
"""Facts that wait. Then whoever notes one waits, too."""


class Journal:
    """Of one run. `checkpoint` is recorded behind each batch in which a step came to its end."""

    def __init__(self, recorder: Recorder, checkpoint: Callable[[str], CheckpointSaved]) -> None:
        self._recorder = recorder
        self._checkpoint = checkpoint
        self._noted: list[tuple[EventBody, Content]] = []
        self._settled = ""
        self._writing: asyncio.Task[None] | None = None

    async def note(self, *facts: EventBody, content: Content, settles: str = "") -> None:
        """Have facts recorded, in the order in which they are noted; `settles` is the step whose end they are. It waits
        only where many wait already. Raises what an append before raised."""
        self.put(*facts, content=content, settles=settles)
        if len(self._noted) >= MOST_NOTED or self._has_failed:
            await self.flushed()

    def put(self, *facts: EventBody, content: Content, settles: str = "") -> None:
        """As `note`, without waiting."""
        self._noted += [(fact, content) for fact in facts]
        self._settled = settles or self._settled
        if self._writing is None or (self._writing.done() and not self._has_failed):
            self._writing = asyncio.create_task(self._write(), name=f"journal {self._recorder.task_id}")

    async def flushed(self) -> None:
        """Wait until all that was noted is durable. Raises what an append raised."""
        if self._writing is not None:
            await uncut(_end_of(self._writing))

    @property
    def _has_failed(self) -> bool:
        writing = self._writing
        return writing is not None and writing.done() and (writing.cancelled() or writing.exception() is not None)

    async def _write(self) -> None:
        while self._noted:
            batch, self._noted = self._noted, []
            if self._settled:
                batch.append((self._checkpoint(self._settled), batch[-1][1]))
                self._settled = ""
            await self._recorder.append_each(batch)


async def _end_of(writing: "asyncio.Task[None]") -> None:
    await writing
