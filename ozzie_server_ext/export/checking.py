"""Checks an exported file: against the proof in it, and against the log of this home if it was made from that."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import Erased
from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.export.proof import Export, Finding, Found, Proof, Verdict, compare, digest_of
from ozzie_server_ext.export.signing import is_signed
from ozzie_server_ext.store import sqlite_events
from ozzie_server_ext.store.database import FAILURES, open_readable, unusable

Signature: TypeAlias = Literal["trusted", "unknown", "bad", "missing"]
"""Whose the signature is: that of a key which the reader trusts, of another one, or not that of its key; or there is
none."""
Log: TypeAlias = Literal["same", "other", "none"]
"""Whether the log at hand is the one that the file was made from."""

_PAGE = 500


class Check(msgspec.Struct, frozen=True):
    """What is known about a file: its proof, whose signature that has, with which log it was compared, and a finding
    for each cell or line."""

    proof: Proof
    signature: Signature
    log: Log
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether a trusted key says that all is as recorded. What was erased since may be so, too."""
        as_it_was = ("as recorded", "erased since")
        return self.signature == "trusted" and all(finding.verdict in as_it_was for finding in self.findings)


def check(export: Export, trusted: Sequence[str], database: Path) -> Check:
    """Check a file. `trusted` are public keys that were not taken from it. Raise InputError if it has no proof;
    DamagedStore or Unavailable if there is a log which can't be read."""
    proof = export.proof
    if proof is None or proof.kind != export.kind:
        raise InputError(
            "There is no proof in this file, so nobody can tell whether it is as recorded.",
            hint="It was not exported by Ozzie, or the proof was taken out. Export the session again.",
            code="input.proof",
        )
    findings = compare(proof, export.found)
    signature = _signature(proof, trusted)
    if not database.is_file():
        return Check(proof, signature, "none", tuple(findings))
    try:
        with closing(open_readable(database)) as connection:
            if sqlite_events.hash_at(connection, 1) != proof.log:
                return Check(proof, signature, "other", tuple(findings))
            findings = [_with_log(connection, proof, finding, export.found) for finding in findings]
    except FAILURES as error:
        raise unusable(error, database) from error
    return Check(proof, signature, "same", tuple(findings))


def _signature(proof: Proof, trusted: Sequence[str]) -> Signature:
    if not proof.signature:
        return "missing"
    if not is_signed(proof):
        return "bad"
    return "trusted" if proof.key in trusted else "unknown"


def _with_log(connection: sqlite3.Connection, proof: Proof, finding: Finding, found: Sequence[Found]) -> Finding:
    """Return the finding, corrected by the log: a key may have signed what it does not have, and what it had may be
    erased."""
    if finding.item is None or finding.number is None or finding.verdict == "changed since":
        return finding
    line = found[finding.number - 1].line
    if line is not None:
        verdict = _of_event(connection, proof, line)
    elif proof.items[finding.item].task:
        verdict = _of_turn(connection, proof, finding.item)
    else:
        verdict = None
    return finding if verdict is None else replace(finding, verdict=verdict)


def _of_event(connection: sqlite3.Connection, proof: Proof, line: Mapping[str, Json]) -> Verdict | None:
    position = line.get("position")
    if type(position) is not int or not 0 < position <= proof.head:
        return "not from this log"
    if sqlite_events.hash_at(connection, position) != line.get("hash"):
        return "not from this log"
    was_erased = line.get("payload") is None
    return None if was_erased or sqlite_events.read_at(connection, [position]) else "erased since"


def _of_turn(connection: sqlite3.Connection, proof: Proof, index: int) -> Verdict | None:
    item = proof.items[index]
    seen: list[tuple[int, str]] = []
    erased = False
    after = 0
    while len(seen) < item.events and (
        page := sqlite_events.read(
            connection, after=after, before=proof.head + 1, task_id=TaskId(item.task), limit=_PAGE, erased=True
        )
    ):
        seen += [(event.position, event.hash) for event in page]
        erased = erased or any(isinstance(event.body, Erased) for event in page)
        after = page[-1].position
    if digest_of(seen[: item.events]) != item.digest:
        return "not from this log"
    return "erased since" if erased else None
