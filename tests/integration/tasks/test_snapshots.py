"""A long session goes on from its last snapshot after a restart, and from the log if that can't be trusted."""

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import closing

import pytest

from ozzie_server_ext.agent import conversations
from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.conversations import Conversations
from ozzie_server_ext.config.home import anchor_key_file
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.models.driver import ChatMessage
from ozzie_server_ext.models.scripted import Fail, Say, Use
from ozzie_server_ext.store.erasing import Target
from ozzie_server_ext.store.snapshots import SignedSnapshots
from tests.integration.tasks.test_erasures import PLANTED, bench_turn, message_of, on_disk, restart
from tests.integration.tasks.test_labels import WEB, WRITE, Bench, bench, servers

__all__ = ["bench", "servers"]

pytestmark = pytest.mark.timeout(120)

READ = Use("read_file", {"path": "data.txt"})


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot every two turns or so."""
    monkeypatch.setattr(conversations, "SNAPSHOT_STEP", 12)


async def talk(bench: Bench, turns: int = 8, begin: int = 0) -> list[TaskId]:
    """Turns with a call each; wait until the snapshot that the last of them made due is stored."""
    (bench.project / "data.txt").write_text("a,b\n1,2\n")
    tasks = [await bench.turn(READ, said=f"Question {number}.") for number in range(begin, begin + turns)]
    await bench.ozzie._conversations.close()
    return tasks


def stored(bench: Bench) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(bench.ozzie.home.database)) as connection:
        return connection.execute("SELECT session_id, position FROM snapshots ORDER BY position").fetchall()


def change(bench: Bench, sql: str, *values: object) -> None:
    """Change the snapshots as somebody could who writes to the file while no gateway runs."""
    with closing(sqlite3.connect(bench.ozzie.home.database)) as connection, connection:
        assert connection.execute(sql, values).rowcount > 0


async def conversation_of(bench: Bench, session: SessionId) -> Conversation:
    return await bench.ozzie._conversations.get(session)


async def folded(bench: Bench, session: SessionId) -> Conversation:
    """The conversation as the log alone tells it."""
    return await Conversations(bench.ozzie.log).get(session)


def read_in(conversation: Conversation) -> tuple[Sequence[ChatMessage], object]:
    return conversation.messages(10_000, TaskId("next")), conversation.content


async def test_after_a_restart_a_long_session_is_read_from_its_last_snapshot_on(bench: Bench) -> None:
    await talk(bench)
    assert len(stored(bench)) >= 3
    await restart(bench)
    session = await bench.session()

    restored, whole = await conversation_of(bench, session), await folded(bench, session)

    assert read_in(restored) == read_in(whole)
    assert restored.fresh < conversations.SNAPSHOT_STEP < whole.fresh
    driver = bench.ozzie.plays([Say("Done.")])
    sent = await bench.ozzie.submit(bench_turn(session, "And now?"))
    assert await bench.rests(sent.task_id) == "task.succeeded"
    said = [message.content for message in driver.requests[0].messages if message.role == "user"]
    assert said == [*(f"Question {number}." for number in range(8)), "And now?"]


async def test_its_series_goes_on_in_the_next_gateway(bench: Bench) -> None:
    await talk(bench)
    before = stored(bench)
    await restart(bench)

    await talk(bench, begin=8)

    assert stored(bench)[: len(before)] == before
    assert len(stored(bench)) > len(before)
    await restart(bench)
    session = await bench.session()
    assert read_in(await conversation_of(bench, session)) == read_in(await folded(bench, session))


async def test_labels_survive_in_a_snapshot(bench: Bench) -> None:
    await bench.reads_the_page()
    await talk(bench)
    await restart(bench)
    session = await bench.session()

    restored = await conversation_of(bench, session)

    assert restored.fresh < conversations.SNAPSHOT_STEP
    assert restored.content == WEB
    await bench.expect_asked(await bench.turn(WRITE))


FORGERIES = (
    "UPDATE snapshots SET content = (SELECT content FROM snapshots AS o WHERE o.position > snapshots.position LIMIT 1) "
    "WHERE position = (SELECT min(position) FROM snapshots)",
    "UPDATE snapshots SET mac = zeroblob(32)",
    "DELETE FROM snapshots WHERE position = (SELECT min(position) FROM snapshots)",
    "UPDATE snapshots SET position = position + 1",
)


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_forged_snapshot_is_not_used(bench: Bench, caplog: pytest.LogCaptureFixture, forgery: str) -> None:
    await bench.reads_the_page()
    await talk(bench)
    session = await bench.session()
    await bench.ozzie.stop()
    change(bench, forgery)
    caplog.set_level(logging.WARNING)
    await restart(bench)

    found = await conversation_of(bench, session)

    assert "its snapshots were changed" in caplog.text
    assert read_in(found) == read_in(await folded(bench, session))
    assert found.content == WEB
    await talk(bench, begin=8)
    caplog.clear()
    await restart(bench)
    assert (await conversation_of(bench, session)).fresh < conversations.SNAPSHOT_STEP, "a new series was begun"
    assert caplog.text == ""


async def test_a_snapshot_of_another_session_is_not_used(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    await bench.reads_the_page()
    await talk(bench)
    clean = await bench.session("clean")
    await bench.turn(notebook="clean")
    mine = await bench.session()
    await bench.ozzie.stop()
    change(bench, "UPDATE snapshots SET session_id = ? WHERE session_id = ?", clean, mine)
    caplog.set_level(logging.WARNING)
    await restart(bench)

    assert read_in(await conversation_of(bench, clean)) == read_in(await folded(bench, clean))
    assert "its snapshots were changed" in caplog.text


async def test_without_snapshots_or_the_key_the_log_is_read(bench: Bench) -> None:
    await talk(bench)
    session = await bench.session()
    await bench.ozzie.stop()
    change(bench, "DELETE FROM snapshots")
    await restart(bench)
    found = await conversation_of(bench, session)
    assert read_in(found) == read_in(await folded(bench, session))
    assert found.fresh > conversations.SNAPSHOT_STEP
    await bench.turn(READ)
    await bench.ozzie._conversations.close()
    assert len(stored(bench)) == 1

    anchor_key_file().unlink()
    keyless = SignedSnapshots(bench.ozzie._store, anchor_key_file)
    assert await keyless.read(session) == ()
    assert not await keyless.add(session, b"{}", position=1, after=0)
    assert read_in(await Conversations(bench.ozzie.log, keyless).get(session)) == read_in(found)


async def test_a_failed_turn_from_before_a_snapshot_can_be_retried(bench: Bench) -> None:
    bench.ozzie.plays(READ, [Fail("provider.auth")])
    (bench.project / "data.txt").write_text("a,b\n1,2\n")
    failed = await bench.ozzie.submit(bench_turn(await bench.session(), "The first question."))
    assert await bench.rests(failed.task_id) == "task.failed"
    await talk(bench)
    await restart(bench)
    session = await bench.session()
    assert (await conversation_of(bench, session)).fresh < conversations.SNAPSHOT_STEP

    driver = bench.ozzie.plays([Say("Here it is.")])
    await bench.ozzie.control.retries.retry(failed.task_id, by="ana")
    assert await bench.rests(failed.task_id, 2) == "task.succeeded"

    *_, question, call, result = driver.requests[0].messages
    assert (question.content, call.tool_uses[0].name, result.role) == ("The first question.", "read_file", "tool")
    await bench.turn(READ)
    await bench.ozzie._conversations.close()
    await restart(bench)
    found = await conversation_of(bench, session)
    assert found.fresh < conversations.SNAPSHOT_STEP
    assert read_in(found) == read_in(await folded(bench, session))


async def test_no_snapshot_is_taken_while_a_turn_waits(bench: Bench) -> None:
    await bench.reads_the_page()
    task_id = await bench.turn(WRITE)
    await bench.expect_asked(task_id)
    conversation = await conversation_of(bench, await bench.session())
    before = len(stored(bench))

    await bench.ozzie._conversations._save(await bench.session(), conversation)

    assert len(stored(bench)) == before


async def test_a_fork_begins_with_the_snapshot_before_it_and_has_its_own_later(bench: Bench) -> None:
    await talk(bench)
    parent = await bench.session()
    fork = (await bench.ozzie.sessions.copy(parent, key="copy", title="copy", channel="notebook", by="ana")).session_id
    await talk(bench, begin=8)
    await restart(bench)

    found = await conversation_of(bench, fork)

    assert read_in(found) == read_in(await folded(bench, fork))
    assert found.fresh < conversations.SNAPSHOT_STEP
    assert not any(session == fork for session, _ in stored(bench))
    for number in range(4):
        await bench.turn(READ, notebook="copy", said=f"In the copy {number}.")
    await bench.ozzie._conversations.close()
    assert any(session == fork for session, _ in stored(bench))
    await restart(bench)
    found = await conversation_of(bench, fork)
    assert found.fresh < conversations.SNAPSHOT_STEP
    assert read_in(found) == read_in(await folded(bench, fork))


async def test_erasing_a_message_leaves_no_snapshot(bench: Bench) -> None:
    planted = await bench.turn(READ, said=f"Remember {PLANTED}.")
    await talk(bench)
    assert stored(bench)
    conversation = await conversation_of(bench, await bench.session())
    snapshot = conversation.snapshot()

    await bench.ozzie.erasures.erase_message(await message_of(bench, planted), "ana")

    assert stored(bench) == []
    assert on_disk(bench.ozzie.home.root) == []
    # One that was being taken meanwhile is refused.
    signed = SignedSnapshots(bench.ozzie._store, anchor_key_file)
    session = await bench.session()
    assert not await signed.add(session, PLANTED.encode(), position=snapshot.position, after=0)
    await talk(bench, begin=8)
    assert stored(bench)
    await restart(bench)
    found = await conversation_of(bench, session)
    assert found.fresh < conversations.SNAPSHOT_STEP
    assert read_in(found) == read_in(await folded(bench, session))


async def test_a_snapshot_from_before_an_erasure_is_not_used(bench: Bench) -> None:
    await talk(bench)
    session = await bench.session()
    other = await bench.session("other")
    await bench.turn(notebook="other")
    with closing(sqlite3.connect(bench.ozzie.home.database)) as connection:
        rows = connection.execute("SELECT * FROM snapshots").fetchall()
    await bench.ozzie._store.erase(Target("ana", other))
    await bench.ozzie.stop()
    for row in rows:
        change(bench, "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", *row)
    await restart(bench)

    found = await conversation_of(bench, session)

    assert found.fresh > conversations.SNAPSHOT_STEP


async def test_kept_conversations_are_bounded_by_what_they_hold(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MOST_ENTRIES", 10)
    await talk(bench, turns=3)
    for name in ("a", "b", "c"):
        await bench.turn(READ, notebook=name)

    kept = bench.ozzie._conversations._kept

    # A turn has three entries: the message, the call and the answer.
    assert [*kept] == [await bench.session(name) for name in ("a", "b", "c")]
