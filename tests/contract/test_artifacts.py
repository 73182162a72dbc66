"""What the artifacts promise (`artifacts.store`), over every log and every blob store."""

import asyncio
from typing import Any

import pytest

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.artifacts import Artifact, ArtifactKind
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.domain.events import ArtifactCreated, EventBody, SessionForked
from ozzie_server_ext.domain.ids import ArtifactId, CallId, SessionId, TaskId, session_stream, task_stream
from ozzie_server_ext.observability.clock import CountingIds
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from tests.replay.histories import completed, draft, session_created

TASK = TaskId("t1")
SESSION = SessionId("sess_1")


class Desk:
    """A log, its artifacts, and who records into it."""

    def __init__(self, log: EventLog, blobs: BlobStore) -> None:
        self.log = log
        self.artifacts = ArtifactStore(log, blobs, CountingIds())

    async def make(
        self,
        content: bytes = b"text",
        *,
        name: str = "out.txt",
        kind: ArtifactKind = "log",
        session: str = SESSION,
        task: str = TASK,
        facts: tuple[EventBody, ...] = (),
    ) -> ArtifactId:
        kept = await self.artifacts.keep(content, kind=kind, name=name, mime="text/plain", call_id=CallId("c"))
        await self.artifacts.record(self.recorder(session, task), kept, *facts)
        return kept.artifact_id

    def recorder(self, session: str, task: str) -> Recorder:
        return Recorder(
            log=self.log,
            session_id=SessionId(session),
            task_id=TaskId(task),
            content_now=lambda: Content(labels=("web",), sources=("web:example.org",)),
        )

    async def open_session(self, session: str) -> None:
        session_id = SessionId(session)
        await self.log.append(session_stream(session_id), [draft(session_created(session), session_id=session_id)])

    async def fork(self, child: str, parent: str) -> None:
        """The child begins with what the parent is at this moment."""
        await self.open_session(child)
        fact = SessionForked(parent=SessionId(parent), position=(await self.log.head()).position)
        await self.log.append(session_stream(SessionId(child)), [draft(fact, session_id=SessionId(child))])

    async def sees(self, session: str, artifact_id: ArtifactId) -> bool:
        try:
            await self.artifacts.of(SessionId(session)).open(artifact_id)
        except NotFound:
            return False
        return True


@pytest.fixture
def desk(log: EventLog, blobs: BlobStore) -> Desk:
    return Desk(log, blobs)


async def test_what_was_kept_is_got_back_with_all_that_is_known_of_it(desk: Desk) -> None:
    artifact_id = await desk.make(b"12345")

    artifact = await desk.artifacts.get(artifact_id)

    assert await desk.artifacts.content(artifact) == b"12345"
    assert artifact == Artifact(
        artifact_id=artifact_id,
        session_id=SESSION,
        task_id=TASK,
        ts=artifact.ts,
        kind="log",
        name="out.txt",
        version=1,
        storage_ref=f"artifact://{artifact.hash}",
        mime="text/plain",
        size=5,
        hash="5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5",
        call_id=CallId("c"),
        meta={},
        labels=("web",),
        sources=("web:example.org",),
        superseded_by=None,
        superseded_at=None,
        erased=None,
        position=1,
    )


async def test_the_same_name_in_a_session_is_the_next_version_and_the_one_before_is_kept(desk: Desk) -> None:
    first, second, elsewhere = await desk.make(b"1"), await desk.make(b"2"), await desk.make(session="sess_2")

    old, new = await desk.artifacts.get(first), await desk.artifacts.get(second)

    assert (old.version, old.superseded_by) == (1, second)
    assert (new.version, new.superseded_by) == (2, None)
    assert await desk.artifacts.content(old) == b"1"
    assert (await desk.artifacts.get(elsewhere)).version == 1


async def test_of_many_made_at_once_each_has_a_version_of_its_own(desk: Desk) -> None:
    made = await asyncio.gather(*[desk.make(str(number).encode()) for number in range(20)])

    artifacts = await desk.artifacts.list()

    assert sorted(artifact.version for artifact in artifacts) == list(range(1, 21))
    assert len(set(made)) == 20
    assert len([artifact for artifact in artifacts if artifact.superseded_by is None]) == 1


