"""Keeps anchor and record up with the log, unless they contradict it."""

import asyncio
import logging
from dataclasses import replace
from datetime import datetime

from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.store.anchor import (
    Acceptance,
    AnchorFiles,
    Record,
    make_key,
    record_file,
    sign,
    sign_record,
    write_anchor,
    write_record,
)
from ozzie_server_ext.store.evidence import Evidence, Finding, examine, gather
from ozzie_server_ext.store.log import EventLog, Head

_MOST_ACCEPTED = 50
"""Acceptances that a record lists, the newest ones."""

_log = logging.getLogger(__name__)


class Anchoring:
    """Writes anchor and record at the start, a while after each commit, and on closing.

    It leaves both alone while they contradict the log: they are the evidence. Once a person has accepted the log, it
    goes on.
    """

    def __init__(self, log: EventLog, files: AnchorFiles, *, delay_s: float = 1.0) -> None:
        self._log = log
        self._files = files
        self._delay_s = delay_s
        self._key = b""
        """While it is empty, the log is not followed."""
        self._record: Record | None = None
        self._first = ""
        self._finding: Finding | None = None
        self._warning = ""
        self._busy = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._write: asyncio.Task[None] | None = None
        self._is_over = False

    async def start(self) -> None:
        """Follow the log. To be called before anything is appended: an empty log is anchored too."""
        self._log.on_commit(self._committed)
        await self._tick()

    async def warning(self) -> str:
        """Return what speaks against the log, or why it is not anchored, and what to do; "" if all is well."""
        if self._warning:
            await self._tick()  # a person may have mended it
        return self._warning

    def abandon(self) -> None:
        """Anchor nothing any more: the log is another gateway's, and so is the anchor."""
        self._is_over = True
        self._stop_timer()

    async def close(self) -> None:
        """Anchor the last event. To be called once the log is closed."""
        self._stop_timer()
        if self._write is not None:
            await self._write
        if self._key:
            await self._tick()
        self._is_over = True

    def _committed(self, events: tuple[Event, ...]) -> None:
        if events[0].position == 1:
            self._first = events[0].hash
        if not self._is_over and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._due)

    def _due(self) -> None:
        self._timer = None
        self._write = asyncio.create_task(self._tick())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _tick(self) -> None:
        async with self._busy:
            if self._is_over:
                return
            try:
                if not self._key:
                    self._warning = await self._examine()
                if self._key:
                    await self._anchor()
                    self._warning = ""
            except OSError as error:
                unwritten = _unwritten(self._files, error)
                self._say(f"{unwritten} {unwritten.hint}")
            except OzzieError as error:
                self._say(f"{error} {error.hint} Until then, a cut end of the log can't be noticed.")

    async def _examine(self) -> str:
        """Begin to follow a log against which nothing speaks; else return what does."""
        self._first = await self._log.hash_at(1) or ""
        evidence = await asyncio.to_thread(gather, self._files, self._first)
        finding = await examine(self._log, self._files, evidence, self._first)
        if finding is not None:
            if self._finding is None:  # the first one: once the log grows again, a cut looks like a log rewritten
                self._finding = finding
                _log.error("%s", finding)
            return str(self._finding)
        self._key = await asyncio.to_thread(make_key, self._files.key)
        self._record = evidence.record
        return ""

    async def _anchor(self) -> None:
        head = await self._log.head()
        before = self._record
        self._record = await asyncio.to_thread(anchor, self._files, self._key, head, self._first, before)

    def _say(self, warning: str) -> None:
        if warning != self._warning:
            _log.error("%s", warning)  # the next commit tries again
        self._warning = warning


def anchor(files: AnchorFiles, key: bytes, head: Head, first: str, before: Record | None) -> Record:
    """Write anchor and record for a log that ends at `head`; return the record. `before` is the one that it replaces,
    maybe of the folder that the home was moved from. Raises OSError."""
    write_anchor(files.anchor, sign(head, key))
    accepted = () if before is None else before.accepted
    log = first if head.position else ""
    record = Record(folder=files.folder, log=log, position=head.position, hash=head.hash, accepted=accepted)
    write_record(files.record, sign_record(record, key))
    if before is not None and before.folder != record.folder:
        record_file(files.records, before.folder).unlink(missing_ok=True)
    return record


def accept(files: AnchorFiles, finding: Finding, evidence: Evidence, head: Head, first: str, at: datetime) -> None:
    """Take a log as it is, as a person wants it, and note that in the record. Raises Unavailable."""
    acceptance = Acceptance(at.isoformat(timespec="seconds"), head.position, finding.reason)
    before = evidence.record or Record(folder=files.folder, log=first, position=0, hash="")
    # The record of a folder that the log was copied from stays; that of one it was moved from goes.
    folder = files.folder if evidence.original else before.folder
    before = replace(before, folder=folder, accepted=(*before.accepted, acceptance)[-_MOST_ACCEPTED:])
    try:
        anchor(files, make_key(files.key), head, first, before)
    except OSError as error:
        raise _unwritten(files, error) from error


def _unwritten(files: AnchorFiles, error: OSError) -> Unavailable:
    return Unavailable(
        f"The log's anchor can't be written: {error.strerror or error}.",
        hint=hint_for(files.anchor, files.record, error=error),
    )
