"""What erasing contents promises (`artifacts.erasing`), over every log and every blob store."""

import asyncio
import dataclasses
from collections.abc import Sequence

import msgspec
import pytest

from ozzie_server_ext.artifacts.erasing import Eraser
from ozzie_server_ext.domain.artifacts import blob_of
from ozzie_server_ext.domain.errors import Conflict, Gone, InputError, NotFound, Unavailable
from ozzie_server_ext.domain.events import (
    ArtifactErased,
    ConfigChanged,
    EventBody,
    MessageReceived,
    ModelCallFailed,
    Origin,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    ToolCallCompleted,
)
from ozzie_server_ext.domain.ids import ArtifactId, BlobRef, CallId, MessageId, SessionId
from ozzie_server_ext.domain.messages import Picture
from ozzie_server_ext.store.blobs import BlobStore, InMemoryBlobs, ref_of
from ozzie_server_ext.store.log import EventLog
from tests.contract.test_artifacts import SESSION, TASK, Desk
from tests.replay.histories import (
    approval_requested,
    artifact_created,
    call_completed,
    call_started,
    draft,
    task_created,
)

CONTENT = b"what is to be erased"


class Erasing(Desk):
    """With an eraser beside it, and what stands in the log of it."""

    def __init__(self, log: EventLog, blobs: BlobStore) -> None:
        super().__init__(log, blobs)
        self.blobs = blobs
        self.eraser = Eraser(log, blobs, self.artifacts)

    async def record(self, *bodies: EventBody) -> None:
        await self.log.append(f"task:{TASK}", [draft(body, session_id=SESSION, task_id=TASK) for body in bodies])

    async def leave(self, artifact_id: ArtifactId) -> None:
        """As a gateway does that dies between the fact and the file."""
        await self.log.append("artifacts", [draft(ArtifactErased(artifact_id=artifact_id, why="age", bound=90))])

    async def erased(self) -> list[ArtifactErased]:
        events = await self.log.read(types=frozenset({"artifact.erased"}))
        return [event.body for event in events if isinstance(event.body, ArtifactErased)]

    async def ref(self, artifact_id: ArtifactId) -> BlobRef:
        return blob_of((await self.artifacts.get(artifact_id)).storage_ref)

    async def is_there(self, ref: BlobRef) -> bool:
        return await self.blobs.there([ref]) == [ref]


@pytest.fixture
def desk(log: EventLog, blobs: BlobStore) -> Erasing:
    return Erasing(log, blobs)


async def test_the_content_goes_and_what_is_known_of_it_stays_with_when_and_why(desk: Erasing) -> None:
    artifact_id = await desk.make(CONTENT)
    before = await desk.artifacts.get(artifact_id)

    await desk.eraser.erase(artifact_id, "Ana")

    after = await desk.artifacts.get(artifact_id)
    assert after.erased is not None
    assert (after.erased.why, after.erased.by) == ("person", "Ana")
    assert dataclasses.replace(after, erased=None) == before
    assert not await desk.is_there(await desk.ref(artifact_id))
    for reading in (desk.artifacts.content(after), desk.artifacts.content(before)):
        with pytest.raises(Gone, match=f"It was erased on {after.erased.at:%Y-%m-%d} by Ana"):
            await reading
    with pytest.raises(Gone, match="by Ana"):
        await desk.artifacts.of(SessionId(SESSION)).open(artifact_id)


async def test_what_was_erased_is_erased_once(desk: Erasing) -> None:
    artifact_id = await desk.make(CONTENT)
    answers = await asyncio.gather(
        desk.eraser.erase(artifact_id, "Ana"), desk.eraser.erase(artifact_id, "Bo"), return_exceptions=True
    )
    await desk.eraser.erase_all([artifact_id], why="age", bound=90)

    assert [type(answer) for answer in answers] == [type(None), Gone]
    assert await desk.erased() == [ArtifactErased(artifact_id=artifact_id, why="person", by="Ana")]


async def test_a_blob_that_another_artifact_has_stays_until_the_last_of_them_goes(desk: Erasing) -> None:
    first, second = await desk.make(CONTENT), await desk.make(CONTENT, name="other.txt", session="sess_2")
    ref = await desk.ref(first)

    await desk.eraser.erase(first, "Ana")
    assert await desk.artifacts.content(await desk.artifacts.get(second)) == CONTENT

    await desk.eraser.erase(second, "Ana")
    assert not await desk.is_there(ref)


def naming(ref: BlobRef) -> list[Sequence[EventBody]]:
    """What else names a blob, of every kind."""
    picture = Picture(path="a.png", ref=ref, media_type="image/png", size=1)
    started, completed = call_started("c"), call_completed("c")
    failed = ModelCallFailed(call_id=CallId("c"), code="x", message="", latency_ms=1.0, partial_blob=ref)
    done = ToolCallCompleted(call_id=CallId("c"), ok=True, data=None, summary="", duration_ms=1.0, blob=ref)
    origin = Origin(channel="jupyter")
    return [
        [msgspec.structs.replace(started, request_blob=ref)],
        [started, msgspec.structs.replace(completed, response_blob=ref)],
        [started, failed],
        [done],
        [MessageReceived(message_id=MessageId("m"), text="@a.png", origin=origin, pictures=(picture,))],
        [ConfigChanged(version="1", blob=ref, files=(), previous="")],
    ]