async def test_what_goes_with_an_artifact_is_recorded_with_it_or_not_at_all(desk: Desk) -> None:
    created = ArtifactCreated(
        artifact_id=ArtifactId("x"),
        kind="log",
        name="out.txt",
        version=1,
        storage_ref="artifact://0",
        mime="text/plain",
        size=0,
        hash="0",
    )
    await desk.make(facts=(completed("r", "done"),))
    with pytest.raises(Exception, match="has the version"):
        await desk.make(b"more", facts=(created,))

    assert [event.type for event in await desk.log.read()] == ["artifact.created", "message.completed"]


async def test_what_goes_with_no_artifact_waits_for_no_other_ones(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    append = desk.log.append

    async def held(stream: str, *given: Any, **named: Any) -> Any:
        if stream == task_stream(TASK):
            begun.set()
            await go_on.wait()
        return await append(stream, *given, **named)

    monkeypatch.setattr(desk.log, "append", held)
    slow = asyncio.create_task(desk.make())
    await begun.wait()

    other = desk.recorder(SESSION, "t2")
    async with asyncio.timeout(5):
        await desk.artifacts.record_all(other, [], completed("r2", "done"))

    assert not slow.done()
    go_on.set()
    await slow


async def test_they_are_listed_newest_first_by_session_task_and_kind_in_pages(desk: Desk) -> None:
    a = await desk.make(name="a")
    b = await desk.make(name="b", kind="json", task="t2")
    c = await desk.make(name="c", session="sess_2")

    async def ids(**asked: object) -> list[ArtifactId]:
        return [artifact.artifact_id for artifact in await desk.artifacts.list(**asked)]  # pyright: ignore

    assert await ids() == [c, b, a]
    assert await ids(session_id=SESSION) == [b, a]
    assert await ids(task_id="t2") == [b]
    assert await ids(kinds=("log", "image")) == [c, a]
    assert await ids(limit=2) == [c, b]
    assert await ids(limit=2, after=b) == [a]


async def test_a_session_reads_its_own_and_no_other_sessions(desk: Desk) -> None:
    artifact_id = await desk.make()

    assert await desk.sees(SESSION, artifact_id)
    assert not await desk.sees("sess_2", artifact_id)
    assert not await desk.sees(SESSION, ArtifactId("01NOTHING"))


async def test_a_fork_reads_what_was_there_when_it_was_made_and_its_parent_reads_nothing_of_it(desk: Desk) -> None:
    await desk.open_session("sess_old")
    before = await desk.make(name="before", session="sess_old")
    await desk.fork("sess_mid", "sess_old")
    after = await desk.make(name="after", session="sess_old")
    within = await desk.make(name="within", session="sess_mid")
    await desk.fork("sess_new", "sess_mid")

    found = {
        session: [await desk.sees(session, artifact_id) for artifact_id in (before, after, within)]
        for session in ("sess_old", "sess_mid", "sess_new")
    }

    assert found == {
        "sess_old": [True, True, False],
        "sess_mid": [True, False, True],
        "sess_new": [True, False, True],
    }


@pytest.mark.parametrize("name", ["", "a\nb", "a\x1b[2J", "x" * 201])
async def test_a_name_is_one_line_that_can_be_shown(desk: Desk, name: str) -> None:
    with pytest.raises(InputError, match="one line"):
        await desk.make(name=name)


async def test_what_is_kept_elsewhere_is_not_opened_here(desk: Desk) -> None:
    created = ArtifactCreated(
        artifact_id=ArtifactId("x"),
        kind="file",
        name="table.csv",
        version=1,
        storage_ref="s3://bucket/table.csv",
        mime="text/csv",
        size=1,
        hash="0" * 64,
    )
    await desk.log.append("task:t1", [draft(created, session_id=SESSION)])

    artifact = await desk.artifacts.get(ArtifactId("x"))

    with pytest.raises(InputError, match="not kept by Ozzie itself"):
        await desk.artifacts.content(artifact)
