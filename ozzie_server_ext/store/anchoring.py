"""Keeps anchor and record up with the log, unless they contradict it."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.store.anchor import (
    Acceptance,
    Anchor,
    AnchorFiles,
    Record,
    make_key,
    read_anchor,
    read_key,
    read_record,
    record_file,
    records_of_log,
    sign,
    sign_record,
    write_anchor,
    write_record,
)
from ozzie_server_ext.store.log import EventLog, Head

ACCEPT = "ozzie events accept"

_HINT = f"Put back the newest backup of the folder data. If you know why it is so, `{ACCEPT}` takes the log as it is."


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a log can't be taken for what was anchored, and what to do next. `bad_position` is the first event that is
    missing or differs; None if only the proof is missing."""

    reason: str
    hint: str = _HINT
    bad_position: int | None = None

    def __str__(self) -> str:
        return f"{self.reason} {self.hint}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What lies outside of the log. `record` is that of this folder, or of the folder that the home was moved or copied
    from; `original` is that folder if a log is still there."""

    key: bytes | None = None
    anchor: Anchor | None = None
    record: Record | None = None
    original: str = ""
    is_keyless: bool = False
    """There is an anchor or a record, and no key to check it with."""
    problem: Unavailable | None = None
    """Why one of them can't be believed."""

    @property
    def positions(self) -> set[int]:
        """The events whose hashes are needed to judge."""
        return {found.position for found in (self.anchor, self.record) if found is not None}


def gather(files: AnchorFiles, first: str) -> Evidence:
    """Read what there is. `first` is the hash of the log's first event, "" if there is none."""
    try:
        key = read_key(files.key)
        if key is None:
            return Evidence(is_keyless=files.anchor.exists() or files.record.exists())
        anchor = read_anchor(files.anchor, key)
        record = read_record(files.record, key)
    except Unavailable as error:
        return Evidence(problem=error)
    original = ""
    if record is None and first:
        found = list(records_of_log(files.records, first, key))
        gone = [each for each in found if not _has_log(files, each.folder)]
        record = max(gone or found, key=lambda each: each.position, default=None)
        original = record.folder if record is not None and not gone else ""
    return Evidence(key, anchor, record, original)


def judge(
    files: AnchorFiles, evidence: Evidence, *, head: Head, first: str, hashes: Mapping[int, str | None]
) -> Finding | None:
    """Return what speaks against the log that ends at `head`; None if it is what was anchored, and all of it.

    `hashes` are those of the events at `evidence.positions`; None for an event that the log does not have.
    """
    if evidence.problem is not None:
        hint = f"{evidence.problem.hint} If you know why it is so, `{ACCEPT}` trusts the log as it is, and signs it."
        return Finding(evidence.problem.message, hint)
    if evidence.key is None:
        return _without_key(files) if head.position or evidence.is_keyless else None
    return _contradiction(evidence, head, first, hashes) or (_missing(files, evidence) if head.position else None)


async def examine(log: EventLog, files: AnchorFiles, evidence: Evidence, first: str) -> Finding | None:
    """As `judge`, of a log that is open."""
    hashes = {position: await log.hash_at(position) for position in evidence.positions}
    return judge(files, evidence, head=await log.head(), first=first, hashes=hashes)


def _contradiction(evidence: Evidence, head: Head, first: str, hashes: Mapping[int, str | None]) -> Finding | None:
    anchor, record, end = evidence.anchor, evidence.record, head.position

    def holds(anchored: Head) -> bool:
        return anchored.position == 0 or hashes[anchored.position] == anchored.hash

    if anchor is not None and anchor.position > end:
        return _cut(end, anchor.position)
    if anchor is not None and not holds(anchor.head):
        return _rewritten(anchor.position)
    if record is None:
        return None
    if evidence.original:
        return Finding(
            f"This is a copy of the log in {evidence.original}, which is still there.",
            f"To use both from now on: `{ACCEPT}`. To use only the other, set OZZIE_PATH to it.",
        )
    if record.log and first and record.log != first:
        return Finding(
            f"This is another log than the one that was kept in {record.folder}, of which event {record.position} was"
            " anchored.",
            bad_position=1,
        )
    if record.position > end:
        return _cut(end, record.position, with_anchor=anchor is not None)
    return None if holds(record.head) else _rewritten(record.position)


def _missing(files: AnchorFiles, evidence: Evidence) -> Finding | None:
    unknown = "so whether its end was cut off can't be told"
    if evidence.anchor is None and evidence.record is None:
        return Finding(f"The log's anchor {files.anchor} and its record {files.record} are missing, {unknown}.")
    if evidence.anchor is None and evidence.record is not None:
        return Finding(
            f"The log's anchor {files.anchor} is missing, {unknown}. The record beside the key goes up to event"
            f" {evidence.record.position}, which is there."
        )
    if evidence.record is None:
        return Finding(
            f"The log's record {files.record} is missing, {unknown}: this may be an older copy, put back with its"
            " anchor."
        )
    return None


def _without_key(files: AnchorFiles) -> Finding:
    return Finding(
        f"The anchor's key {files.key} is missing, so whether the log was cut or replaced can't be told.",
        f"Put the key back from a backup of that folder. If it is lost, `{ACCEPT}` makes another, and takes the log as"
        " it is.",
    )


def _cut(end: int, anchored: int, *, with_anchor: bool = False) -> Finding:
    if end == 0:
        return Finding(f"The log is gone: there is no event in it, and event {anchored} was anchored.", bad_position=1)
    how = "The log was cut, or an older copy was put back with its anchor" if with_anchor else "The log was cut"
    return Finding(f"{how}: it ends at {end}, and event {anchored} was anchored.", bad_position=end + 1)


def _rewritten(position: int) -> Finding:
    reason = f"The log was rewritten: event {position} is not the one that was anchored."
    return Finding(reason, bad_position=position)


def _has_log(files: AnchorFiles, folder: str) -> bool:
    return (Path(folder) / files.database.relative_to(files.home)).exists()


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