@pytest.mark.parametrize("kind", range(6))
async def test_a_blob_that_something_else_in_the_log_names_stays(desk: Erasing, kind: int) -> None:
    artifact_id = await desk.make(CONTENT)
    ref = await desk.ref(artifact_id)
    await desk.record(*naming(ref)[kind])

    await desk.eraser.erase(artifact_id, "Ana")
    await desk.eraser.remove_left()

    assert await desk.blobs.get(ref) == CONTENT
    with pytest.raises(Gone):
        await desk.artifacts.content(await desk.artifacts.get(artifact_id))


async def test_what_is_kept_while_the_same_content_is_erased_is_there(desk: Erasing) -> None:
    """A version is made of what another one is erased of: its content is durable before its fact, and stays."""
    artifact_id = await desk.make(CONTENT)

    kept = await desk.artifacts.keep(CONTENT, kind="log", name="new.txt", mime="text/plain")
    await desk.eraser.erase(artifact_id, "Ana")
    assert await desk.blobs.get(kept.blob) == CONTENT

    for number in range(20):
        other = await desk.make(CONTENT, name=f"{number}.txt")
        made, _ = await asyncio.gather(desk.make(CONTENT, name=f"again {number}.txt"), desk.eraser.erase(other, "Ana"))
        assert await desk.artifacts.content(await desk.artifacts.get(made)) == CONTENT
        await desk.eraser.erase(made, "Ana")


async def test_a_file_that_was_left_behind_its_fact_goes_with_the_next_sweep_and_no_other(desk: Erasing) -> None:
    """The gateway died between the fact and the file."""
    left, kept = await desk.make(CONTENT), await desk.make(b"kept", name="kept.txt")
    ref, unnamed = await desk.ref(left), await desk.blobs.put(b"a fact of it is to come")
    await desk.leave(left)
    assert await desk.is_there(ref)

    await desk.eraser.remove_left()

    assert not await desk.is_there(ref)
    assert await desk.artifacts.content(await desk.artifacts.get(kept)) == b"kept"
    assert await desk.is_there(unnamed)


class Full(InMemoryBlobs):
    """Nothing can be removed while `fails`."""

    fails = True

    async def remove(self, *args: object, **how: object) -> bool:
        if self.fails:
            raise Unavailable("the disk is gone")
        return await super().remove(*args, **how)  # pyright: ignore[reportArgumentType]


async def test_a_file_that_can_not_be_removed_is_not_read_any_more_and_goes_later(log: EventLog) -> None:
    blobs = Full()
    desk = Erasing(log, blobs)
    artifact_id = await desk.make(CONTENT)

    await desk.eraser.erase(artifact_id, "Ana")
    with pytest.raises(Gone):
        await desk.artifacts.content(await desk.artifacts.get(artifact_id))

    blobs.fails = False
    await desk.eraser.remove_left()
    assert not await desk.is_there(await desk.ref(artifact_id))


async def test_without_the_fact_no_file_goes(desk: Erasing) -> None:
    artifact_id = await desk.make(CONTENT)
    await desk.log.close()

    with pytest.raises(Unavailable):
        await desk.eraser.erase(artifact_id, "Ana")

    assert await desk.is_there(ref_of(CONTENT))


async def test_what_a_task_made_that_has_not_ended_stays(desk: Erasing) -> None:
    await desk.record(task_created("x"), TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
    artifact_id = await desk.make(CONTENT)

    async def refused() -> None:
        with pytest.raises(Conflict, match="the task that made it has not ended"):
            await desk.eraser.erase(artifact_id, "Ana")
        await desk.eraser.erase_all([artifact_id], why="age", bound=1)
        assert await desk.erased() == []

    await refused()
    await desk.record(TaskWaitingApproval(approval_id="p"))
    await refused()


async def test_what_an_approval_shows_that_waits_stays_whatever_its_task_is(desk: Erasing) -> None:
    artifact_id = await desk.make(CONTENT)
    await desk.record(msgspec.structs.replace(approval_requested("p", "c"), whole=artifact_id))
    await desk.eraser.erase_all([artifact_id], why="size", bound=1)
    assert await desk.erased() == []


async def test_behind_the_end_of_its_task_it_may_go(desk: Erasing) -> None:
    await desk.record(task_created("x"), TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"))
    artifact_id = await desk.make(CONTENT)
    await desk.record(msgspec.structs.replace(approval_requested("p", "c"), whole=artifact_id), TaskSucceeded(rounds=1))

    await desk.eraser.erase_all([artifact_id], why="size", bound=1)

    assert await desk.erased() == [ArtifactErased(artifact_id=artifact_id, why="size", bound=1)]


async def test_what_is_not_there_or_not_kept_here_can_not_be_erased(desk: Erasing) -> None:
    elsewhere = msgspec.structs.replace(artifact_created("x"), storage_ref="s3://bucket/table.csv")
    await desk.record(elsewhere)

    with pytest.raises(NotFound):
        await desk.eraser.erase(ArtifactId("01NOTHING"), "Ana")
    with pytest.raises(InputError, match="not kept by Ozzie itself"):
        await desk.eraser.erase(ArtifactId("x"), "Ana")
    await desk.eraser.erase_all([ArtifactId("x")], why="age", bound=1)
    assert await desk.erased() == []


async def test_the_tables_made_anew_are_the_same(desk: Erasing) -> None:
    first = await desk.make(CONTENT)
    await desk.make(CONTENT)
    third = await desk.make(b"third")
    await desk.eraser.erase(first, "Ana")
    await desk.eraser.erase_all([third], why="age", bound=90)
    before = await desk.log.dump()

    assert await desk.log.rebuild() == before
