"""Checks of a home's files: the chain and its anchor, the pages, the blobs, and the projections against the log."""

import asyncio
import hashlib
import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.config.files import replace_file
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.one_shot import ErrandFailed, errand_beside, run_errand
from ozzie_server_ext.protocol.jsontext import canonical_bytes, dumps, loads_object
from ozzie_server_ext.store import contents, erasing, search, sqlite_events, sqlite_rows
from ozzie_server_ext.store.anchor import AnchorFiles, Evidence, Finding, gather, judge
from ozzie_server_ext.store.blobs import digest_of, path_of
from ozzie_server_ext.store.database import FAILURES, error_text, open_readable, unusable
from ozzie_server_ext.store.log import BEGINNING, DamagedStore, Head, Verification
from ozzie_server_ext.store.projector import TABLES
from ozzie_server_ext.store.tables import Table, dump_lines
from ozzie_server_ext.store.texts import ArtifactTexts

RESTORE = "Put the newest backup of the folder data in its place."


class Verdict(msgspec.Struct, frozen=True):
    """The result of verifying a log file: the walk along its chain, and what contradicts it from outside. `first` is
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
        """What is wrong and what to do; "" if nothing is."""
        if not self.chain.ok:
            where = f"first bad event {self.chain.bad_position}. {self.chain.reason}"
            return f"The log was changed after it was written: {where} {RESTORE}"
        return "" if self.finding is None else str(self.finding)

    @property
    def found(self) -> Verification:
        """The walk along the chain, including what contradicts the log from outside."""
        finding = self.finding
        if finding is None or not self.chain.ok:
            return self.chain
        good = self.chain.events if finding.bad_position is None else min(self.chain.events, finding.bad_position - 1)
        return replace(self.chain, ok=False, events=good, bad_position=finding.bad_position, reason=finding.reason)


def verify_home(files: AnchorFiles) -> Verdict:
    """Verify a home's log. Raises NotFound if there never was one; else like `open_readable`."""
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
    """Verify the log in an open file; leaves a transaction open on the verified state. Raise sqlite3.Error."""
    # Read the evidence first: a running gateway writes it after the log.
    evidence = gather(files, sqlite_events.hash_at(connection, 1) or "")
    connection.execute("BEGIN")  # everything from here on is one snapshot
    chain = _walk(connection, files.database)
    first = sqlite_events.hash_at(connection, 1) or ""
    hashes = {position: sqlite_events.hash_at(connection, position) for position in evidence.positions}
    finding = judge(files, evidence, head=chain.head, first=first, hashes=hashes) if chain.ok else None
    return Verdict(chain, first, evidence, finding)


_WORTH_TWO = 50_000
"""From so many events on a second process verifies half of them. Starting it takes as long as verifying 20,000."""
_REST = "ozzie_server_ext.programs.verify_rest"


def _walk(connection: sqlite3.Connection, database: Path) -> Verification:
    """Walk the whole chain. Of a long one, another process walks the second half, from the hash that is stored where
    the first half ends."""
    after, end = _halves(connection)
    if after == BEGINNING:
        return sqlite_events.verify(connection)
    task = {"database": str(database.absolute()), "position": after.position, "hash": after.hash, "until": end}
    try:
        with errand_beside(_REST, canonical_bytes({**task, "parent": os.getpid()})) as answer:
            first = sqlite_events.verify(connection, until=after.position)
            rest = msgspec.json.decode(answer(), type=Verification) if first.ok else first
    except (ErrandFailed, InputError, msgspec.MsgspecError):  # no room for a second process, no UTF-8 in the path
        return sqlite_events.verify(connection)
    return replace(rest, erased=first.erased + rest.erased) if first.ok else first


