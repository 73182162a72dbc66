"""What every event log promises of its projections (`store.log.EventLog`), over each adapter."""

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import Conflict, IllegalTransition, InputError
from ozzie_server_ext.domain.events import ArtifactSuperseded, SessionRenamed, TaskFailed, TaskRetried
from ozzie_server_ext.domain.ids import ArtifactId, SessionId
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.projector import TABLES
from tests.replay.histories import (
    SESSION,
    TASK,
    Histories,
    artifact_created,
    call_completed,
    call_failed,
    call_started,
    completed,
    draft,
    received,
    session_created,
    task_created,
    task_draft,
)
from tests.replay.stores import Store

STREAM = f"session:{SESSION}"
TASK_STREAM = f"task:{TASK}"


@pytest.mark.parametrize("seed", range(4))
async def test_projections_made_anew_equal_the_ones_kept_up_to_date(log: EventLog, seed: int) -> None:
    for stream, drafts in Histories(seed).take(150):
        await log.append(stream, drafts)
    live = await log.dump()
    assert live.count("\n") > 50
    assert await log.rebuild() == live
    assert await log.dump() == live
    assert (await log.verify()).ok


async def test_projections_go_on_after_they_were_made_anew(log: EventLog) -> None:
    history = Histories(9).take(120)
    for number, (stream, drafts) in enumerate(history):
        await log.append(stream, drafts)
        if number == 60:
            await log.rebuild()
    assert await log.dump() == await log.rebuild()


async def test_nothing_of_a_refused_append_stays_in_the_projections(log: EventLog) -> None:
    await log.append(TASK_STREAM, [task_draft(task_created()), task_draft(call_started("a"))])
    before = await log.dump()
    with pytest.raises(IllegalTransition):
        await log.append(TASK_STREAM, [task_draft(call_completed("a")), task_draft(task_created())])
    await log.append("other", [draft(call_started("b"), session_id=None)])
    assert before.splitlines()[-1] in await log.dump()
    assert await log.dump() == await log.rebuild()


async def test_a_session_sums_up_what_happened_in_it(log: EventLog) -> None:
    await log.append(STREAM, [draft(session_created())])
    await log.append(TASK_STREAM, [task_draft(received("hi")), task_draft(task_created())])
    calls = [call_started("a"), call_completed("a", tokens=10, cost=70), call_started("b", model="large")]
    await log.append(TASK_STREAM, [task_draft(body) for body in calls])
    (row,) = await log.rows("sessions")
    assert (row["message_count"], row["input_tokens"], row["output_tokens"], row["cost"]) == (1, 10, 20, 70)
    assert (row["model"], row["cost_known"], row["last_position"]) == ("large", 1, 6)
    await log.append(
        TASK_STREAM, [task_draft(call_completed("b", tokens=1, cost=None)), task_draft(completed("r", "x"))]
    )
    (row,) = await log.rows("sessions")
    assert (row["message_count"], row["cost"], row["cost_known"]) == (2, 70, 0)


async def test_usage_counts_each_model_and_day_apart(log: EventLog, store: Store) -> None:
    bodies = [call_started("a"), call_completed("a", cost=70), call_started("b"), call_failed("b", partial=True)]
    await log.append(TASK_STREAM, [draft(body) for body in bodies])
    store.clock.advance(timedelta(days=1).total_seconds())
    await log.append(TASK_STREAM, [draft(call_started("c", model="large")), draft(call_completed("c", cost=None))])
    first, second = await log.rows("usage", order_by="day")
    assert (first["day"], first["model"], first["calls"], first["failed_calls"]) == ("2026-01-01", "small", 2, 1)
    assert (first["cost"], first["unknown_price_calls"], first["input_tokens"]) == (70, 1, 10)
    assert (second["day"], second["model"], second["calls"]) == ("2026-01-02", "large", 1)
    assert (second["cost"], second["unknown_price_calls"]) == (0, 1)
    assert [row["status"] for row in await log.rows("model_calls")] == ["completed", "failed", "completed"]


