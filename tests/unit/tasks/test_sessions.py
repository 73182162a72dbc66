"""Sessions: found again by their key, and never twice (SE-1)."""

import asyncio

import pytest

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.ids import SessionId, is_session_id
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.sessions import TITLE_LENGTH, Sessions


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
