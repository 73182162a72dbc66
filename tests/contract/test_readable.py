"""The log as files: what they say, and that they are the same however they came about (docs/readable-files.md)."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.events import (
    Origin,
    TaskFailed,
    TaskQueued,
    TaskRetried,
    TaskStarted,
    TaskUpdated,
    ToolCallCompleted,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import CallId, MessageId, TaskId, task_stream
from ozzie_server_ext.store import readable, readable_disk
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.readable import ReadableFiles
from ozzie_server_ext.store.readable_disk import note_of, renewal_of
from tests.replay.histories import (
    SESSION,
    TASK,
    call_completed,
    call_started,
    completed,
    draft,
    received,
    session_created,
    task_created,
    task_draft,
)

DAY = "2026-01-01"
STEP = TaskId("01CCCCCCCCCCCCCCCCCCCCCCCC")
ANA = Origin(channel="notebook", sender_id="ana", sender_name="Ana")
SUM = CallId("01DDDDDDDDDDDDDDDDDDDDDDDD")


async def written(log: EventLog, root: Path) -> dict[str, str]:
    """What the files say once all is written, by path, without the note."""
    (root / "data").mkdir(parents=True, exist_ok=True)
    await ReadableFiles(log, root).catch_up()
    return contents(root)


def contents(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path != note_of(root)
    }


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def a_turn(log: EventLog) -> None:
    await log.append(f"session:{SESSION}", [draft(session_created())])
    tool: Any = {"tool_id": "calculator", "name": "calculator", "version": "1"}
    use = ToolCallRequested(call_id=SUM, use_id="u", args={"expr": "2+2"}, round=1, index=0, **tool)
    facts = (
        replace(received("What is 2+2?"), origin=ANA),
        task_created(),
        call_started("01EEEEEEEEEEEEEEEEEEEEEEE1"),
        call_completed("01EEEEEEEEEEEEEEEEEEEEEEE1"),
        use,
        ToolCallCompleted(call_id=SUM, ok=True, data={"value": "4"}, summary="4", duration_ms=1.0),
        call_started("01EEEEEEEEEEEEEEEEEEEEEEE2"),
        call_completed("01EEEEEEEEEEEEEEEEEEEEEEE2"),
        completed("01FFFFFFFFFFFFFFFFFFFFFFF2", "4"),
    )
    await log.append(task_stream(TASK), [task_draft(fact) for fact in facts])


async def a_step(log: EventLog) -> None:
    facts = (replace(task_created(), parent=TASK, step="add"), received("Add them.", message_id=STEP))
    await log.append(task_stream(STEP), [task_draft(fact, task_id=STEP) for fact in facts])


async def test_a_session_is_there_with_its_messages(log: EventLog, tmp_path: Path) -> None:
    await a_turn(log)
    found = await written(log, tmp_path / "home")

    meta = json.loads(found[f"sessions/{SESSION}/meta.json"])
    assert list(meta) == [
        "id",
        "title",
        "created_at",
        "updated_at",
        "status",
        "model",
        "message_count",
        "token_usage",
        "cost",
    ]
    assert (meta["id"], meta["status"], meta["message_count"]) == (SESSION, "active", 2)
    assert lines(found["sessions/index.jsonl"]) == [meta]
    asked, answered = lines(found[f"sessions/{SESSION}/messages.jsonl"])
    assert asked == {"role": "user", "content": "What is 2+2?", "ts": asked["ts"]}
    assert answered == {
        "role": "assistant",
        "content": "4",
        "ts": answered["ts"],
        "tokens_in": answered["tokens_in"],
        "tokens_out": answered["tokens_out"],
        "tool_calls": [{"name": "calculator", "args": {"expr": "2+2"}, "result": {"value": "4"}}],
    }


async def test_a_day_has_all_its_events_and_a_diary(log: EventLog, tmp_path: Path) -> None:
    await a_turn(log)
    found = await written(log, tmp_path / "home")

    events = lines(found[f"events/{DAY}.jsonl"])
    assert [list(event) for event in events] == [["id", "session_id", "type", "ts", "source", "payload"]] * len(events)
    assert [event["type"] for event in events][:3] == ["session.created", "user.message", "task.created"]
    diary = found[f"logs/{DAY}.md"].splitlines()
    assert diary[0] == f"# {DAY}"
    assert [line.partition(": ")[2] for line in diary if line.startswith("- ")] == [
        "Ana: What is 2+2?",
        "calculator: 4",
        "Ozzie: 4",
    ]


async def test_what_a_step_was_given_is_no_message_of_the_session(log: EventLog, tmp_path: Path) -> None:
    await a_turn(log)
    await a_step(log)
    found = await written(log, tmp_path / "home")

    assert "Add them." not in found[f"sessions/{SESSION}/messages.jsonl"] + found[f"logs/{DAY}.md"]
    assert "Add them." in found[f"events/{DAY}.jsonl"]


async def test_hostile_text_is_no_markdown_of_the_diary(log: EventLog, tmp_path: Path) -> None:
    await log.append(f"session:{SESSION}", [draft(session_created())])
    hostile = "![x](http://evil.example/?q)\n# Heading\n<img src=x>\x1b[31m"
    await log.append(task_stream(TASK), [task_draft(received(hostile)), task_draft(task_created())])
    diary = (await written(log, tmp_path / "home"))[f"logs/{DAY}.md"]

    assert "![" not in diary
    assert "<img" not in diary
    assert "\x1b" not in diary
    assert [line for line in diary.splitlines() if line.startswith("#")] == [f"# {DAY}"]


async def test_written_piece_by_piece_or_at_once_they_are_the_same(log: EventLog, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    await a_turn(log)
    await written(log, one)
    await a_step(log)
    await written(log, one)
    await log.append(task_stream(TASK), [task_draft(completed("01FFFFFFFFFFFFFFFFFFFFFFF3", "And more."))])

    assert await written(log, one) == await written(log, other)


@pytest.mark.parametrize("harm", ["cut", "doubled", "gone", "garbage in the note"])
async def test_after_a_crash_what_later_events_touch_is_written_anew(log: EventLog, tmp_path: Path, harm: str) -> None:
    root = tmp_path / "home"
    await a_turn(log)
    whole = await written(log, root)
    note_of(root).unlink()
    if harm == "garbage in the note":
        note_of(root).write_text("{")
    for path in (root / "events" / f"{DAY}.jsonl", root / "sessions" / SESSION / "messages.jsonl"):
        text = path.read_text()
        path.unlink() if harm == "gone" else path.write_text({"cut": text[:-9], "doubled": text * 2}.get(harm, text))

    assert await written(log, root) == whole


async def test_a_follower_writes_the_same_files_however_many_events_come_at_once(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower takes new events from memory, and reads the rest where more came than it keeps."""
    monkeypatch.setattr(readable, "_PAGE", 4)
    one, other = tmp_path / "one", tmp_path / "other"
    (one / "data").mkdir(parents=True)
    follower = ReadableFiles(log, one)
    await a_turn(log)
    await follower.catch_up()
    await a_step(log)
    await follower.catch_up()
    for number in range(3, 9):
        await log.append(task_stream(TASK), [task_draft(completed(f"01FFFFFFFFFFFFFFFFFFFFFFF{number}", "More."))])
    await follower.catch_up()

    assert contents(one) == await written(log, other)


