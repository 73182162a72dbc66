"""Whether a log is the one that was anchored, and all of it: judged by the anchor, the record and the key.

The chain shows a change in its middle. Only something outside of it can show that its end was cut off, that all of it
was computed again, or that an older copy took its place. A gateway writes anchor and record before the first event of a
log, so a log with events that lacks one of them has lost it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.store.anchor import (
    Anchor,
    AnchorFiles,
    Record,
    read_anchor,
    read_key,
    read_record,
    records_of_log,
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
