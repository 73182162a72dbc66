"""Sessions: found again by their key, and never twice."""

import asyncio

import pytest

from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound
from ozzie_server_ext.domain.events import Draft, MessageReceived, Origin
from ozzie_server_ext.domain.ids import MessageId, SessionId, is_session_id
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.projections.sessions import TITLE_LENGTH
from ozzie_server_ext.tasks.sessions import Sessions


@pytest.fixture
def log() -> InMemoryEventLog:
    return InMemoryEventLog(FakeClock(), CountingIds())


@pytest.fixture
def sessions(log: InMemoryEventLog) -> Sessions:
    return Sessions(log, CountingIds())


async def test_the_same_key_is_the_same_session_and_another_key_another(sessions: Sessions) -> None:
    first = await sessions.open("notebook:a.ipynb", title="a.ipynb", channel="notebook")
    again = await sessions.open("notebook:a.ipynb", title="renamed meanwhile", channel="notebook")
    other = await sessions.open("notebook:b.ipynb", title="b.ipynb", channel="notebook")

    assert first == again
    assert (first.title, first.channel, first.model, first.message_count) == ("a.ipynb", "notebook", "", 0)
    assert other.session_id != first.session_id
    assert is_session_id(first.session_id)


async def test_many_who_open_the_same_key_at_once_get_one_session(sessions: Sessions, log: InMemoryEventLog) -> None:
    found = await asyncio.gather(*(sessions.open("key", title=f"by {i}", channel="ws") for i in range(20)))

    assert len({info.session_id for info in found}) == 1
    assert (await log.head()).position == 1


async def test_a_title_is_kept_short(sessions: Sessions) -> None:
    assert len((await sessions.open("key", title="x" * 500, channel="ws")).title) == TITLE_LENGTH


async def test_a_session_can_be_renamed_and_given_a_model(sessions: Sessions) -> None:
    session_id = (await sessions.open("key", title="a", channel="ws")).session_id

    await sessions.rename(session_id, f"  {'y' * 500} ")
    await sessions.choose_model(session_id, "openai/gpt", "http://localhost:1/v1")

    info = await sessions.get(session_id)
    assert info.title == "y" * TITLE_LENGTH
    assert (info.model, info.base_url) == ("openai/gpt", "http://localhost:1/v1")
    await sessions.choose_model(session_id, "")
    assert ((await sessions.get(session_id)).model, (await sessions.get(session_id)).base_url) == ("", "")


async def test_a_session_that_there_is_not_is_named_and_nothing_is_recorded(
    sessions: Sessions, log: InMemoryEventLog
) -> None:
    nobody = SessionId("sess_none")

    for ask in (sessions.get(nobody), sessions.rename(nobody, "x"), sessions.choose_model(nobody, "x")):
        with pytest.raises(NotFound, match="There is no session sess_none"):
            await ask
    assert (await log.head()).position == 0


async def say(log: InMemoryEventLog, session_id: SessionId, text: str) -> None:
    body = MessageReceived(message_id=MessageId("M"), text=text, origin=Origin(channel="ws"))
    await log.append(f"task:{text[:20]}", [Draft(body=body, actor="user", source="hub", session_id=session_id)])


async def test_a_new_session_takes_the_key_of_the_one_before(sessions: Sessions) -> None:
    before = await sessions.open("notebook:a", title="a", channel="notebook")
    new = await sessions.begin("notebook:a", channel="notebook")

    assert new.session_id != before.session_id
    assert (await sessions.open("notebook:a", title="a", channel="notebook")).session_id == new.session_id
    assert (await sessions.row(before.session_id))["key"] == ""


async def test_an_earlier_session_is_resumed_and_nothing_is_recorded_where_it_is_open_already(
    sessions: Sessions, log: InMemoryEventLog
) -> None:
    before = await sessions.open("notebook:a", title="a", channel="notebook")
    await sessions.begin("notebook:a", channel="notebook")

    assert (await sessions.resume(before.session_id, "notebook:a")).session_id == before.session_id
    assert (await sessions.open("notebook:a", title="", channel="notebook")).session_id == before.session_id
    position = (await log.head()).position
    await sessions.resume(before.session_id, "notebook:a")
    assert (await log.head()).position == position


async def test_a_closed_session_takes_no_messages_until_it_is_resumed(sessions: Sessions) -> None:
    session_id = (await sessions.open("key", title="a", channel="ws")).session_id
    await sessions.expect_open(session_id)
    await sessions.close(session_id)

    with pytest.raises(Conflict, match="This session is closed"):
        await sessions.expect_open(session_id)
    await sessions.resume(session_id, "key")
    await sessions.expect_open(session_id)


async def test_an_archived_session_is_left_out_of_the_list_until_somebody_writes_in_it(
    sessions: Sessions, log: InMemoryEventLog
) -> None:
    session_id = (await sessions.open("key", title="a", channel="ws")).session_id
    await sessions.archive(session_id)

    assert await sessions.list() == []
    assert [row["session_id"] for row in await sessions.list(status="archived")] == [session_id]
    await say(log, session_id, "hello")
    assert [row["status"] for row in await sessions.list()] == ["active"]


async def test_the_list_begins_with_what_was_used_last_and_goes_on_behind_a_page(
    sessions: Sessions, log: InMemoryEventLog
) -> None:
    ids = [(await sessions.open(f"key {n}", title=f"{n}", channel="ws")).session_id for n in range(5)]
    await say(log, ids[1], "hello")

    first = await sessions.list(limit=2)
    last = first[-1]["last_position"]
    assert isinstance(last, int)
    rest = await sessions.list(after=last)
    assert [row["session_id"] for row in (*first, *rest)] == [ids[1], ids[4], ids[3], ids[2], ids[0]]


async def test_a_session_without_a_title_is_called_after_its_first_message(
    sessions: Sessions, log: InMemoryEventLog
) -> None:
    session_id = (await sessions.begin("key", channel="notebook")).session_id
    await say(log, session_id, "\n  How many   rows\nhas it?")
    await say(log, session_id, "And now?")
    assert (await sessions.get(session_id)).title == "How many rows"

    other = (await sessions.begin("key", channel="notebook")).session_id
    await say(log, other, "word " * 100)
    title = (await sessions.get(other)).title
    assert title.endswith("word…")
    assert len(title) <= TITLE_LENGTH


async def test_a_person_finds_a_session_by_title_by_id_and_by_the_end_of_its_id(sessions: Sessions) -> None:
    first = (await sessions.open("a", title="Prices", channel="ws")).session_id
    second = (await sessions.open("b", title="Other", channel="ws")).session_id

    assert await sessions.find("prices ") == first
    assert await sessions.find(second) == second
    assert await sessions.find(second[-6:].lower()) == second
    for nobody in ("", "x", "nothing like it", SessionId("sess_01ARZ3NDEKTSV4RRFFQ69G5FAV")):
        with pytest.raises(NotFound, match="There is no session"):
            await sessions.find(nobody)
    await sessions.rename(second, "Prices")
    with pytest.raises(InputError, match="2 sessions are called"):
        await sessions.find("Prices")


async def test_a_title_that_says_nothing_is_refused(sessions: Sessions) -> None:
    session_id = (await sessions.open("a", title="Prices", channel="ws")).session_id
    with pytest.raises(InputError, match="needs a title"):
        await sessions.rename(session_id, " \n ")
