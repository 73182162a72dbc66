"""What models were sent and answered: written with the facts that name it, each part once."""

import asyncio
import hashlib
import random
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ozzie_server_ext.domain.errors import NotFound, VersionConflict
from ozzie_server_ext.domain.events import ConfigChanged
from ozzie_server_ext.domain.ids import BlobRef, CallId, SessionId
from ozzie_server_ext.models.driver import ChatMessage, ModelChoice, ModelRequest
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.protocol.jsontext import canonical_bytes, parts_around
from ozzie_server_ext.store import checks, contents
from ozzie_server_ext.store.blobs import FileBlobs
from ozzie_server_ext.store.contents import MOST_OF_A_PART, DatabaseBlobs
from ozzie_server_ext.store.log import DamagedStore
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.histories import draft

ONE, OTHER = SessionId("sess_01AAAAAAAAAAAAAAAAAAAAAAAA"), SessionId("sess_01BBBBBBBBBBBBBBBBBBBBBBBB")


async def nobody() -> bool:
    return False


def naming(*refs: BlobRef) -> list[Any]:
    return [draft(ConfigChanged(version="1", blob=ref, files=(), previous="")) for ref in refs]


class Opened:
    """A log with its blobs, which counts a put as named once its fact is durable, as a gateway does."""

    def __init__(self, folder: Path, log: SqliteEventLog) -> None:
        self.folder, self.log = folder, log
        self.files = FileBlobs(folder / "blobs")
        self.blobs = DatabaseBlobs(log, self.files)

    async def name(self, *refs: BlobRef) -> None:
        await self.log.append("config", naming(*refs))
        for ref in refs:
            self.blobs.named(ref)

    async def request(self, parts: Sequence[bytes], session_id: SessionId = ONE, kind: str = "answer") -> BlobRef:
        ref = await self.blobs.put_parts(parts, session_id, kind)
        await self.name(ref)
        return ref

    def rows(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.folder / "ozzie.db")) as connection:
            return connection.execute(sql).fetchall()


async def opened(folder: Path) -> Opened:
    return Opened(folder, await SqliteEventLog.open(folder / "ozzie.db", clock=FakeClock(), ids=UlidSource()))


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Opened]:
    store = await opened(tmp_path)
    yield store
    await store.log.close()


async def test_an_answer_is_written_with_the_fact_that_names_it_and_no_sooner(store: Opened) -> None:
    ref = await store.blobs.put_parts([b"an answer"], ONE)
    assert await store.blobs.get(ref) == b"an answer"
    assert await store.blobs.there([ref]) == [ref]
    assert store.rows("SELECT * FROM contents") == []
    await store.name(ref)

    assert store.rows("SELECT content FROM parts") == [(b"an answer",)]
    assert await store.blobs.get(ref) == b"an answer"
    assert await store.blobs.there([ref]) == [ref]
    assert not (store.folder / "blobs").exists()


async def test_other_blobs_are_files(store: Opened) -> None:
    ref = await store.blobs.put(b"an artifact")
    await store.name(ref)

    assert store.rows("SELECT * FROM contents") == []
    assert await store.files.get(ref) == await store.blobs.get(ref)
    assert await store.blobs.remove(ref, nobody)
    with pytest.raises(NotFound):
        await store.blobs.get(ref)


async def test_what_was_kept_as_a_file_before_is_still_there(store: Opened) -> None:
    ref = await store.files.put(b"".join(conversation(3)))
    assert await store.blobs.there([ref]) == [ref]
    assert await store.blobs.get(ref) == b"".join(conversation(3))


async def test_what_a_refused_fact_names_is_not_written_and_may_be_named_again(store: Opened) -> None:
    ref = await store.blobs.put_parts([b"an answer"], ONE)
    with pytest.raises(VersionConflict):
        await store.log.append("config", naming(ref), expected_version=5)
    assert store.rows("SELECT * FROM contents") == []

    await store.name(ref)
    assert await store.blobs.get(ref) == b"an answer"


