"""Every way to tamper with a log, its anchor, its record and the key at once, over real files, and what each must say.

The log of a home got 4 events (from which the older copies are) and then 4 more. Where the table says OK for a log that
was tampered with, nothing that is left can show it: `docs/security.md` says so.
"""

import asyncio
import shutil
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.store.anchor import Anchor, AnchorFiles, Record, write_anchor, write_record
from tests.integration.store.anchored import AnchoredHome, copy_of

OK = ""
CUT = "The log was cut:"
CUT_OR_OLD = "The log was cut, or an older copy was put back with its anchor:"
GONE = "The log is gone: there is no event in it"
REWRITTEN = "The log was rewritten: event"
OTHER = "This is not the log that was kept"
NO_ANCHOR = "The log's anchor "
NO_RECORD = "The log's record "
NEITHER = "and its record"

KEPT, DELETED, OLDER, FORGED = "kept", "deleted", "older", "forged"

EXPECTED: dict[str, dict[str, tuple[str, str, str]]] = {
    # log: anchor: with the record kept, deleted, older
    "kept": {
        KEPT: (OK, NO_RECORD, OK),
        DELETED: (NO_ANCHOR, NEITHER, NO_ANCHOR),
        OLDER: (OK, NO_RECORD, OK),
    },
    "cut to 6": {
        KEPT: (CUT, CUT, CUT),
        DELETED: (CUT, NEITHER, NO_ANCHOR),
        OLDER: (CUT_OR_OLD, NO_RECORD, OK),
    },
    "rewritten from 5 on": {
        KEPT: (REWRITTEN, REWRITTEN, REWRITTEN),
        DELETED: (REWRITTEN, NEITHER, NO_ANCHOR),
        OLDER: (REWRITTEN, NO_RECORD, OK),
    },
    "older copy": {
        KEPT: (CUT, CUT, CUT),
        DELETED: (CUT, NEITHER, NO_ANCHOR),
        OLDER: (CUT_OR_OLD, NO_RECORD, OK),
    },
    "another one": {
        KEPT: (REWRITTEN, REWRITTEN, REWRITTEN),
        DELETED: (OTHER, NEITHER, OTHER),
        OLDER: (REWRITTEN, REWRITTEN, REWRITTEN),
    },
    "new": {
        KEPT: (GONE, GONE, GONE),
        DELETED: (GONE, OK, GONE),
        OLDER: (GONE, GONE, GONE),
    },
}

CASES = [
    (log, anchor, record, said)
    for log, anchors in EXPECTED.items()
    for anchor, row in anchors.items()
    for record, said in zip((KEPT, DELETED, OLDER), row, strict=True)
]


async def _make_states(root: Path) -> None:
    """Make each state of home and configuration that the cases are put together from, always at the same place."""
    home = _home(root)

    def keep(name: str) -> None:
        for folder in ("home", "config"):
            shutil.copytree(root / folder, root / name / folder)

    def begin_with(name: str) -> None:
        for folder in ("home", "config"):
            shutil.rmtree(root / folder)
            if name:
                shutil.copytree(root / name / folder, root / folder)

    await home.run(4)
    keep("older copy")
    await home.run(4)
    keep("kept")
    home.cut_after(6)
    keep("cut to 6")
    begin_with("older copy")
    await home.run(4)
    keep("rewritten from 5 on")
    begin_with("")
    await home.run(8)
    keep("another one")
    begin_with("kept")


def _home(root: Path) -> AnchoredHome:
    return AnchoredHome(root / "home", root / "config")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every state, and place for the home at hand."""
    folder = tmp_path_factory.mktemp("states")
    asyncio.run(_make_states(folder))
    return folder


def tampered(root: Path, log: str, anchor: str, record: str, key: str = KEPT) -> AnchoredHome:
    """The home with its log, anchor, record and key in these states."""
    home = _home(root)

    def put(file: Path, state: str) -> None:
        file.unlink(missing_ok=True)
        name = {KEPT: "kept", OLDER: "older copy"}.get(state, state)
        copy_of(root / name / file.relative_to(root), file)

    for left in ("ozzie.db-wal", "ozzie.db-shm"):
        (home.files.database.parent / left).unlink(missing_ok=True)
    put(home.files.database, log)
    put(home.files.anchor, anchor)
    put(home.files.record, record)
    put(home.files.key, key)
    if anchor == FORGED:
        write_anchor(home.files.anchor, Anchor(6, "f" * 64, "f" * 64))
    if record == FORGED:
        forged = Record(folder=home.files.folder, log="", position=0, hash="", signature="f" * 64)
        write_record(home.files.record, forged)
    return home


def contents(files: AnchorFiles) -> list[bytes | None]:
    return [file.read_bytes() if file.exists() else None for file in (files.anchor, files.record, files.key)]


async def expect(home: AnchoredHome, said: str) -> None:
    """`verify` and the start of a gateway say this; neither touches the evidence; `accept` makes all of it well."""
    before = contents(home.files)
    try:
        found = (await home.verified()).found
    except NotFound:
        assert said == OK  # a home without anything
    else:
        assert said in found.reason
        assert found.ok == (said == OK)
    assert contents(home.files) == before

    warning = await home.run(1)

    assert said in warning
    assert bool(warning) == bool(said)
    if not said:
        assert (await home.verified()).ok
        return
    assert "ozzie events accept" in warning
    assert contents(home.files) == before
    await home.accepted()
    assert (await home.verified()).ok
    assert await home.run(1) == ""
    assert home.record.accepted[-1].reason


@pytest.mark.parametrize(("log", "anchor", "record", "said"), CASES)
async def test_with_the_key(root: Path, log: str, anchor: str, record: str, said: str) -> None:
    await expect(tampered(root, log, anchor, record), said)


@pytest.mark.parametrize("log", EXPECTED)
@pytest.mark.parametrize(("anchor", "record"), [(FORGED, KEPT), (KEPT, FORGED), (FORGED, DELETED), (DELETED, FORGED)])
async def test_with_a_forged_anchor_or_record(root: Path, log: str, anchor: str, record: str) -> None:
    await expect(tampered(root, log, anchor, record), "was not signed with this user's key.")


@pytest.mark.parametrize("log", EXPECTED)
@pytest.mark.parametrize("anchor", [KEPT, DELETED, OLDER, FORGED])
@pytest.mark.parametrize("record", [KEPT, DELETED, OLDER, FORGED])
async def test_without_the_key(root: Path, log: str, anchor: str, record: str) -> None:
    home = tampered(root, log, anchor, record, DELETED)
    nothing = (log, anchor, record) == ("new", DELETED, DELETED)
    await expect(home, OK if nothing else f"The anchor's key {home.files.key} is missing")
