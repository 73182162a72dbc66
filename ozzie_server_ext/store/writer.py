"""The one thread that writes to SQLite (DESIGN §2.1).

It takes every append that waits, has them committed together, and only then lets callers and listeners know.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.store.admission import Append
from ozzie_server_ext.store.committer import Committer, Result
from ozzie_server_ext.store.database import open_writable, unusable
from ozzie_server_ext.store.log import Head

_ENOUGH_APPENDS = 256
"""In one commit: bounds how long the first of them waits for the last."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a commit brought: for each append its events or its error, and what is new in the log."""

    results: tuple[tuple[asyncio.Future[tuple[Event, ...]], Result], ...]
    new: tuple[Event, ...]
    head: Head


@dataclass(frozen=True, slots=True)
class _Waiting:
    append: Append
    future: asyncio.Future[tuple[Event, ...]]


@dataclass(frozen=True, slots=True)
class _Call:
    """Something else to do between commits."""

    work: Callable[[Committer], Any]
    future: "Future[Any]"


@dataclass(frozen=True, slots=True)
class _Stop:
    """Close the database and end."""


_Job = list[_Waiting] | _Call | _Stop


class Writer:
    """The writing thread. All methods are for the event loop's thread; `deliver` is called on it."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop, deliver: Callable[[Delivery], None]) -> None:
        self._path = path
        self._loop = loop
        self._deliver = deliver
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._gathered: list[_Waiting] = []
        self._opened: Future[tuple[int, Head]] = Future()
        self._thread = threading.Thread(target=self._run, name="ozzie-store-writer", daemon=True)

    async def start(self) -> tuple[int, Head]:
        """Open the database, take it over, bring it up to date; the epoch of this owner, and the log's head. Raises as
        `open_writable`."""
        self._thread.start()
        return await asyncio.wrap_future(self._opened)

    def append(self, append: Append) -> asyncio.Future[tuple[Event, ...]]:
        """Whoever appends in the same turn of the loop shares a commit: had the first gone ahead alone, the others
        would wait for its commit and then for their own."""
        future: asyncio.Future[tuple[Event, ...]] = self._loop.create_future()
        if not self._gathered:
            self._loop.call_soon(self._send_off)
        self._gathered.append(_Waiting(append, future))
        return future

    async def call(self, work: Callable[[Committer], T]) -> T:
        """Do something between two commits, after all appends that were asked for before."""
        future: Future[T] = Future()
        self._send_off()
        self._jobs.put(_Call(work, future))
        return await asyncio.wrap_future(future)

    async def stop(self) -> None:
        """Finish what was asked for, close the database, end the thread."""
        self._send_off()
        self._jobs.put(_Stop())
        await asyncio.to_thread(self._thread.join)

    def _send_off(self) -> None:
        if self._gathered:
            self._jobs.put(self._gathered)
            self._gathered = []

    def _run(self) -> None:
        try:
            connection = open_writable(self._path)
        except BaseException as error:
            self._opened.set_exception(error)
            return
        try:
            committer = self._begin(connection)
            if committer is not None:
                self._serve(committer)
        finally:
            connection.close()

    def _begin(self, connection: sqlite3.Connection) -> Committer | None:
        try:
            committer = Committer(connection, self._path)
            committer.make_current()
        except BaseException as error:
            self._opened.set_exception(self._translated(error))
            return None
        self._opened.set_result((committer.epoch, committer.head()))
        return committer

    def _serve(self, committer: Committer) -> None:
        while True:
            batch, other = self._take()
            if batch:
                self._commit(batch, committer)
            match other:
                case _Call(work, future):
                    if future.set_running_or_notify_cancel():  # somebody still waits for it
                        try:
                            future.set_result(work(committer))
                        except BaseException as error:
                            future.set_exception(self._translated(error))
                case _Stop():
                    return
                case None:
                    pass

    def _take(self) -> tuple[list[_Waiting], _Call | _Stop | None]:
        """All appends that wait, about as many as the bound says, and what came after them, if that was something
        else."""
        job = self._jobs.get()
        batch: list[_Waiting] = []
        while isinstance(job, list):
            batch += job
            if len(batch) >= _ENOUGH_APPENDS:
                return batch, None
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return batch, None
        return batch, job

    def _commit(self, batch: list[_Waiting], committer: Committer) -> None:
        committed = committer.commit([waiting.append for waiting in batch])
        results = tuple(zip([waiting.future for waiting in batch], committed.results, strict=True))
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._deliver, Delivery(results, committed.new, committer.head()))

    def _translated(self, error: BaseException) -> BaseException:
        return unusable(error, self._path) if isinstance(error, sqlite3.Error) else error