def _halves(connection: sqlite3.Connection) -> tuple[Head, int]:
    """Return where the first half of a long chain ends, as it is stored, and the position of its end. Return
    BEGINNING for a chain that is short or can't be read there: the ordinary walk reports why."""
    try:
        end = sqlite_events.head(connection).position
        hash_ = sqlite_events.hash_at(connection, end // 2) if end >= _WORTH_TWO else None
    except sqlite3.DatabaseError:
        return BEGINNING, 0
    return (BEGINNING if hash_ is None else Head(end // 2, hash_)), end


_MOST_FINDINGS = 20
"""Reported of one kind: the first ones are enough."""
_CHUNK = 1 << 20
_HASH = re.compile(r"[0-9a-f]{64}")


class Fault(msgspec.Struct, frozen=True):
    """A deviation from what was written, and what to do about it."""

    what: str
    hint: str

    def __str__(self) -> str:
        return f"{self.what} {self.hint}"


class DeepVerdict(msgspec.Struct, frozen=True):
    """What was found. `blobs` counts the blobs whose content was compared with their hash; `note` says why something
    was not checked."""

    verdict: Verdict
    faults: tuple[Fault, ...]
    blobs: int
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.verdict.ok and not self.faults


def check_deeply(files: AnchorFiles, blobs: Path) -> DeepVerdict:
    """Check a home. Raises like `open_readable`."""
    try:
        with closing(open_readable(files.database)) as connection:
            verdict = verify_open(connection, files)
            faults = list(_pages(connection))
            note = ""
            if verdict.chain.ok:
                # A temporary file of SQLite's: the tables of a large log don't fit into memory.
                with closing(sqlite3.connect("", isolation_level=None)) as rebuilt:
                    note = _compare(connection, rebuilt, blobs, faults)
                    needed = _needed(connection, rebuilt)
                connection.execute("ROLLBACK")
                faults += _missing(connection, blobs, needed)
            else:
                note = "The tables, and which blobs are missing, can't be checked against a log that was changed."
            rows_wrong, rows = _rows(connection)
    except FAILURES as error:
        raise unusable(error, files.database) from error
    files_wrong, count = _files(blobs)
    return DeepVerdict(verdict, (*faults, *rows_wrong, *files_wrong), rows + count, note)


def _compare(connection: sqlite3.Connection, rebuilt: sqlite3.Connection, blobs: Path, faults: list[Fault]) -> str:
    """Build the tables and the search index in `rebuilt`, add their differences to `faults`; return why they could not
    be compared."""
    rebuilt.execute("BEGIN")
    if not sqlite_events.are_current(connection):
        sqlite_events.fold_into(connection, rebuilt)
        return "The tables were made by another version: they are made again at the next start."
    search.create_like(rebuilt, connection)
    text_of = sqlite_events.not_erased(connection, ArtifactTexts(blobs))
    until = _last_indexed(connection)

    def add(events: Sequence[Event]) -> None:
        search.add(rebuilt, (event for event in events if event.position <= until), text_of)

    sqlite_events.fold_into(connection, rebuilt, also=add)
    faults += _tables(connection, rebuilt)
    faults += _index(connection, rebuilt)
    return ""


def _needed(connection: sqlite3.Connection, rebuilt: sqlite3.Connection) -> list[BlobRef]:
    """Return the blobs that have to be there: those that facts name and nobody erased."""
    repeating = erasing.repeating_blobs(connection)
    found = rebuilt.execute("SELECT ref, needed FROM blobs WHERE needed > 0")
    return [BlobRef(ref) for ref, needed in found if needed > repeating.get(BlobRef(ref), 0)]


def _pages(connection: sqlite3.Connection) -> Iterator[Fault]:
    try:
        found = connection.execute(f"PRAGMA integrity_check({_MOST_FINDINGS})").fetchall()
    except sqlite3.DatabaseError as error:
        found = [(str(error),)]
    for (text,) in found:
        if text != "ok":
            yield Fault(f"The database is damaged: {' '.join(str(text).split())}.", RESTORE)


_REBUILD = "Run `ozzie events rebuild`, and restart Ozzie: it makes the tables again from the log."


def _last_indexed(connection: sqlite3.Connection) -> int:
    """Return the position up to which the index has all documents; beyond all, if the index can't say."""
    try:
        return search.last(connection)
    except sqlite3.DatabaseError:
        return sys.maxsize


def _index(connection: sqlite3.Connection, rebuilt: sqlite3.Connection) -> Iterator[Fault]:
    connection.execute("PRAGMA query_only = OFF")  # a temporary table counts as writing
    try:
        if not search.is_same(connection, rebuilt):
            yield Fault("The index for searching is not what the log says.", _REBUILD)
    except sqlite3.DatabaseError as error:
        yield Fault(f"The index for searching can't be read: {error_text(error)}.", _REBUILD)
    finally:
        connection.execute("PRAGMA query_only = ON")


def _tables(connection: sqlite3.Connection, rebuilt: sqlite3.Connection) -> Iterator[Fault]:
    for table in TABLES.values():
        try:
            for there, expected in zip_longest(_lines(connection, table), _lines(rebuilt, table)):
                if there != expected:
                    first = _key_in(there or expected or "", table)
                    yield Fault(f"The table {table.name} is not what the log says, from {first} on.", _REBUILD)
                    break
        except sqlite3.DatabaseError as error:
            yield Fault(f"The table {table.name} can't be read: {error_text(error)}.", _REBUILD)


def _key_in(line: str, table: Table) -> str:
    """Return the key in a row's line of the dump: the rest may be text that is erased later, and findings are kept."""
    row = loads_object(line)
    return dumps({name: row[name] for name in table.key})[:200]


def _lines(connection: sqlite3.Connection, table: Table) -> Iterator[str]:
    yield from dump_lines(table, sqlite_rows.all_rows(connection, table))


def _missing(connection: sqlite3.Connection, blobs: Path, needed: list[BlobRef]) -> Iterator[Fault]:
    no_files = [ref for ref in needed if not path_of(blobs, ref).exists()]  # first: a file may become a row meanwhile
    rows = contents.stored(connection, map(digest_of, no_files)) if contents.is_there(connection) else set[bytes]()
    missing = [ref for ref in no_files if digest_of(ref) not in rows]
    repeating = erasing.repeating_blobs(connection) if missing else Counter[BlobRef]()
    for ref in missing[:_MOST_FINDINGS]:
        if erasing.is_needed(connection, ref, repeating):  # else it was erased meanwhile
            hint = f"Put {path_of(blobs, ref)} back from a backup. If the backup has no such file: {RESTORE}"
            yield Fault(f"The blob {ref}, which an event names, is missing.", hint)
    if len(missing) > _MOST_FINDINGS:
        yield Fault(f"{len(missing):,} blobs that events name are missing in all.", RESTORE)


def _rows(connection: sqlite3.Connection) -> tuple[list[Fault], int]:
    """Compare each blob in the database with its hash; return the faults and the number of blobs."""
    faults: list[Fault] = []
    count = 0
    try:
        if not contents.is_there(connection):
            return faults, count
        for digest, scope in connection.execute("SELECT CAST(hash AS BLOB), scope FROM contents"):
            count += 1
            try:
                contents.read_of(connection, digest, scope)
            except DamagedStore as error:
                if len(faults) < _MOST_FINDINGS:
                    faults.append(Fault(str(error), RESTORE))
    except sqlite3.DatabaseError as error:
        faults.append(Fault(f"The table contents can't be read: {error_text(error)}.", RESTORE))
    return faults, count


def _files(folder: Path) -> tuple[list[Fault], int]:
    """Compare the content of each file with its name; return the faults and the number of files."""
    faults: list[Fault] = []
    count = 0
    for path in sorted(folder.glob("??/*")):
        if not _HASH.fullmatch(path.parent.name + path.name):
            continue  # being written, or not ours
        count += 1
        fault = _content(path)
        if fault is not None and path.exists() and len(faults) < _MOST_FINDINGS:
            faults.append(fault)
    return faults, count


def _content(path: Path) -> Fault | None:
    hint = f"Put {path} back from a backup."
    digest = hashlib.sha256()
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        return Fault(f"The blob {path} can't be read: {error.strerror}.", hint)
    if digest.hexdigest() == path.parent.name + path.name:
        return None
    return Fault(f"The content of the blob {path} was changed: its name is no longer the hash of it.", hint)


log = logger(__name__)

EVERY = timedelta(days=1)
SETTLE_S = 600.0
"""Delay after a start: what waits for the gateway comes first."""
LOOK_S = 60.0
"""Interval of looking whether it is time: one long timer would stand still while the machine sleeps."""
MAX_WALL_S = 6 * 3600.0

_PROGRAM = "ozzie_server_ext.programs.deep_check"


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """When the store was last checked, and the findings, as sentences."""

    at: datetime
    findings: tuple[str, ...] = ()


class _Answer(msgspec.Struct):
    faults: tuple[str, ...]


class DailyCheck:
    """Runs the check a day after the last one, even by an earlier gateway; `home.last_check` keeps the outcome."""

    def __init__(
        self, home: Home, key: Path, clock: Clock, *, settle_s: float = SETTLE_S, look_s: float = LOOK_S
    ) -> None:
        self._home = home
        self._key = key
        self._clock = clock
        self._settle_s = settle_s
        self._look_s = look_s
        self._work: asyncio.Task[None] | None = None
        self.last: Checked | None = None

    async def start(self) -> None:
        self.last = await asyncio.to_thread(_read, self._home.last_check)
        self._work = asyncio.create_task(self._run(), name="the store is checked once a day")

    async def stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])

    async def check(self) -> Checked:
        """Check now."""
        task = {"home": str(self._home.root.absolute()), "key": str(self._key), "parent": os.getpid()}
        try:
            answer = await run_errand(_PROGRAM, canonical_bytes(task), wall_s=MAX_WALL_S)
            findings = msgspec.json.decode(answer, type=_Answer).faults
        except (ErrandFailed, msgspec.MsgspecError) as error:
            findings = (f"The check did not finish: {error}. Run `ozzie events verify --deep`.",)
        for finding in findings:
            log.error("the daily check found: %s", finding)
        self.last = Checked(at=self._clock.now(), findings=findings)
        try:
            await asyncio.to_thread(replace_file, self._home.last_check, msgspec.json.encode(self.last))
        except OSError as error:
            log.warning("the outcome of the daily check can't be saved: %s", error)
        return self.last

    async def _run(self) -> None:
        await asyncio.sleep(self._settle_s)
        while True:
            last, now = self.last, self._clock.now()
            if last is None or not timedelta(0) <= now - last.at < EVERY:
                await self.check()
            await asyncio.sleep(self._look_s)


def _read(path: Path) -> Checked | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Checked)
    except (OSError, msgspec.MsgspecError):
        return None
