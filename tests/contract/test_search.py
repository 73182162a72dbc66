"""What every event log promises of a search in it (`EventLog.search`), over each adapter and both kinds of index."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from ozzie_server_ext.domain.errors import IllegalTransition
from ozzie_server_ext.domain.events import (
    EventBody,
    TaskUpdated,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
)
from ozzie_server_ext.domain.ids import CallId, SessionId
from ozzie_server_ext.domain.terms import phrases
from ozzie_server_ext.store import search
from ozzie_server_ext.store.documents import MOST_RANKED, Part, Wanted
from ozzie_server_ext.store.log import EventLog
from tests.replay.histories import (
    SESSION,
    artifact_created,
    completed,
    draft,
    received,
    renamed,
    session_created,
    task_created,
    task_draft,
)
from tests.replay.stores import Store

OTHER = SessionId("sess_01CCCCCCCCCCCCCCCCCCCCCCCC")


@pytest.fixture(params=["fts5", "fts4"], autouse=True)
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "fts4":
        create = search.create
        monkeypatch.setattr(search, "create", lambda connection: create(connection, fts5=False))
    return request.param


async def say(log: EventLog, *bodies: EventBody, session_id: SessionId = SESSION) -> list[int]:
    """Record facts of a session; return their positions."""
    events = await log.append(f"session:{session_id}", [draft(body, session_id=session_id) for body in bodies])
    return [event.position for event in events]


async def found(log: EventLog, query: str, **how: Any) -> list[int]:
    return [hit.position for hit in (await log.search(Wanted(phrases=tuple(phrases(query)), **how))).best]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Deleting the old files took an hour.", "delete file"),
        ("Use read_file or getUserName.", "readFile user_name"),
        ("Ein großer Vorschlag für die Küche", "KUCHE vorschlag"),
        ("我们在这里学习资料分析", "资料"),
        ("我们在这里学习资料分析", "学"),
        ("売上データを検索しました", "検索"),
        ("売上データを検索しました", "データ"),
        ("The quarterly revenue rose.", "quart*"),
        ("Calculate it", "calculate*"),
        ("The second quarter of revenue", '"quarter of revenue"'),
    ],
)
async def test_a_text_is_found_by_what_stands_in_it(log: EventLog, text: str, query: str) -> None:
    at, *_ = await say(log, received(text), renamed("Something else").body)

    assert await found(log, query) == [at]


@pytest.mark.parametrize(
    "query", ["revenue cost", '"revenue quarter"', "reven", "料资", "the", "", '"', "*", "()", "NOT"]
)
async def test_a_text_is_not_found_by_less_or_by_the_syntax_of_the_index(log: EventLog, query: str) -> None:
    await say(log, received("The second quarter of revenue"), received("资料", message_id="2"))

    assert await found(log, query) == []


async def test_every_kind_of_document_is_found_as_its_kind(log: EventLog) -> None:
    call = CallId("c")
    positions = await say(
        log,
        session_created(),
        received("zebra"),
        TaskUpdated(text="zebra, too", by="ana"),
        completed("r", "a zebra"),
        ToolCallRequested(
            call_id=call, use_id="u", tool_id="t", name="zoo", version="1", args={"animal": ["zebra"]}, round=1, index=0
        ),
        ToolCallCompleted(call_id=call, ok=True, data={"zebra": 7}, summary="7", duration_ms=0.5),
        ToolCallFailed(call_id=call, code="x", message="no zebra", duration_ms=0.5),
        artifact_created("a", name="zebra.png"),
        renamed("Zebras").body,
    )
    by_kind = {
        "message": positions[1:3],
        "reply": positions[3:4],
        "tool": positions[4:7],
        "artifact": positions[7:8],
        "title": positions[8:],
    }

    assert sorted(await found(log, "zebra")) == positions[1:]
    for kind, its in by_kind.items():
        assert sorted(await found(log, "zebra", kinds=(kind,))) == its
    assert sorted(await found(log, "zebra", kinds=("reply", "title"))) == [positions[3], positions[8]]


async def test_a_search_is_bounded_by_session_project_and_time(store: Store) -> None:
    log = store.log
    here, _ = await say(log, received("the same words"), renamed("x").body)
    store.clock.advance(3600)
    later = store.clock.now()
    there, *_ = await say(log, received("the same words", message_id="2"), session_id=OTHER)

    assert sorted(await found(log, "same words")) == [here, there]
    assert await found(log, "same words", parts=(Part(OTHER, there),)) == [there]
    assert await found(log, "same words", parts=(Part(OTHER, there - 1),)) == []
    assert sorted(await found(log, "same words", parts=(Part(OTHER, there), Part(SESSION, there)))) == [here, there]
    assert await found(log, "same words", parts=(Part(OTHER, there), Part(SESSION, here - 1))) == [there]
    assert await found(log, "same words", parts=()) == []
    assert await found(log, "same words", since=later) == [there]
    assert await found(log, "same words", until=later) == [here]
    assert await found(log, "same words", since=later, until=later + timedelta(seconds=1)) == [there]


async def test_a_search_in_a_project_finds_what_its_sessions_have(log: EventLog) -> None:
    begun = session_created()
    here, _ = await say(log, received("the same words"), begun)
    created = msgspec.structs.replace(begun, project="/elsewhere", key="other")
    _, there = await say(log, created, received("the same words", message_id="2"), session_id=OTHER)

    assert await found(log, "same words", projects=("/elsewhere",)) == [there]
    assert await found(log, "same words", projects=("", "/here")) == [here]
    assert await found(log, "same words", projects=("/nowhere",)) == []


async def test_the_better_document_comes_first_and_of_equal_ones_the_newer(log: EventLog) -> None:
    padding = "and many other words about something else entirely, of which none matters to whoever reads it"
    weak, strong, again = await say(
        log,
        received(f"zebra {padding}"),
        received("zebra zebra", message_id="2"),
        received("zebra zebra", message_id="3"),
    )
    await say(log, *(received(f"noise number {number}", message_id=f"n{number}") for number in range(20)))

    assert await found(log, "zebra") == [again, strong, weak]
    assert await found(log, "zebra", limit=1) == [again]


async def test_the_shares_of_the_phrases_add_up_to_the_score(log: EventLog) -> None:
    await say(log, received("a rare zebra"), received("a zebra and a horse", message_id="2"))
    await say(log, *(received(f"horse number {number}", message_id=f"n{number}") for number in range(20)))

    hits = await log.search(Wanted(phrases=tuple(phrases("zebra horse")), explain=True))

    (hit,) = hits.best
    assert hits.count == 1
    assert len(hit.shares) == 2
    assert hit.shares[0] > hit.shares[1] > 0, "the rarer word says more"
    assert sum(hit.shares) == pytest.approx(hit.score)


async def test_of_more_than_can_be_ranked_the_newest_are(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_RANKED", 5)
    positions = await say(log, *(received("zebra", message_id=str(number)) for number in range(9)))

    hits = await log.search(Wanted(phrases=tuple(phrases("zebra"))))

    assert hits.count == 5
    assert [hit.position for hit in hits.best] == positions[:3:-1]
    assert MOST_RANKED > 5


async def test_what_was_refused_is_not_found(log: EventLog) -> None:
    await log.append("task:t", [task_draft(task_created())])
    with pytest.raises(IllegalTransition):
        await log.append("task:t", [task_draft(received("zebra")), task_draft(task_created())])

    assert await found(log, "zebra") == []


async def test_an_index_made_anew_finds_the_same_but_not_what_was_erased(store: Store) -> None:
    log = store.log
    first, second = await say(log, received("zebra one"), received("zebra two", message_id="2"))
    await log.rebuild()
    assert sorted(await found(log, "zebra")) == [first, second]

    await store.erase(first)
    await log.rebuild()
    later, *_ = await say(log, received("zebra three", message_id="3"))

    assert sorted(await found(log, "zebra")) == [second, later]
