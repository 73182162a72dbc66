"""Verifies the files of a home, whether or not a gateway runs: the chain, and that it is what was anchored."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.store import sqlite_events
from ozzie_server_ext.store.anchor import AnchorFiles
from ozzie_server_ext.store.database import FAILURES, open_readable, unusable
from ozzie_server_ext.store.evidence import Evidence, Finding, gather, judge
from ozzie_server_ext.store.log import Head, Verification

RESTORE = "Put the newest backup of the folder data in its place."


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a log in a file is: what the walk along its chain found, and what speaks against it from outside. `first` is
    the hash of its first event."""

    chain: Verification
    first: str
    evidence: Evidence
    finding: Finding | None

    @property
    def ok(self) -> bool:
        return self.chain.ok and self.finding is None

    @property
    def sentence(self) -> str:
        """What is wrong and what to do; "" for a log that is what was written."""
        if not self.chain.ok:
            where = f"first bad event {self.chain.bad_position}. {self.chain.reason}"
            return f"The log was changed after it was written: {where} {RESTORE}"
        return "" if self.finding is None else str(self.finding)

    @property
    def found(self) -> Verification:
        """The walk along the chain, with what speaks against the log from outside."""
        finding = self.finding
        if finding is None or not self.chain.ok:
            return self.chain
        good = self.chain.events if finding.bad_position is None else min(self.chain.events, finding.bad_position - 1)
        return Verification(
            ok=False,
            events=good,
            erased=self.chain.erased,
            head=self.chain.head,
            bad_position=finding.bad_position,
            reason=finding.reason,
        )


def verify_home(files: AnchorFiles) -> Verdict:
    """Verify the log of a home. Raises NotFound if there never was one here; else as `open_readable`."""
    if not files.database.is_file():
        evidence = gather(files, "")
        finding = judge(files, evidence, head=Head(), first="", hashes=dict.fromkeys(evidence.positions))
        if finding is None:
            raise NotFound(f"There is no event log at {files.database}.", hint="Set OZZIE_PATH, or run a first turn.")
        return Verdict(Verification(ok=True, events=0, erased=0, head=Head()), "", evidence, finding)
    try:
        with closing(open_readable(files.database)) as connection:
            return verify_open(connection, files)
    except FAILURES as error:
        raise unusable(error, files.database) from error


def verify_open(connection: sqlite3.Connection, files: AnchorFiles) -> Verdict:
    """Verify the log in an open file; leaves a transaction in which it is as it was. Raises sqlite3.Error."""
    # First what lies outside: a gateway that runs writes that after the log.
    evidence = gather(files, sqlite_events.hash_at(connection, 1) or "")
    connection.execute("BEGIN")  # everything from here on is of one moment
    chain = sqlite_events.verify(connection)
    first = sqlite_events.hash_at(connection, 1) or ""
    hashes = {position: sqlite_events.hash_at(connection, position) for position in evidence.positions}
    finding = judge(files, evidence, head=chain.head, first=first, hashes=hashes) if chain.ok else None
    return Verdict(chain, first, evidence, finding)
