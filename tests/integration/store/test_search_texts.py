"""The texts of artifacts in the search index (`store.texts`): which are found, and that erased ones leave it."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from ozzie_server_ext.artifacts.erasing import Eraser
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.artifacts import REPLACED_BY, ErasedWhy
from ozzie_server_ext.domain.events import ArtifactErased, Draft
from ozzie_server_ext.domain.ids import ARTIFACTS_STREAM, ArtifactId, SessionId, TaskId, session_stream
from ozzie_server_ext.domain.terms import phrases
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.store import search
from ozzie_server_ext.store.blobs import FileBlobs, path_of
from ozzie_server_ext.store.documents import MOST_CHARACTERS, Wanted
from ozzie_server_ext.store.erasing import Target
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.texts import ArtifactTexts
from tests.replay.histories import artifact_created, draft, session_created

SESSION, OTHER = (SessionId(f"sess_01{letter * 24}") for letter in "AB")


class Home:
    """A log with artifacts in files beside it."""

    def __init__(self, folder: Path, log: SqliteEventLog, clock: FakeClock) -> None:
        self.folder = folder
        self.log = log
        self.clock = clock
        self.blobs = FileBlobs(folder / "blobs")
        self.artifacts = ArtifactStore(log, self.blobs, UlidSource())
        self.eraser = Eraser(log, self.blobs, self.artifacts)

    @classmethod
    async def open(cls, folder: Path) -> "Home":
        clock, texts = FakeClock(), ArtifactTexts(folder / "blobs")
        log = await SqliteEventLog.open(folder / "ozzie.db", clock=clock, ids=UlidSource(), texts=texts)
        return cls(folder, log, clock)

    async def make(self, content: str | bytes, name: str = "out.txt", mime: str = "text/plain", **more: Any) -> int:
        """Record an artifact; return its position."""
        session_id: SessionId = more.pop("session_id", SESSION)
        content = content.encode() if isinstance(content, str) else content
        kept = await self.artifacts.keep(content, kind="log", name=name, mime=mime, meta=more)
        await self.artifacts.record(
            Recorder(log=self.log, session_id=session_id, task_id=TaskId("01" + "T" * 24)), kept
        )
        return (await self.artifacts.get(kept.artifact_id)).position

    async def at(self, position: int) -> ArtifactId:
        (row,) = await self.log.rows("artifacts", where={"position": position})
        return ArtifactId(str(row["artifact_id"]))

    async def found(self, query: str) -> list[int]:
        return sorted(hit.position for hit in (await self.log.search(Wanted(phrases=tuple(phrases(query))))).best)

    def bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file())


@pytest.fixture(params=["fts5", "fts4"], autouse=True)
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "create", partial(search.create, fts5=request.param == "fts5"))


@pytest_asyncio.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    home = await Home.open(tmp_path / "data")
    yield home
    await home.log.close()


async def test_an_artifact_is_found_by_its_text_and_its_name(home: Home) -> None:
    at = await home.make("the quarterly revenue of Zubrowka")
    await home.make("資料の検索", name="other.md", mime="text/markdown")

    assert await home.found("revenues") == [at]
    assert await home.found("out zubrowka") == [at]
    assert len(await home.found("検索")) == 1


async def test_of_a_long_text_both_ends_are_found(home: Home) -> None:
    filling = "größer " * MOST_CHARACTERS
    at = await home.make(f"beginning {filling} middle {filling} ending")

    assert await home.found("beginning ending") == [at]
    assert await home.found("middle") == []


@pytest.mark.parametrize(
    "more", [{"mime": "image/png"}, {REPLACED_BY: "fs.write"}], ids=["an image", "a file before its change"]
)
async def test_only_the_name_is_found_of_what_is_no_text_or_kept_to_undo_a_change(
    home: Home, more: dict[str, Any]
) -> None:
    at = await home.make("walrus", **more)

    assert await home.found("walrus") == []
    assert await home.found("out.txt") == [at]


@pytest.mark.parametrize("content", [b"\xff\xfe walrus \xc3", b""], ids=["not UTF-8", "empty"])
async def test_any_content_can_be_recorded(home: Home, content: bytes) -> None:
    at = await home.make(content)

    assert await home.found("out") == [at]
    assert await home.found("walrus") == ([at] if content else [])


@pytest.mark.parametrize("why", ["person", "age"])
async def test_an_erased_text_is_not_found_any_more(home: Home, why: ErasedWhy) -> None:
    gone, same = await home.make("walrus"), await home.make("walrus", name="same.txt")
    other = await home.make("a seal", name="other.txt")
    if why == "person":
        await home.eraser.erase(await home.at(gone), "ana")
    else:
        await home.eraser.erase_all([await home.at(gone)], why=why, bound=1)

    for _ in range(2):
        assert await home.found("walrus") == [same]
        assert await home.found("out.txt") == [gone]
        assert await home.found("seal") == [other]
        await home.log.rebuild()


async def test_a_text_that_a_person_erased_leaves_the_disk(home: Home) -> None:
    at = await home.make("Zubrowkaqxjv")
    assert b"browkaqxjv" in home.bytes()

    await home.eraser.erase(await home.at(at), "ana")
    traces = await home.log.uncleaned()
    await home.log.write_anew()

    assert [(each.sessions, each.days, each.blobs) for each in traces] == [((), frozenset(), frozenset())]
    assert b"browkaqxjv" not in home.bytes()


async def test_what_retention_erases_does_not_have_the_database_written_anew(home: Home) -> None:
    await home.eraser.erase_all([await home.at(await home.make("walrus"))], why="age", bound=1)

    assert await home.log.uncleaned() == []


async def test_the_texts_of_an_erased_session_leave_the_index_with_it(home: Home) -> None:
    for session_id in (SESSION, OTHER):
        await home.log.append(session_stream(session_id), [draft(session_created(session_id), session_id=session_id)])
    erased_before = await home.make("walrus", name="before.txt")
    await home.make("walrus and seal")
    stays = await home.make("walrus", session_id=OTHER)
    await home.eraser.erase(await home.at(erased_before), "ana")

    await home.log.erase(Target("ana", SESSION))

    for _ in range(2):
        assert await home.found("walrus") == [stays]
        assert await home.found("seal") == []
        await home.log.rebuild()


@pytest.mark.parametrize("damage", ["removed", "changed"])
async def test_a_text_leaves_the_index_even_if_its_file_is_no_longer_what_it_was(home: Home, damage: str) -> None:
    at, other = await home.make("walrus"), await home.make("a seal", name="other.txt")
    artifact = await home.artifacts.get(await home.at(at))
    path = path_of(home.folder / "blobs", artifact.storage_ref.replace("artifact://", "sha256:"))  # pyright: ignore[reportArgumentType]
    path.unlink() if damage == "removed" else path.write_text("sea cow")

    await home.eraser.erase(artifact.artifact_id, "ana")

    assert await home.found("walrus") == []
    assert await home.found("out") == [at]
    assert await home.found("seal") == [other]


async def test_an_artifact_whose_address_is_none_is_found_by_its_name_and_can_be_erased(home: Home) -> None:
    odd = msgspec.structs.replace(artifact_created("01" + "O" * 24, name="odd.txt"), storage_ref="artifact://nonesuch")
    erased = ArtifactErased(artifact_id=odd.artifact_id, why="person", by="ana")

    (at,) = await home.log.append(session_stream(SESSION), [draft(odd)])
    await home.log.append(ARTIFACTS_STREAM, [draft(erased)])

    assert await home.found("odd") == [at.position]


async def test_an_erasure_that_comes_twice_leaves_the_index_whole(home: Home) -> None:
    at, other = await home.make("walrus"), await home.make("a seal", name="other.txt")
    artifact_id = await home.at(at)
    for second in range(2):
        fact = ArtifactErased(artifact_id=artifact_id, why="person", by=f"ana {second}")
        await home.log.append(ARTIFACTS_STREAM, [Draft(body=fact, actor="user", source="artifacts")])
        home.clock.advance(1)

    assert await home.found("walrus") == []
    assert await home.found("out") == [at]
    assert await home.found("seal") == [other]


async def test_the_index_after_erasures_is_as_one_made_anew(home: Home) -> None:
    def indexed() -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(home.folder / "ozzie.db")) as connection:
            (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'search'").fetchone()
            if "fts4" in sql:
                connection.execute("CREATE VIRTUAL TABLE temp.words USING fts4aux(main, search)")
                return sorted(
                    connection.execute("SELECT term, col, documents, occurrences FROM temp.words WHERE col != '*'")
                )
            connection.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, search, instance)")
            return sorted(connection.execute("SELECT term, doc, col, offset FROM temp.words"))

    for number in range(12):
        at = await home.make(f"getUserName {number} größer 学习资料 " + "word " * 40_000, name=f"{number}.txt")
        if number % 3 == 0:
            await home.eraser.erase(await home.at(at), "ana")
    await home.log.write_anew()
    live = indexed()

    await home.log.rebuild()
    await home.log.write_anew()

    assert live == indexed()