@pytest.mark.parametrize("most_bytes", [0, 3000, 1 << 20], ids=["nothing", "a part", "all"])
@pytest.mark.parametrize("at_once", [1, 4, 1000])
async def test_an_answer_has_its_calls_however_much_is_remembered_of_its_task(
    log: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int, at_once: int
) -> None:
    monkeypatch.setattr(readable, "_MOST_FRESH_BYTES", most_bytes)
    monkeypatch.setattr(readable, "_PAGE", at_once)
    one, other = tmp_path / "one", tmp_path / "other"
    (one / "data").mkdir(parents=True)
    follower = ReadableFiles(log, one)
    await a_turn(log)
    ends = (TaskFailed(kind="tool", code="c", message="m", hint=""), TaskRetried(by="ana", attempt=2))
    again = (call_started("01EEEEEEEEEEEEEEEEEEEEEEE3"), call_completed("01EEEEEEEEEEEEEEEEEEEEEEE3"))
    answers = [completed(f"01FFFFFFFFFFFFFFFFFFFFFFF{number}", "More.") for number in (3, 4)]
    for fact in (TaskQueued(reason="created"), TaskStarted(attempt=1, epoch="e"), *ends, *again, *answers):
        await follower.catch_up()
        await log.append(task_stream(TASK), [task_draft(fact)])
    await follower.catch_up()

    assert contents(one) == await written(log, other)
    _, first, second, third = lines(contents(one)[f"sessions/{SESSION}/messages.jsonl"])
    assert "tool_calls" in first
    assert "tokens_in" in second
    assert "tokens_in" not in third


async def test_what_a_step_only_read_is_in_the_events_and_not_in_the_diary(log: EventLog, tmp_path: Path) -> None:
    await a_turn(log)
    read = CallId("01DDDDDDDDDDDDDDDDDDDDDDD2")
    tool: Any = {"tool_id": "files.read", "name": "read_file", "version": "1"}
    facts = (
        ToolCallRequested(call_id=read, use_id="s", args={}, round=1, index=0, step_id="look", **tool),
        ToolCallCompleted(call_id=read, ok=True, data={"text": "x"}, summary="one line", duration_ms=1.0),
    )
    await log.append(task_stream(TASK), [task_draft(fact) for fact in facts])
    found = await written(log, tmp_path / "home")

    assert "one line" in found[f"events/{DAY}.jsonl"]
    assert "one line" not in found[f"logs/{DAY}.md"]
    assert "read_file" not in found[f"sessions/{SESSION}/messages.jsonl"]


async def test_an_update_that_is_passed_on_to_a_step_is_said_once(log: EventLog, tmp_path: Path) -> None:
    await a_turn(log)
    await a_step(log)
    update = TaskUpdated(text="In French.", by="ana", message_id=MessageId("01GGGGGGGGGGGGGGGGGGGGGGG1"))
    await log.append(task_stream(TASK), [task_draft(update)])
    await log.append(task_stream(STEP), [task_draft(update, task_id=STEP)])
    found = await written(log, tmp_path / "home")

    assert found[f"sessions/{SESSION}/messages.jsonl"].count("In French.") == 1
    assert found[f"logs/{DAY}.md"].count("In French.") == 1
    assert found[f"events/{DAY}.jsonl"].count("In French.") == 2


async def test_on_demand_they_are_written_anew(log: EventLog, tmp_path: Path) -> None:
    root = tmp_path / "home"
    await a_turn(log)
    whole = await written(log, root)
    (root / "events" / f"{DAY}.jsonl").write_text("changed by hand\n")
    assert await written(log, root) != whole, "they are copies"
    renewal_of(root).touch()

    assert await written(log, root) == whole
    assert not renewal_of(root).exists()


def test_the_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    batch = readable_disk.Batch()
    batch.lines[tmp_path / "events" / "a.jsonl"].append("{}")
    batch.whole[tmp_path / "sessions" / "s" / "meta.json"] = "{}"
    readable_disk.store(batch)

    modes = [path.stat().st_mode & 0o777 for path in sorted(tmp_path.rglob("*"))]
    assert set(modes) == {0o700, 0o600}