async def test_rows_are_found_by_column_and_ordered(log: EventLog) -> None:
    for number, name in enumerate(["b", "a", "c"]):
        stream, session_id = f"session:sess_{name}", SessionId(f"sess_{name}")
        created = draft(session_created(f"key {name}"), session_id=session_id)
        title = draft(SessionRenamed(title=f"{number % 2}"), session_id=session_id)
        await log.append(stream, [created, title])

    async def names(**query: Any) -> list[str]:
        return [str(row["session_id"])[-1] for row in await log.rows("sessions", **query)]

    assert await names() == ["a", "b", "c"]
    assert await names(descending=True, limit=2) == ["c", "b"]
    assert await names(limit=1, offset=1) == ["b"]
    assert await names(order_by="title") == ["b", "c", "a"]
    assert await names(order_by="last_position", descending=True) == ["c", "a", "b"]
    assert await names(where={"key": "key a"}) == ["a"]
    assert await names(where={"title": ["0", "9"], "message_count": 0}) == ["b", "c"]
    assert await names(where={"session_id": []}) == []
    assert await names(where={"key": None}) == []


async def test_rows_without_a_value_are_found(log: EventLog) -> None:
    await log.append("s", [draft(received("a"), session_id=None), draft(received("b", message_id="other"))])
    assert [row["text"] for row in await log.rows("messages", where={"session_id": None})] == ["a"]
    assert [row["text"] for row in await log.rows("messages", where={"session_id": [None, SESSION]})] == ["a", "b"]
    assert [row["text"] for row in await log.rows("messages", order_by="session_id")] == ["a", "b"]


