"""Which blobs were put and stand in no fact yet, and which are on their way out: none goes that a fact is to name."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ozzie_server_ext.domain.ids import BlobRef


class Promises:
    """Of one blob store, on one event loop.

    A put that no fact followed counts until the process ends: its blob then stays for longer than it has to, never
    for less.
    """

    def __init__(self) -> None:
        self._unnamed: Counter[BlobRef] = Counter()
        self._leaving: dict[BlobRef, asyncio.Event] = {}

    async def put(self, ref: BlobRef) -> None:
        """The blob is put, and a fact will name it. Whoever comes while it is on its way out waits for the end of
        that."""
        self._unnamed[ref] += 1
        while (leaving := self._leaving.get(ref)) is not None:
            await leaving.wait()

    def named(self, ref: BlobRef) -> None:
        """One of those who put it has it in a fact."""
        if self._unnamed[ref] <= 1:
            del self._unnamed[ref]
        else:
            self._unnamed[ref] -= 1

    @asynccontextmanager
    async def leaving(self, ref: BlobRef) -> AsyncGenerator[bool]:
        """While this is open, nobody else puts the blob or takes it away. It is false where a fact is still to name
        it, or where somebody takes it away already: then it stays."""
        if self._unnamed[ref] or ref in self._leaving:
            yield False
            return
        over = self._leaving[ref] = asyncio.Event()
        try:
            yield True
        finally:
            del self._leaving[ref]
            over.set()
