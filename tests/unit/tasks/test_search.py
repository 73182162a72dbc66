"""Searches in all sessions, in a project, and in a session with what it was forked from."""

from pathlib import Path

import msgspec
import pytest

from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.events import EventBody, SessionForked
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.search import MOST_PHRASES, Question, Search
from tests.replay.histories import SESSION, draft, received, renamed, session_created

FORK, AGAIN = SessionId("sess_01FFFFFFFFFFFFFFFFFFFFFFFF"), SessionId("sess_01GGGGGGGGGGGGGGGGGGGGGGGG")
OWN = Path("/own")


class Sessions:
    """A log with sessions in which something is said."""

    def __init__(self) -> None:
        self.log = InMemoryEventLog(FakeClock(), CountingIds())
        self.search = Search(self.log, OWN)
        self._said = 0

    async def record(self, session_id: SessionId, *bodies: EventBody, labels: tuple[str, ...] = ()) -> int:
        drafts = [draft(body, session_id=session_id, labels=labels) for body in bodies]
        return (await self.log.append(f"session:{session_id}", drafts))[-1].position

    async def begin(self, session_id: SessionId, project: str = "") -> None:
        await self.record(session_id, msgspec.structs.replace(session_created(session_id), project=project))

    async def fork(self, parent: SessionId, session_id: SessionId) -> None:
        position = (await self.log.head()).position
        await self.record(session_id, session_created(session_id), SessionForked(parent=parent, position=position))

    async def say(self, session_id: SessionId, text: str, **how: tuple[str, ...]) -> int:
        self._said += 1
        return await self.record(session_id, received(text, message_id=str(self._said)), **how)

    async def find(self, text: str, session_id: SessionId | None = None, project: Path | None = None) -> list[str]:
        found = await self.search.find(Question(text=text, session_id=session_id, project=project))
        return sorted(item.snippet.text for item in found.items)


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


async def test_a_fork_has_what_was_said_before_it_and_nothing_later(sessions: Sessions) -> None:
    await sessions.begin(SESSION)
    await sessions.say(SESSION, "walrus one")
    await sessions.fork(SESSION, FORK)
    await sessions.say(SESSION, "walrus two")
    await sessions.say(FORK, "walrus three")
    await sessions.fork(FORK, AGAIN)
    await sessions.say(FORK, "walrus four")
    await sessions.say(AGAIN, "walrus five")

    assert await sessions.find("walrus", SESSION) == ["walrus one", "walrus two"]
    assert await sessions.find("walrus", FORK) == ["walrus four", "walrus one", "walrus three"]
    assert await sessions.find("walrus", AGAIN) == ["walrus five", "walrus one", "walrus three"]
    assert len(await sessions.find("walrus")) == 5


async def test_a_session_without_a_recorded_project_is_the_gateways_own(sessions: Sessions) -> None:
    await sessions.begin(SESSION)
    await sessions.begin(FORK, project="/own")
    await sessions.begin(AGAIN, project="/other")
    for session_id in (SESSION, FORK, AGAIN):
        await sessions.say(session_id, f"walrus {session_id}")

    assert await sessions.find("walrus", project=OWN) == [f"walrus {SESSION}", f"walrus {FORK}"]
    assert await sessions.find("walrus", project=Path("/other")) == [f"walrus {AGAIN}"]


async def test_a_result_bears_the_labels_of_its_content_and_the_title_of_its_session(sessions: Sessions) -> None:
    await sessions.begin(SESSION)
    await sessions.say(SESSION, "a walrus from the web", labels=("web",))
    await sessions.record(SESSION, renamed("Animals").body)

    (item,) = (await sessions.search.find(Question(text="walrus"))).items

    assert (item.event.labels, item.title, item.kind) == (("web",), "Animals", "message")


async def test_what_was_erased_since_the_index_was_made_is_left_out(sessions: Sessions) -> None:
    await sessions.begin(SESSION)
    position = await sessions.say(SESSION, "walrus one")
    await sessions.say(SESSION, "walrus two")
    del sessions.log.bodies[position]

    assert await sessions.find("walrus") == ["walrus two"]


async def test_of_many_words_only_some_are_searched_for(sessions: Sessions) -> None:
    await sessions.begin(SESSION)
    words = " ".join(f"word{number}" for number in range(MOST_PHRASES))
    await sessions.say(SESSION, words)

    assert await sessions.find(f"{words} more and more") == [words]


async def test_an_unknown_session_is_refused(sessions: Sessions) -> None:
    with pytest.raises(NotFound):
        await sessions.find("walrus", SESSION)