@pytest.mark.parametrize(
    ("table", "query"),
    [
        ("events", {}),
        ("tasks; DROP TABLE events", {}),
        ("tasks", {"where": {"nothing": 1}}),
        ("tasks", {"where": {"title": 1}}),
        ("tasks", {"where": {"title": {"a": 1}}}),
        ("tasks", {"order_by": "title; DROP TABLE events"}),
        ("tasks", {"limit": -1}),
    ],
)
async def test_only_declared_tables_and_columns_can_be_asked_for(
    log: EventLog, table: str, query: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        await log.rows(table, **query)


async def test_a_row_that_was_read_is_the_readers_own(log: EventLog) -> None:
    await log.append(STREAM, [draft(session_created())])
    (row,) = await log.rows("sessions")
    row["title"] = "changed"
    (again,) = await log.rows("sessions")
    assert again["title"] == "Notebook"


async def test_a_row_is_found_by_its_key_as_it_was_last_recorded(log: EventLog) -> None:
    for stream, drafts in Histories(3).take(150):
        with contextlib.suppress(Conflict):
            await log.append(stream, drafts)
        for table in ("tasks", "sessions"):
            key = TABLES[table].key[0]
            for row in await log.rows(table, limit=3, descending=True):
                assert await log.row(table, str(row[key])) == row
    await log.rebuild()
    (row, *_) = await log.rows("sessions")
    assert await log.row("sessions", str(row["session_id"])) == row
    found = await log.row("sessions", str(row["session_id"]))
    assert found is not None
    found["title"] = "changed by who read it"
    assert await log.row("sessions", str(row["session_id"])) == row
    assert await log.row("tasks", "there is none") is None
    with pytest.raises(InputError):
        await log.row("nothing", "a")


async def test_a_refused_append_leaves_its_rows_as_they_were(log: EventLog) -> None:
    await log.append(TASK_STREAM, [task_draft(task_created()), task_draft(call_started("a"))])
    before = await log.row("tasks", TASK)
    with pytest.raises(IllegalTransition):
        await log.append(TASK_STREAM, [task_draft(call_completed("a")), task_draft(task_created())])

    assert await log.row("tasks", TASK) == before


async def test_the_dump_has_every_table(log: EventLog) -> None:
    assert [line for line in (await log.dump()).splitlines() if line.startswith("# ")] == [
        f"# {name}" for name in TABLES
    ]


async def test_a_failed_task_says_why_until_it_is_tried_again(log: EventLog) -> None:
    failure = TaskFailed(kind="model", code="model.down", message="gone", hint="wait")
    await log.append(TASK_STREAM, [task_draft(task_created()), task_draft(failure)])
    (row,) = await log.rows("tasks")
    error = [row[f"error_{part}"] for part in ("kind", "code", "message", "hint")]
    assert (row["status"], error) == ("FAILED", ["model", "model.down", "gone", "wait"])
    assert row["finished_at"] == row["updated_at"]
    await log.append(TASK_STREAM, [task_draft(TaskRetried(by="user", attempt=2))])
    (row,) = await log.rows("tasks")
    assert (row["status"], row["attempt"], row["error_code"], row["finished_at"]) == ("QUEUED", 2, None, None)


async def test_a_message_keeps_text_finish_and_labels(log: EventLog) -> None:
    await log.append(TASK_STREAM, [draft(received("größe"), task_id=TASK)])
    await log.append(TASK_STREAM, [draft(completed("r", "a\nb"), task_id=TASK, labels=("web", "file"))])
    first, second = await log.rows("messages", order_by="position")
    assert (first["role"], first["text"], first["finish"], first["labels"]) == ("user", "größe", "", "[]")
    assert (second["role"], second["text"], second["finish"]) == ("assistant", "a\nb", "stop")
    assert (second["labels"], second["task_id"], second["position"]) == ('["web","file"]', TASK, 2)


async def test_of_two_completions_of_one_reply_the_later_stands(log: EventLog) -> None:
    await log.append(STREAM, [draft(completed("r", "half")), draft(completed("r", "whole"))])
    assert [row["text"] for row in await log.rows("messages")] == ["whole"]


async def test_a_page_of_rows_begins_behind_the_last_one_of_the_page_before(log: EventLog) -> None:
    ids = [SessionId(f"sess_{n}") for n in range(5)]
    for session_id in ids:
        await log.append(f"session:{session_id}", [draft(session_created(session_id), session_id=session_id)])

    async def page(after: str | None, *, descending: bool) -> list[Any]:
        rows = await log.rows("sessions", order_by="key", descending=descending, after=after, limit=2)
        return [row["key"] for row in rows]

    assert await page(None, descending=False) == ids[:2]
    assert await page(ids[1], descending=False) == ids[2:4]
    assert await page(ids[4], descending=False) == []
    assert await page(ids[2], descending=True) == [ids[1], ids[0]]
    with pytest.raises(InputError, match="it can't be compared"):
        await log.rows("sessions", order_by="last_position", after="x")


async def test_an_artifact_is_listed_with_its_versions_and_what_it_was_made_from(log: EventLog) -> None:
    await log.append(TASK_STREAM, [draft(artifact_created("a"), task_id=TASK, labels=("web",))])
    replaced = ArtifactSuperseded(artifact_id=ArtifactId("a"), by=ArtifactId("b"))
    await log.append(TASK_STREAM, [draft(artifact_created("b", version=2)), draft(replaced)])
    first, second = await log.rows("artifacts")
    assert (first["session_id"], first["task_id"], first["version"], first["labels"]) == (SESSION, TASK, 1, '["web"]')
    assert (first["name"], first["kind"], first["size"], first["meta"]) == (
        "plot.txt",
        "log",
        3,
        '{"tool_id":"fs.read"}',
    )
    assert (first["superseded_by"], second["superseded_by"], second["version"]) == ("b", "", 2)
    (newest,) = await log.rows("artifact_names")
    assert (newest["artifact_id"], newest["version"]) == ("b", 2)


async def test_of_two_that_make_the_same_version_of_an_artifact_one_is_first(log: EventLog) -> None:
    await log.append(TASK_STREAM, [draft(artifact_created("a"))])
    with pytest.raises(Conflict, match="has the version 1 already"):
        await log.append(TASK_STREAM, [draft(artifact_created("b"))])
    await log.append(TASK_STREAM, [draft(artifact_created("c"), session_id=SessionId("sess_other"))])
    assert [row["artifact_id"] for row in await log.rows("artifacts")] == ["a", "c"]


async def test_artifacts_are_made_anew_where_the_event_of_an_earlier_version_was_erased(
    log: EventLog, store: Store
) -> None:
    await log.append(TASK_STREAM, [draft(artifact_created("a"))])
    await log.append(TASK_STREAM, [draft(artifact_created("b", version=2))])
    await store.erase(1)
    await log.rebuild()
    assert [row["artifact_id"] for row in await log.rows("artifacts")] == ["b"]
