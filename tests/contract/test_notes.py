"""Notes of the agent: kept with the outcome of the call or not at all, by version, with no secret in them."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.artifacts.erasing import Eraser
from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.events import (
    ArtifactCreated,
    EventBody,
    SessionForked,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    ToolUse,
)
from ozzie_server_ext.domain.ids import BlobRef, CallId, SessionId, TaskId, session_stream
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.policy.decision import Reading
from ozzie_server_ext.policy.engine import FixedRulings
from ozzie_server_ext.store.blobs import BlobStore, InMemoryBlobs
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.broker import CallPosition
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.builtin.notes import MAX_BYTES, MAX_NOTES
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.brokers import broker_of
from tests.replay.histories import draft, session_created

SESSION = SessionId("sess_1")
TASK = TaskId("t")
KEY = "sk-ant-api03-" + "aB3dE5" * 15
KNOWN = "what this gateway calls a provider with"


class Desk:
    """The one gate to the tools, over a log; each call in a session."""

    def __init__(self, log: EventLog, blobs: BlobStore) -> None:
        self.log = log
        self.blobs = blobs
        self.ids = CountingIds()
        self.clock = FakeClock()
        self.artifacts = ArtifactStore(log, blobs, self.ids)
        self.eraser = Eraser(log, blobs, self.artifacts)
        self.registry = ToolRegistry(builtin_tools())
        self._calls = 0

    async def call(self, tool: str, session: SessionId = SESSION, **args: str) -> tuple[EventBody, ...]:
        """What is recorded of a call."""
        self._calls += 1
        after = (await self.log.head()).position
        broker = broker_of(
            self.registry, FixedRulings(), self.artifacts, self.clock, self.ids, known_secrets=lambda: [KNOWN]
        )
        recorder = Recorder(log=self.log, session_id=session, task_id=TASK)
        reading = Reading(content=Content.of(Label.WEB, ["a.b"]))
        context = ToolContext(Path("/"), self.clock, artifacts=self.artifacts.of(session), reading=reading)
        use = ToolUse(call_id=CallId("u"), name=tool, arguments=json.dumps(args))
        assert await broker.call(use, CallPosition(round=self._calls, index=0), context, recorder) is None
        return tuple(event.body for event in await self.log.read(after=after))

    async def write(self, name: str, text: str, session: SessionId = SESSION) -> Mapping[str, Any]:
        return told((await self.call("write_note", session, name=name, text=text))[-1])

    async def read(self, name: str = "", session: SessionId = SESSION) -> Mapping[str, Any]:
        return told((await self.call("read_note", session, name=name))[-1])

    async def names(self, session: SessionId = SESSION) -> list[str]:
        return [note["name"] for note in (await self.read(session=session))["notes"]]

    async def refusal(self, tool: str, *, name: str, text: str = "") -> str:
        writing = self.call(tool, name=name, text=text) if tool == "write_note" else self.call(tool, name=name)
        *_, failed = await writing
        assert isinstance(failed, ToolCallFailed)
        return failed.message

    async def fork(self, child: SessionId, parent: SessionId) -> None:
        await self.log.append(session_stream(child), [draft(session_created(child), session_id=child)])
        fact = SessionForked(parent=parent, position=(await self.log.head()).position)
        await self.log.append(session_stream(child), [draft(fact, session_id=child)])


def told(outcome: EventBody) -> Mapping[str, Any]:
    assert isinstance(outcome, ToolCallCompleted), outcome
    assert isinstance(outcome.data, dict)
    return outcome.data


@pytest.fixture
def desk(log: EventLog, blobs: BlobStore) -> Desk:
    return Desk(log, blobs)


async def test_a_note_is_kept_without_asking_and_read_again_also_by_who_opens_the_log_anew(desk: Desk) -> None:
    assert await desk.write("plan", "1. größe\n2. b\n") == {"name": "plan", "bytes": 16, "changed": True}

    again = Desk(desk.log, desk.blobs)
    found = await again.read("plan")
    assert (found["name"], found["text"], found["lines"], found["next"]) == ("plan", "1. größe\n2. b\n", 2, None)


async def test_it_is_an_artifact_with_a_version_for_each_writing_and_the_labels_of_its_call(desk: Desk) -> None:
    await desk.write("plan", "first")
    *_, completed = await desk.call("write_note", name="plan", text="second")

    new, old = await desk.artifacts.list()
    assert isinstance(completed, ToolCallCompleted)
    assert completed.artifacts == (new.artifact_id,)
    assert (new.name, new.kind, new.mime, new.version) == ("notes/plan.md", "markdown", "text/markdown", 2)
    assert (new.labels, new.sources, new.call_id) == (("web",), ("web:a.b",), completed.call_id)
    assert old.superseded_by == new.artifact_id
    assert await desk.artifacts.content(old) == b"first"


async def test_outcome_and_note_are_one_append_behind_the_intent(desk: Desk) -> None:
    bodies = await desk.call("write_note", name="plan", text="x")

    started, created, completed = bodies[-3:]
    assert isinstance(started, ToolCallStarted)
    assert isinstance(created, ArtifactCreated)
    assert isinstance(completed, ToolCallCompleted)
    assert started.effect == {
        "note": "plan",
        "sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    }
    # A call that has no outcome kept nothing, so it may be made again.
    tool = desk.registry.find("write_note")
    assert tool is not None
    assert await tool.happened(started.effect or {}, ToolContext(Path("/"), desk.clock)) is False


@pytest.mark.parametrize("text", ["the same", "", f"a key: {KEY}"])
async def test_writing_the_same_twice_is_writing_it_once(desk: Desk, text: str) -> None:
    first, second = await desk.write("plan", text), await desk.write("plan", text)

    assert (first["changed"], second["changed"]) == (True, False)
    assert len(await desk.artifacts.list()) == 1


async def test_reading_twice_is_reading_once(desk: Desk) -> None:
    await desk.write("plan", "x")

    assert await desk.read("plan") == await desk.read("plan")
    assert await desk.read() == await desk.read()
    assert len(await desk.artifacts.list()) == 1


async def test_nothing_secret_is_kept(desk: Desk) -> None:
    await desk.write("plan", f"key: {KEY}\nand {KNOWN}\n")

    (artifact,) = await desk.artifacts.list()
    content = (await desk.artifacts.content(artifact)).decode()
    assert KEY not in content
    assert KNOWN not in content
    assert content.count("[redacted: ") == 2
    assert "[redacted: " in (await desk.read("plan"))["text"]


async def test_the_list_tells_names_sizes_and_ages(desk: Desk) -> None:
    await desk.write("b", "12345")
    desk.clock.advance(timedelta(days=3).total_seconds())
    await desk.write("a", "1")
    (noted, other) = (await desk.read())["notes"]

    assert (noted["name"], noted["bytes"], other["name"], other["bytes"]) == ("a", 1, "b", 5)


async def test_the_age_is_told_in_minutes_hours_and_days() -> None:
    log = InMemoryEventLog(clock := FakeClock(), CountingIds())
    desk = Desk(log, InMemoryBlobs())
    desk.clock = clock
    await desk.write("a", "x")
    ages: list[str] = []
    for hours in (0.5, 1, 40, 10):
        clock.advance(hours * 3600)
        ages += [note["age"] for note in (await desk.read())["notes"]]

    assert ages == ["30 min", "90 min", "41 h", "2 days"]


async def test_a_long_note_is_read_to_its_end_page_by_page(desk: Desk) -> None:
    text = "".join(f"line {number}\n" for number in range(4000))
    await desk.write("long", text)

    page = await desk.read("long")
    assert "read_artifact" in page["note"]
    read = page["text"]
    for _ in range(10):
        if page["next"] is None:
            break
        args = {"artifact_id": page["artifact_id"], **page["next"]}
        page = told((await desk.call("read_artifact", **args))[-1])
        read += page["text"]
    assert read == text


@pytest.mark.parametrize("name", ["", " ", "a/b", "../x", "a\nb", ".hidden", "-", "x\x1b[2J"])
async def test_a_name_is_a_plain_one(desk: Desk, name: str) -> None:
    assert "A note's name has letters" in await desk.refusal("write_note", name=name, text="x")
    assert await desk.artifacts.list() == []


@pytest.mark.parametrize("name", ["plan", "Offene Fragen", "v1.2 of it", "a-b", "größe", "数据"])
async def test_words_are_names(desk: Desk, name: str) -> None:
    await desk.write(name, "x")
    assert await desk.names() == [name]


async def test_how_long_and_how_many_they_are_is_bounded(desk: Desk) -> None:
    assert "at most 64,000 are kept" in await desk.refusal("write_note", name="a", text="ü" * (MAX_BYTES // 2 + 1))
    assert "do not fit" in await desk.refusal("write_note", name="a", text="x" * (MAX_BYTES + 1))
    assert (await desk.write("000", "ü" * (MAX_BYTES // 2)))["bytes"] == MAX_BYTES
    for number in range(1, MAX_NOTES):
        await desk.write(f"{number:03}", "x")

    assert f"There are {MAX_NOTES} notes already" in await desk.refusal("write_note", name="new", text="x")
    assert (await desk.write("001", "changed"))["changed"]
    first = next(item for item in await desk.artifacts.list(limit=500) if item.name == "notes/002.md")
    await desk.eraser.erase(first.artifact_id, "Ana")
    assert (await desk.write("new", "x"))["changed"], "an erased one makes room"


async def test_one_that_there_is_not_is_told_with_how_to_list_them(desk: Desk) -> None:
    """And not with their names: they may be from outside, and a failure bears no label."""
    await desk.write("a", "x")

    said = await desk.refusal("read_note", name="plan")

    assert said == "There is no note `plan`. To list all notes, leave the name empty."


async def test_another_session_has_notes_of_its_own(desk: Desk) -> None:
    await desk.write("plan", "mine")

    other = SessionId("sess_2")
    assert await desk.names(other) == []
    await desk.write("plan", "theirs", other)
    assert (await desk.read("plan"))["text"] == "mine"


async def test_a_fork_has_its_parents_notes_as_they_were_and_goes_its_own_way(desk: Desk) -> None:
    old, mid, new = SessionId("sess_old"), SessionId("sess_mid"), SessionId("sess_new")
    await desk.write("plan", "before", old)
    await desk.write("kept", "kept", old)
    await desk.fork(mid, old)
    await desk.write("plan", "after", old)
    await desk.write("later", "x", old)
    await desk.write("own", "mid", mid)
    await desk.fork(new, mid)
    await desk.write("plan", "changed", new)

    async def all_of(session: SessionId) -> dict[str, str]:
        return {name: (await desk.read(name, session))["text"] for name in await desk.names(session)}

    assert await all_of(old) == {"kept": "kept", "later": "x", "plan": "after"}
    assert await all_of(mid) == {"kept": "kept", "own": "mid", "plan": "before"}
    assert await all_of(new) == {"kept": "kept", "own": "mid", "plan": "changed"}
    assert not (await desk.write("kept", "kept", new))["changed"]


async def test_a_note_that_a_person_erased_is_there_no_more_and_can_be_written_again(desk: Desk) -> None:
    await desk.write("plan", "x")
    (artifact,) = await desk.artifacts.list()
    await desk.eraser.erase(artifact.artifact_id, "Ana")

    assert await desk.names() == []
    assert (await desk.write("plan", "x"))["changed"]
    assert (await desk.artifacts.list())[0].version == 2


class Full(InMemoryBlobs):
    async def put(self, content: bytes) -> BlobRef:
        raise Unavailable("The disk is full.")


async def test_where_it_can_not_be_kept_nothing_was_done_and_the_model_is_told(log: EventLog) -> None:
    desk = Desk(log, Full())

    *_, failed = await desk.call("write_note", name="plan", text="x")

    assert isinstance(failed, ToolCallFailed)
    assert failed.message == "The disk is full."
    assert await desk.artifacts.list() == []
