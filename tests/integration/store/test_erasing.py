"""Erasing sessions and messages in the database (`store.erasing`): what goes, what stays, and that it is said."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.errors import Conflict, Gone, NotFound, Unavailable
from ozzie_server_ext.domain.events import (
    ConversationCompacted,
    Draft,
    Erased,
    EventBody,
    LabelsCleared,
    MessageErased,
    SessionErased,
    SessionForked,
    SessionModelChosen,
    SessionMoved,
    SessionRenamed,
    SessionResumed,
    TaskCancelled,
    TaskCreated,
    TaskQueued,
    TaskStarted,
    TaskSucceeded,
    ToolCallCompleted,
)
from ozzie_server_ext.domain.ids import BlobRef, CallId, MessageId, SessionId, TaskId, session_stream, task_stream
from ozzie_server_ext.domain.tasks import OPEN
from ozzie_server_ext.domain.terms import _known_terms, phrases
from ozzie_server_ext.observability.clock import FakeClock, UlidSource
from ozzie_server_ext.store import search
from ozzie_server_ext.store.anchor import AnchorFiles
from ozzie_server_ext.store.blobs import FileBlobs, digest_of
from ozzie_server_ext.store.checks import check_deeply
from ozzie_server_ext.store.contents import DatabaseBlobs
from ozzie_server_ext.store.database import open_readable
from ozzie_server_ext.store.documents import Wanted
from ozzie_server_ext.store.erasing import Target
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.histories import (
    Histories,
    call_completed,
    call_started,
    completed,
    draft,
    received,
    session_created,
    task_created,
)

SESSION, FORK, OTHER = (SessionId(f"sess_01{letter * 24}") for letter in "ABC")
PLANTED = "the-planted-words"
LASTING = ("budgets", "usage")


class Home:
    """A log with blobs, and turns that are sent and answered in it."""

    def __init__(self, folder: Path, log: SqliteEventLog) -> None:
        self.folder = folder
        self.log = log
        self.blobs = DatabaseBlobs(log, FileBlobs(folder / "blobs"))
        self._turns = 0
        self._said: dict[SessionId, list[bytes]] = {}

    async def begin(self, session_id: SessionId, *more: EventBody) -> None:
        bodies = (session_created(f"key {session_id}"), *more)
        await self.log.append(session_stream(session_id), [draft(body, session_id=session_id) for body in bodies])

    async def fork(self, parent: SessionId, session_id: SessionId) -> None:
        await self.begin(session_id, SessionForked(parent=parent, position=(await self.log.head()).position))
        self._said[session_id] = list(self._said.get(parent, []))

    async def say(self, session_id: SessionId, text: str, **more: Any) -> "Turn":
        """One turn with a model call, whose request repeats what was said before."""
        return await self.end(await self.start(session_id, text, **more))

    async def start(
        self, session_id: SessionId, text: str, *, parent: TaskId | None = None, labels: tuple[str, ...] = ()
    ) -> "Turn":
        self._turns += 1
        turn = Turn(session_id, TaskId(f"01{self._turns:024d}"), MessageId(f"01M{self._turns:023d}"))
        said = self._said.setdefault(session_id, [b"the prompt"])
        said.append(text.encode())
        request = await self.blobs.put_parts(said, session_id, "answer")
        call = f"call{self._turns}"
        started = msgspec.structs.replace(
            call_started(call, reserved=(500, 50)), request_blob=request, reply_id=f"reply{self._turns}"
        )
        created = msgspec.structs.replace(task_created(text), message_id=turn.message_id, parent=parent)
        await self.record(
            turn,
            received(text, message_id=turn.message_id),
            created,
            TaskQueued(reason="created"),
            TaskStarted(attempt=1, epoch="e"),
            started,
            labels=labels,
        )
        self.blobs.named(request)
        answer = f"answer to {text}".encode()
        response = await self.blobs.put_parts([answer], session_id)
        await self.record(
            turn,
            msgspec.structs.replace(call_completed(call), response_blob=response),
            completed(f"reply{self._turns}", answer.decode()),
            labels=labels,
        )
        self.blobs.named(response)
        said.append(answer)
        return msgspec.structs.replace(turn, request=request, response=response)

    async def end(self, turn: "Turn") -> "Turn":
        await self.record(turn, TaskSucceeded(rounds=1))
        return turn

    async def record(self, turn: "Turn", *bodies: EventBody, labels: tuple[str, ...] = ()) -> None:
        sources = tuple(f"{label}:somewhere" for label in labels)
        plain = [draft(body, session_id=turn.session_id, task_id=turn.task_id, labels=labels) for body in bodies]
        drafts = [each._replace(sources=sources) for each in plain]
        await self.log.append(task_stream(turn.task_id), drafts)

    async def erase(self, session_id: SessionId, message_id: MessageId | None = None) -> Any:
        return (await self.log.erase(Target("ana", session_id, message_id))).body

    async def lasting(self) -> dict[str, Any]:
        """The use of all but tasks, which lasts whatever is erased."""
        found = {table: await self.log.rows(table) for table in LASTING}
        found["budgets"] = [row for row in found["budgets"] if row["scope"] in ("project", "day")]
        return found

    def bytes(self) -> bytes:
        """Everything on the disk."""
        return b"".join(path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file())

    async def expect_sound(self) -> None:
        live = await self.log.dump()
        assert await self.log.rebuild() == live
        verified = await self.log.verify()
        assert verified.ok, verified.reason


class Turn(msgspec.Struct, frozen=True):
    session_id: SessionId
    task_id: TaskId
    message_id: MessageId
    request: BlobRef = BlobRef("")
    response: BlobRef = BlobRef("")


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    folder = tmp_path / "data"
    log = await SqliteEventLog.open(folder / "ozzie.db", clock=FakeClock(), ids=UlidSource())
    yield Home(folder, log)
    await log.close()


async def test_nothing_that_was_said_in_an_erased_session_is_on_the_disk(home: Home) -> None:
    await home.begin(SESSION)
    await home.begin(OTHER)
    for number in range(30):
        await home.say(SESSION, f"{PLANTED} {number}")
        await home.say(OTHER, f"other words {number}")
    assert PLANTED.encode() in home.bytes()

    fact = await home.erase(SESSION)
    await home.log.write_anew()

    assert isinstance(fact, SessionErased)
    assert (fact.by, fact.forks) == ("ana", ())
    assert PLANTED.encode() not in home.bytes()
    assert b"other words 29" in home.bytes()
    await home.expect_sound()
    with closing(open_readable(home.folder / "ozzie.db")) as connection:
        assert connection.execute("SELECT count(*) FROM part_scopes").fetchone() == (1,)


@pytest.mark.parametrize("fts5", [True, False], ids=["fts5", "fts4"])
async def test_the_words_of_an_erased_turn_are_not_in_the_search_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fts5: bool
) -> None:
    """The index has stems in small letters, of which it may store only what differs from the one before."""
    monkeypatch.setattr(search, "create", partial(search.create, fts5=fts5))
    log = await SqliteEventLog.open(tmp_path / "data" / "ozzie.db", clock=FakeClock(), ids=UlidSource())
    home, wanted = Home(tmp_path / "data", log), Wanted(phrases=tuple(phrases("ZUBROWKAQXJV")))
    await home.begin(SESSION)
    turn = await home.say(SESSION, "Zubrowkaqxjv, please")
    await home.say(SESSION, "the later words")
    assert (await log.search(wanted)).count == 2
    assert b"browkaqxjv" in home.bytes()

    await home.erase(SESSION, turn.message_id)
    await log.write_anew()

    assert _known_terms.cache_info().currsize == 0
    assert (await log.search(wanted)).count == 0
    assert b"owkaqxj" not in home.bytes()
    assert (await log.search(Wanted(phrases=tuple(phrases("later"))))).count == 2
    await log.close()


async def test_the_index_without_an_erased_session_is_as_one_made_anew(home: Home) -> None:
    def indexed() -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(home.folder / "ozzie.db")) as connection:
            connection.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, search, instance)")
            return sorted(connection.execute("SELECT term, doc, col, offset FROM temp.words"))

    await home.begin(SESSION)
    await home.begin(OTHER)
    for number in range(20):
        await home.say(SESSION, f"getUserName {number} größer 学习资料")
        await home.say(OTHER, f"words {number} of 学习")
    before = indexed()

    await home.erase(SESSION)
    await home.log.write_anew()
    after = indexed()
    await home.log.rebuild()

    assert 0 < len(after) < len(before)
    assert after == indexed()


async def test_nothing_of_an_erased_turn_is_on_the_disk_and_the_others_stay(home: Home) -> None:
    await home.begin(SESSION)
    first = await home.say(SESSION, "the first words")
    turn = await home.say(SESSION, PLANTED)
    later = await home.say(SESSION, "the later words")

    fact = await home.erase(SESSION, turn.message_id)
    await home.log.write_anew()

    assert isinstance(fact, MessageErased)
    assert PLANTED.encode() not in home.bytes()
    assert await home.blobs.get(first.request) == b"the prompt" + b"the first words"
    assert await home.blobs.get(later.response) == b"answer to the later words"
    with pytest.raises(NotFound):
        await home.blobs.get(later.request)
    assert [row["text"] for row in await home.log.rows("messages", order_by="position")] == [
        "the first words",
        "answer to the first words",
        "the later words",
        "answer to the later words",
    ]
    await home.expect_sound()


async def test_a_turn_is_erased_with_all_that_it_delegated_whichever_message_is_named(home: Home) -> None:
    await home.begin(SESSION)
    turn = await home.start(SESSION, PLANTED)
    delegated = await home.say(SESSION, f"{PLANTED} delegated", parent=turn.task_id)
    await home.end(turn)
    (answer,) = await home.log.rows("messages", where={"role": "assistant", "task_id": turn.task_id})

    await home.erase(SESSION, MessageId(str(answer["message_id"])))
    await home.log.write_anew()

    assert PLANTED.encode() not in home.bytes()
    assert await home.log.read(task_id=delegated.task_id) == ()
    await home.expect_sound()


async def test_summaries_with_the_turn_go_too(home: Home) -> None:
    await home.begin(SESSION)
    turn = await home.say(SESSION, "words")
    summary = ConversationCompacted(
        call_id=CallId("s"), through=turn.task_id, text=f"A summary of {PLANTED}", turns=1, messages=2
    )
    await home.record(await home.say(SESSION, "later"), summary)

    await home.erase(SESSION, turn.message_id)
    await home.log.write_anew()

    assert PLANTED.encode() not in home.bytes()
    await home.expect_sound()


@pytest.mark.parametrize("purpose", ["answer", "summary"])
async def test_what_a_model_said_of_the_turn_for_another_purpose_than_to_answer_goes_too(
    home: Home, purpose: str
) -> None:
    await home.begin(SESSION)
    turn = await home.say(SESSION, "words")
    later = await home.start(SESSION, "later")
    request = await home.blobs.put_parts([f"summarize {PLANTED}".encode()], SESSION, purpose)
    started = msgspec.structs.replace(
        call_started("summary", reserved=(0, 0)), request_blob=request, purpose=purpose, reply_id=""
    )
    response = await home.blobs.put_parts([b"it said this"], SESSION)
    ended = msgspec.structs.replace(call_completed("summary"), response_blob=response)
    await home.record(later, started, ended, TaskSucceeded(rounds=1))
    for ref in (request, response):
        home.blobs.named(ref)

    await home.erase(SESSION, turn.message_id)
    await home.log.write_anew()

    assert PLANTED.encode() not in home.bytes()
    assert (b"it said this" in home.bytes()) is (purpose == "answer")
    await home.expect_sound()


async def test_a_content_stays_as_long_as_another_session_needs_it_wherever_it_is_stored(home: Home) -> None:
    await home.begin(SESSION)
    await home.begin(OTHER)
    put = [await home.blobs.put_parts([b"the prompt", b"the same words"], each, "answer") for each in (SESSION, OTHER)]
    first = await home.say(SESSION, "the same words")
    second = await home.say(OTHER, "the same words")
    assert {first.request, second.request, *put} == {first.request}
    with closing(open_readable(home.folder / "ozzie.db")) as connection:
        count = "SELECT count(*) FROM contents WHERE hash = ?"
        assert connection.execute(count, (digest_of(first.request),)).fetchone() == (1,)

    await home.erase(SESSION)
    assert await home.blobs.get(second.request) == b"the promptthe same words"
    await home.expect_sound()

    await home.erase(OTHER)
    await home.log.write_anew()
    assert b"the same words" not in home.bytes()


@pytest.mark.parametrize("what", ["the session", "the turn"])
async def test_forks_lose_the_history_and_the_requests_that_repeated_it(home: Home, what: str) -> None:
    await home.begin(SESSION)
    turn = await home.say(SESSION, PLANTED)
    await home.fork(SESSION, FORK)
    own = await home.say(FORK, "words of the fork")

    fact = await home.erase(SESSION, turn.message_id if what == "the turn" else None)
    await home.log.write_anew()

    assert fact.forks == (FORK,)
    assert await home.log.repeating_blobs() == {own.request: 1}
    assert PLANTED.encode() not in home.bytes()
    assert await home.blobs.get(own.response) == b"answer to words of the fork"
    await home.expect_sound()


async def test_forks_keep_the_model_that_they_have_from_the_session(home: Home) -> None:
    await home.begin(SESSION, SessionModelChosen(model="sonnet", base_url="http://models"))
    await home.fork(SESSION, FORK)
    await home.fork(SESSION, OTHER)
    chosen = draft(SessionModelChosen(model="own"), session_id=OTHER)
    await home.log.append(session_stream(OTHER), [chosen])

    await home.erase(SESSION)

    rows = {row["session_id"]: row for row in await home.log.rows("sessions")}
    assert [rows[FORK][name] for name in ("chosen_model", "chosen_base_url")] == ["sonnet", "http://models"]
    assert rows[OTHER]["chosen_model"] == "own"
    await home.expect_sound()


async def test_forks_keep_that_their_beginning_was_cleared_of_its_labels(home: Home) -> None:
    cleared = LabelsCleared(by="ana", way=AuthStrength.CLI)
    await home.begin(SESSION, cleared, LabelsCleared(by="ana", way=AuthStrength.CLI, path="/notes/a.md"))
    await home.fork(SESSION, FORK)

    await home.erase(SESSION)

    assert (await home.log.read(session_id=SESSION))[0].body == cleared
    (mark,) = await home.log.rows("marks")
    assert mark["labels"] == "[]"


async def test_a_name_that_an_erased_session_had_taken_over_opens_who_has_it_by_now(home: Home) -> None:
    await home.begin(FORK)
    moved = SessionMoved(before="name", key="", project="", by="ana")
    for session_id, key, fact in ((OTHER, "name", None), (SESSION, "b", SessionResumed(key="name", by="ana"))):
        created = [session_created(key), *([] if fact is None else [fact, moved])]
        await home.log.append(session_stream(session_id), [draft(body, session_id=session_id) for body in created])
    newest = SessionId(f"sess_01{'D' * 24}")
    await home.log.append(session_stream(newest), [draft(session_created("name"), session_id=newest)])

    await home.erase(SESSION)

    assert [row["session_id"] for row in await home.log.rows("session_keys", where={"key": "name"})] == [newest]
    await home.expect_sound()


async def test_a_name_that_a_session_had_lost_does_not_come_back_to_it(home: Home) -> None:
    """A notebook would go on with a conversation that its user had left."""
    await home.begin(SESSION)
    await home.begin(OTHER, SessionResumed(key=f"key {SESSION}", by="ana"))

    await home.erase(OTHER)

    assert [row["key"] for row in await home.log.rows("sessions", where={"session_id": SESSION})] == [""]
    assert await home.log.rows("session_keys", where={"session_id": SESSION}) == []
    await home.expect_sound()


@pytest.mark.parametrize(
    "body",
    [
        SessionRenamed(title="t"),
        ConversationCompacted(call_id=CallId("s"), through=TaskId("t"), text=PLANTED, turns=1, messages=2),
        completed("reply", PLANTED),
    ],
    ids=lambda body: body.type,
)
async def test_an_erased_session_takes_nothing_any_more(home: Home, body: EventBody) -> None:
    await home.begin(SESSION)
    await home.erase(SESSION)
    with pytest.raises(Gone):
        await home.log.append(session_stream(SESSION), [draft(body, session_id=SESSION)])
    again = await SqliteEventLog.open(home.folder / "ozzie.db", clock=FakeClock(), ids=UlidSource())
    with pytest.raises(Gone):
        await again.append(session_stream(SESSION), [draft(body, session_id=SESSION)])
    await again.close()


async def test_nothing_begins_in_an_erased_session(home: Home) -> None:
    """A message that waits for the erasure is refused."""
    await home.begin(SESSION)
    erased, refused = await asyncio.gather(home.erase(SESSION), home.start(SESSION, PLANTED), return_exceptions=True)
    assert isinstance(erased, SessionErased)
    assert isinstance(refused, Gone)
    assert str(refused) == "This session was erased on 2026-01-01."
    assert PLANTED.encode() not in home.bytes()


async def test_a_fork_from_before_the_turn_stays_whole(home: Home) -> None:
    await home.begin(SESSION)
    await home.say(SESSION, "first words")
    await home.fork(SESSION, FORK)
    own = await home.say(FORK, "words of the fork")
    turn = await home.say(SESSION, PLANTED)

    fact = await home.erase(SESSION, turn.message_id)

    assert fact.forks == ()
    assert b"first words" in await home.blobs.get(own.request)


async def test_what_was_used_stays_used(home: Home) -> None:
    await home.begin(SESSION)
    turn = await home.say(SESSION, PLANTED)
    await home.say(SESSION, "later")
    before, (session,) = await home.lasting(), await home.log.rows("sessions")

    await home.erase(SESSION, turn.message_id)
    assert await home.lasting() == before
    (after,) = await home.log.rows("sessions")
    used = ("input_tokens", "output_tokens", "cost", "cost_known")
    assert [after[name] for name in used] == [session[name] for name in used]
    assert (after["message_count"], after["title"]) == (2, session["title"])

    await home.erase(SESSION)
    assert await home.lasting() == before
    await home.expect_sound()


async def test_a_file_made_from_outside_content_stays_marked_also_if_it_is_not_there_now(home: Home) -> None:
    paths = ("/project/a.md", "/share/b.md")
    await home.begin(SESSION)
    turn = await home.say(SESSION, "write it")
    wrote = ToolCallCompleted(call_id=CallId("c"), ok=True, data=None, summary="", duration_ms=1.0, wrote=paths)
    await home.record(turn, wrote, labels=("web",))

    await home.erase(SESSION)

    found = await home.log.rows("marks", order_by="path")
    marks = [(mark["path"], mark["labels"], mark["sources"]) for mark in found]
    assert marks == [(path, '["web"]', '["web:somewhere"]') for path in paths]
    await home.expect_sound()


async def test_erased_events_keep_their_labels_for_readers_who_ask(home: Home) -> None:
    await home.begin(SESSION)
    turn = await home.say(SESSION, PLANTED, labels=("web",))
    await home.erase(SESSION, turn.message_id)

    assert all(event.type != "message.received" for event in await home.log.read(session_id=SESSION))
    events = await home.log.read(session_id=SESSION, task_id=turn.task_id, erased=True)
    assert {type(event.body) for event in events} == {Erased}
    assert events[0].labels == ("web",)


@pytest.mark.parametrize("where", ["session", "fork"])
async def test_nothing_is_erased_while_a_turn_runs_that_reads_it(home: Home, where: str) -> None:
    await home.begin(SESSION)
    turn = await home.say(SESSION, PLANTED)
    await home.fork(SESSION, FORK)
    running = await home.start(FORK if where == "fork" else SESSION, "running")
    before = await home.log.dump()
    for message_id in (None, turn.message_id):
        with pytest.raises(Conflict, match="A turn is not over that reads it"):
            await home.erase(SESSION, message_id)
    assert await home.log.dump() == before
    assert await home.log.uncleaned() == []

    await home.end(running)
    await home.erase(SESSION)


async def test_what_is_not_there_or_erased_is_said(home: Home) -> None:
    with pytest.raises(NotFound, match="There is no session"):
        await home.erase(OTHER)
    await home.begin(SESSION)
    with pytest.raises(NotFound, match="no message"):
        await home.log.session_of_message(MessageId("01M"))
    await home.erase(SESSION)
    with pytest.raises(Gone, match="was erased on 2026-01-01"):
        await home.erase(SESSION)


async def test_a_second_erasure_does_not_count_a_request_twice(home: Home) -> None:
    """Another session that sent the same request would lose it."""
    await home.begin(SESSION)
    first, second = await home.say(SESSION, "a"), await home.say(SESSION, "b")
    third = await home.say(SESSION, "c")
    await home.begin(OTHER)
    same = [await home.say(OTHER, text) for text in "abc"]
    assert same[-1].request == third.request
    for erased in (second, first):
        await home.erase(SESSION, erased.message_id)
        assert await home.log.repeating_blobs() == {third.request: 1}
        assert await home.blobs.get(third.request) == b"the promptaanswer to abanswer to bc"
    await home.erase(SESSION, third.message_id)
    assert await home.log.repeating_blobs() == {}
    assert await home.blobs.get(third.request) == b"the promptaanswer to abanswer to bc"
    await home.expect_sound()


async def test_a_file_is_not_written_anew_while_another_program_reads_it(home: Home) -> None:
    await home.begin(SESSION)
    await home.say(SESSION, PLANTED)
    with closing(open_readable(home.folder / "ozzie.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        await home.erase(SESSION)
        with pytest.raises(Unavailable, match="Another program is reading the log"):
            await home.log.write_anew()
        reader.execute("ROLLBACK")
    await home.log.write_anew()
    assert PLANTED.encode() not in home.bytes()


async def test_an_erased_home_is_checked_deeply_and_found_whole(home: Home, tmp_path: Path) -> None:
    await home.begin(SESSION)
    await home.begin(OTHER)
    turn = await home.say(SESSION, PLANTED)
    await home.say(SESSION, "later")
    await home.say(OTHER, "other")
    await home.erase(SESSION, turn.message_id)
    await home.erase(OTHER)

    files = AnchorFiles(home.folder, home.folder / "anchor.json", home.folder / "ozzie.db", tmp_path / "anchor.key")
    found = check_deeply(files, home.folder / "blobs")
    assert found.faults == ()
    assert found.note == ""


@pytest.mark.parametrize("seed", range(3))
async def test_after_any_erasure_the_tables_are_what_the_log_says(home: Home, seed: int) -> None:
    """The use by projects and days is what it was, and an erasure that is refused changes nothing."""
    source, dice = iter(Histories(seed)), random.Random(seed)
    refused = done = 0
    for number in range(12):
        for _ in range(25):
            stream, drafts = next(source)
            await append_if_it_may(home.log, stream, drafts)
        await change_sessions(home, dice, number)
        before, dump = await home.lasting(), await home.log.dump()
        if dice.random() < 0.3:
            sessions = await home.log.rows("sessions")
            target = Target("ana", SessionId(str(dice.choice(sessions)["session_id"])))
        else:
            tasks = {row["task_id"] for row in await home.log.rows("tasks")}
            message = dice.choice([row for row in await home.log.rows("messages") if row["task_id"] in tasks])
            target = Target("ana", SessionId(str(message["session_id"])), MessageId(str(message["message_id"])))
        if dice.random() < 0.7:
            await cancel_all(home.log)
            dump = await home.log.dump()
        try:
            await home.log.erase(target)
        except (Conflict, Gone):
            refused += 1
            assert await home.log.dump() == dump
        else:
            done += 1
        assert await home.lasting() == before
        await home.expect_sound()
    assert done
    assert refused


async def cancel_all(log: SqliteEventLog) -> None:
    for row in await log.rows("tasks", where={"status": [status.value for status in OPEN]}):
        cancelled = TaskCancelled(by="ana", reason="")
        task_id, session_id = TaskId(str(row["task_id"])), SessionId(str(row["session_id"]))
        await log.append(task_stream(task_id), [draft(cancelled, session_id=session_id, task_id=task_id)])


async def append_if_it_may(log: SqliteEventLog, stream: str, drafts: list[Draft]) -> None:
    """A history goes on with sessions and tasks that are erased by now: what it records of them is refused."""
    try:
        await log.append(stream, drafts)
    except Gone:
        pass
    except Conflict:
        assert not any(isinstance(each.body, TaskCreated) for each in drafts)


async def change_sessions(home: Home, dice: random.Random, number: int) -> None:
    """Fork a session, and change what another is called and which model it has."""
    sessions = [row for row in await home.log.rows("sessions") if row["status"] != "erased"]
    if not sessions:
        return
    parent, other = (dice.choice(sessions) for _ in range(2))
    fork = SessionId(f"sess_01F{number:023d}")
    await home.fork(SessionId(str(parent["session_id"])), fork)
    session_id = SessionId(str(other["session_id"]))
    before = str(other["key"])
    keys = [f"key {fork}", "a name", "another"]
    bodies = (
        SessionModelChosen(model=f"model {number}"),
        SessionMoved(before=before, key=dice.choice(keys), by="ana"),
        SessionResumed(key=dice.choice(keys), by="ana"),
        SessionMoved(before=dice.choice(keys), key="", by="ana"),
    )
    for body in dice.sample(bodies, 2):
        await home.log.append(session_stream(session_id), [draft(body, session_id=session_id)])
    with suppress(Conflict):
        created = draft(session_created(dice.choice(keys)), session_id=SessionId(f"sess_01K{number:023d}"))
        await home.log.append(session_stream(SessionId(f"sess_01K{number:023d}")), [created])
