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
from ozzie_server_ext.export.proof import Export, Finding, Found, Item, Proof, Verdict, compare, digest_of
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
    for each cell or line. `further` names metadata of the notebook that programs may obey, though they are shown
    nowhere. Only a file with a trusted signature is compared with a log: another one could have it read for hours."""

    proof: Proof
    signature: Signature
    log: Log
    findings: tuple[Finding, ...]
    further: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether a trusted key says that all is as recorded, and nothing can have it shown in another way. What was
        erased since may be as recorded, too."""
        as_it_was = all(finding.is_as_it_was for finding in self.findings)
        return self.signature == "trusted" and as_it_was and bool(self.findings) and not self.further


def check(export: Export, trusted: Sequence[str], database: Path) -> Check:
    """Check a file. `trusted` are public keys that were not taken from it. Raises InputError if it has no proof;
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
    if signature != "trusted" or not database.is_file():
        return Check(proof, signature, "none", tuple(findings), export.further)
    try:
        with closing(open_readable(database)) as connection:
            if sqlite_events.hash_at(connection, 1) != proof.log:
                return Check(proof, signature, "other", tuple(findings), export.further)
            at_hand = _LogAtHand(connection, proof)
            findings = [at_hand.corrected(finding, export.found) for finding in findings]
    except FAILURES as error:
        raise unusable(error, database) from error
    return Check(proof, signature, "same", tuple(findings), export.further)


def _signature(proof: Proof, trusted: Sequence[str]) -> Signature:
    if not proof.signature:
        return "missing"
    if not is_signed(proof):
        return "bad"
    return "trusted" if proof.key in trusted else "unknown"


class _LogAtHand:
    """The log that a file was made from."""

    def __init__(self, connection: sqlite3.Connection, proof: Proof) -> None:
        self._connection = connection
        self._proof = proof
        self._turns: dict[Item, Verdict | None] = {}

    def corrected(self, finding: Finding, found: Sequence[Found]) -> Finding:
        """Return the finding, corrected by the log: a key may have signed what it does not have, and what it had may be
        erased."""
        if finding.item is None or finding.number is None or finding.verdict == "changed since":
            return finding
        line = found[finding.number - 1].line
        verdict = self._of_turn(self._proof.items[finding.item]) if line is None else self._of_event(line)
        if verdict is None:
            return finding
        if verdict == "erased since" and finding.verdict != "as recorded":
            return replace(finding, note=f"{finding.note}, {verdict}")
        return replace(finding, verdict=verdict)

    def _of_event(self, line: Mapping[str, Json]) -> Verdict | None:
        position = line.get("position")
        if type(position) is not int or not 0 < position <= self._proof.head:
            return "not from this log"
        if sqlite_events.hash_at(self._connection, position) != line.get("hash"):
            return "not from this log"
        was_erased = line.get("payload") is None
        return None if was_erased or sqlite_events.read_at(self._connection, [position]) else "erased since"

    def _of_turn(self, item: Item) -> Verdict | None:
        """Look up a turn, once for all of its cells."""
        if not item.task:
            return None
        turn = replace(item, shown="", source="")
        if turn not in self._turns:
            self._turns[turn] = self._looked_up(turn)
        return self._turns[turn]

    def _looked_up(self, item: Item) -> Verdict | None:
        seen: list[tuple[int, str]] = []
        erased = False
        after = 0
        while len(seen) < item.events and (
            page := sqlite_events.read(
                self._connection,
                after=after,
                before=self._proof.head + 1,
                task_id=TaskId(item.task),
                limit=_PAGE,
                erased=True,
            )
        ):
            seen += [(event.position, event.hash) for event in page]
            erased = erased or any(isinstance(event.body, Erased) for event in page)
            after = page[-1].position
        if digest_of(seen[: item.events]) != item.digest:
            return "not from this log"
        return "erased since" if erased else None