async def test_one_bad_append_takes_no_content_of_its_batch_along(store: Opened) -> None:
    good, bad = await store.blobs.put_parts([b"good"], ONE), await store.blobs.put_parts([b"bad"], OTHER)
    (taken,) = await store.log.append("config", naming(BlobRef("sha256:" + "0" * 64)))
    again = [each._replace(event_id=taken.event_id) for each in naming(bad)]
    results = await asyncio.gather(
        store.log.append("a", naming(good)), store.log.append("b", again), return_exceptions=True
    )

    assert isinstance(results[1], Exception)
    assert store.rows("SELECT content FROM parts") == [(b"good",)]
    assert store.rows("SELECT session_id FROM part_scopes") == [(ONE,)]


async def test_a_session_keeps_equal_contents_once_however_often_they_are_put(store: Opened) -> None:
    refs = [await store.blobs.put_parts([b"same"], ONE) for _ in range(3)]
    await store.name(*refs)
    await store.name(await store.blobs.put_parts([b"same"], ONE))
    assert len(store.rows("SELECT * FROM contents")) == 1


async def test_what_is_put_for_many_refused_facts_becomes_files(
    store: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(contents, "_MOST_HELD", 1000)
    refs = [await store.blobs.put_parts([bytes([number]) * 300], ONE) for number in range(8)]
    assert store.log.contents.bytes == 1200
    assert len(caplog.records) == 1
    await store.name(*refs)

    assert store.log.contents.bytes == 0
    assert [await store.blobs.get(ref) for ref in refs] == [bytes([number]) * 300 for number in range(8)]


# --- requests -------------------------------------------------------------------------------------------------------


def conversation(length: int) -> list[bytes]:
    return [b"system", *(b"message %d" % number for number in range(length)), b"tools"]


async def test_a_request_stores_only_what_the_one_before_it_did_not_have(store: Opened) -> None:
    refs = [await store.request(conversation(length)) for length in range(1, 41)]

    assert len(store.rows("SELECT * FROM parts")) == 42
    assert max(len(parts) for (parts,) in store.rows("SELECT parts FROM contents WHERE extends IS NOT NULL")) < 60
    for length, ref in enumerate(refs, start=1):
        whole = b"".join(conversation(length))
        assert ref == f"sha256:{hashlib.sha256(whole).hexdigest()}"
        assert await store.blobs.get(ref) == whole


async def test_a_long_answer_is_stored_once_for_itself_and_the_requests_that_quote_it(store: Opened) -> None:
    text = 'It is "long", and has lines.\n' * 40
    answer = canonical_bytes({"cost": 0, "text": text})
    asked = ModelRequest(
        call_id=CallId("c"),
        choice=ModelChoice(alias="a", provider="p", driver="openai", model="m"),
        messages=(ChatMessage(role="user", content="?"), ChatMessage(role="assistant", content=text)),
    )
    refs = [await store.request(parts_around(answer, text), kind=""), await store.request(asked.to_parts())]

    assert [await store.blobs.get(ref) for ref in refs] == [answer, canonical_bytes(asked.to_json())]
    assert store.rows("SELECT content FROM parts WHERE length(content) > 600") == [(canonical_bytes(text),)]


async def test_a_request_that_extends_many_is_read_from_few(store: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_DEEPEST", 4)
    refs = [await store.request(conversation(length)) for length in range(1, 31)]

    assert len(store.rows("SELECT * FROM contents WHERE extends IS NULL")) == 6
    assert await store.blobs.get(refs[-1]) == b"".join(conversation(30))


async def test_requests_that_repeat_earlier_ones_make_none_deeper(store: Opened) -> None:
    for length in range(1, 201):
        ref = await store.request(conversation(length))
        if length % 20 == 0:
            assert await store.request(conversation(length)) == ref
        assert await store.blobs.get(ref) == b"".join(conversation(length))


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_changes_from_request_to_request_each_is_what_was_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(contents, "_DEEPEST", chance.choice([1, 3, 32]))
    monkeypatch.setattr(contents, "_MOST_LAST", chance.choice([0, 200, 1 << 20]))
    store = await opened(tmp_path)
    parts = {session: [b"a."] for session in (ONE, OTHER)}
    made: dict[BlobRef, bytes] = {}
    for _ in range(60):
        session = chance.choice([ONE, OTHER])
        of_session = parts[session]
        for _ in range(chance.randrange(3)):
            place = chance.randrange(len(of_session) + 1)
            match chance.randrange(4):
                case 0 if len(of_session) > 1:
                    del of_session[place - 1]
                case 1:
                    of_session[place - 1] = chance.choice([b"b.", b"cc."])
                case _:
                    of_session.insert(place, b"%d." % chance.randrange(30))
        ref = await store.blobs.put_parts(of_session, session, chance.choice(["answer", "check"]))
        made[ref] = b"".join(of_session)
        assert await store.blobs.get(ref) == made[ref]
        match chance.randrange(5):
            case 0:  # its fact is refused
                with pytest.raises(VersionConflict):
                    await store.log.append("config", naming(ref), expected_version=9999)
                store.blobs.named(ref)
                if ref not in await store.blobs.there([ref]):
                    del made[ref]
            case 1:
                await store.name(ref)
                await store.log.close()
                store = await opened(tmp_path)
            case _:
                await store.name(ref)
    for ref, whole in made.items():
        assert await store.blobs.get(ref) == whole
    await store.log.close()


async def test_sessions_have_no_part_in_common_and_its_key_tells_no_text(store: Opened) -> None:
    for session in (ONE, OTHER, ONE):
        for parts in ([b"the same text"], [b"the same text", b"!"]):
            ref = await store.request(parts, session)
            assert await store.blobs.get(ref) == b"".join(parts)
    keys = store.rows("SELECT key FROM parts WHERE content = CAST('the same text' AS BLOB)")

    assert len(set(keys)) == 2
    assert len(store.rows("SELECT * FROM contents")) == 4
    assert (hashlib.sha256(b"the same text").digest(),) not in keys


async def test_a_request_with_a_large_part_is_a_file(store: Opened) -> None:
    ref = await store.request([b"system", b"x" * (MOST_OF_A_PART + 1)])
    assert store.rows("SELECT * FROM parts") == []
    assert len(await store.files.get(ref)) == MOST_OF_A_PART + 7


async def test_a_request_whose_part_is_gone_is_damage(store: Opened) -> None:
    ref = await store.request(conversation(3))
    with closing(sqlite3.connect(store.folder / "ozzie.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM parts WHERE id = 2")
    with pytest.raises(DamagedStore, match=r"Parts of the blob sha256:\w+ are missing"):
        await store.blobs.get(ref)


async def test_a_changed_part_is_found(store: Opened) -> None:
    ref = await store.request(conversation(3))
    with closing(sqlite3.connect(store.folder / "ozzie.db", isolation_level=None)) as connection:
        connection.execute("UPDATE parts SET content = x'00' WHERE id = 2")
    with pytest.raises(DamagedStore, match="is not what was put there"):
        await store.blobs.get(ref)


@pytest.mark.parametrize(
    "parts",
    [
        "",
        "null",
        "[]",
        '{"new":["x"]}',
        '{"new":[1],"keep":9}',
        '{"new":[1],"keep":-1}',
        '{"new":[1180591620717411303424]}',
    ],
)
async def test_a_forged_list_is_damage_and_nothing_else(store: Opened, parts: str) -> None:
    ref = await store.request(conversation(3))
    with closing(sqlite3.connect(store.folder / "ozzie.db", isolation_level=None)) as connection:
        connection.execute("UPDATE contents SET parts = ?", (parts,))
    with pytest.raises(DamagedStore):
        await store.blobs.get(ref)


@pytest.mark.parametrize("scope", [1, 2])
async def test_of_two_sessions_with_a_content_the_whole_one_is_read_and_the_other_found(
    store: Opened, scope: int
) -> None:
    refs = {await store.request(conversation(3), session) for session in (ONE, OTHER)}
    (ref,) = refs
    with closing(sqlite3.connect(store.folder / "ozzie.db", isolation_level=None)) as connection:
        connection.execute("UPDATE parts SET content = zeroblob(3) WHERE scope = ?", (scope,))
        faults, count = checks._rows(connection)

    assert await store.blobs.get(ref) == b"".join(conversation(3))
    assert (len(faults), count) == (1, 2)
