"""A session or a message is erased in a real gateway: no byte of its home has it, and the session goes on."""

import asyncio
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.artifacts import blob_of
from ozzie_server_ext.domain.errors import Conflict, Gone, NotFound, Unavailable
from ozzie_server_ext.domain.events import ArtifactCreated, Event, MessageReceived, Origin
from ozzie_server_ext.domain.ids import MessageId, SessionId, TaskId
from ozzie_server_ext.models.scripted import Say, Use
from ozzie_server_ext.store.erasing import Target
from ozzie_server_ext.store.writer import Committer
from ozzie_server_ext.tasks.service import NewTurn
from tests.fakes.web_server import FakeWeb
from tests.integration.tasks.test_labels import WRITE, Bench, bench, servers
from tests.scripted_gateway import ScriptedOzzie

__all__ = ["bench", "servers"]

pytestmark = pytest.mark.timeout(120)

PLANTED = "the-planted-words"
NOTE = Use("write_note", {"name": "found", "text": f"A note of {PLANTED}."})
READ = Use("read_file", {"path": "data.txt"})
LONG = "\n".join(f"{PLANTED} line {number}" for number in range(3000))


def on_disk(home: Path) -> list[str]:
    """The files of a home that have the planted words, in any part."""
    files = [path for path in sorted(home.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [str(path.relative_to(home)) for path in files if PLANTED.encode() in path.read_bytes()]


async def plant(bench: Bench) -> TaskId:
    """A turn that leaves the words wherever a turn leaves words."""
    (bench.project / "data.txt").write_text(LONG)
    edit = Use("write_file", {"path": "notes/made.md", "text": f"{PLANTED}\n"})
    bench.ozzie.plays(NOTE, READ, edit, [Say(f"You said {PLANTED}.")])
    session = await bench.session()
    sent = await bench.ozzie.submit(bench_turn(session, f"Remember {PLANTED}."))
    assert await bench.rests(sent.task_id) == "task.succeeded"
    return sent.task_id


def bench_turn(session: SessionId, said: str) -> NewTurn:
    return NewTurn(session, said, Origin(channel="notebook", sender_id="ana"))


async def message_of(bench: Bench, task_id: TaskId) -> MessageId:
    return next(body.message_id for body in await bench.bodies(task_id) if isinstance(body, MessageReceived))


async def restart(bench: Bench) -> None:
    """Start another gateway. The one before writes the readable files to their end."""
    await bench.ozzie.stop()
    again = await ScriptedOzzie.start(bench.ozzie.home, bench.project)
    assert isinstance(again, ScriptedOzzie)
    bench.ozzie = again


async def test_no_byte_of_the_home_has_what_an_erased_session_said(bench: Bench) -> None:
    await plant(bench)
    await restart(bench)
    session = await bench.session()
    before = on_disk(bench.ozzie.home.root)
    assert {name.split("/")[0] for name in before} >= {"data", "events", "logs", "sessions"}
    assert any("/blobs/" in name for name in before)

    await bench.ozzie.erasures.erase_session(session, "ana")

    assert on_disk(bench.ozzie.home.root) == []
    with pytest.raises(Gone, match="This session was erased on"):
        await bench.ozzie.sessions.get(session)
    assert [row["session_id"] for row in await bench.ozzie.sessions.list()] == []
    assert await bench.session() != session, "its name opens a new one"
    await restart(bench)
    assert on_disk(bench.ozzie.home.root) == []


async def test_after_a_turn_is_erased_the_conversation_goes_on_without_it(bench: Bench) -> None:
    await bench.turn(said="The first words.")
    planted = await plant(bench)
    await bench.turn(said="The later words.")

    await bench.ozzie.erasures.erase_message(await message_of(bench, planted), "ana")

    assert on_disk(bench.ozzie.home.root) == []
    driver = bench.ozzie.plays([Say("Done.")])
    sent = await bench.ozzie.submit(bench_turn(await bench.session(), "And now?"))
    assert await bench.rests(sent.task_id) == "task.succeeded"
    said = [message.content for message in driver.requests[0].messages if message.role != "system"]
    assert said == ["The first words.", "Done.", "The later words.", "Done.", "And now?"]


async def test_a_page_that_was_read_in_an_erased_turn_still_makes_a_write_ask(bench: Bench, servers: FakeWeb) -> None:
    task_id = await bench.turn(bench.page, said=bench.said)

    await bench.ozzie.erasures.erase_message(await message_of(bench, task_id), "ana")

    await bench.expect_asked(await bench.turn(WRITE))


async def test_a_restart_keeps_the_labels_of_what_was_erased(bench: Bench) -> None:
    task_id = await bench.turn(bench.page, said=bench.said)
    await bench.ozzie.erasures.erase_message(await message_of(bench, task_id), "ana")
    await restart(bench)

    await bench.expect_asked(await bench.turn(WRITE))


async def test_what_a_gateway_leaves_that_ends_in_between_is_removed_at_the_next_start(bench: Bench) -> None:
    await plant(bench)
    await restart(bench)
    await bench.ozzie._store.erase(Target("ana", await bench.session()))
    assert on_disk(bench.ozzie.home.root)

    await restart(bench)
    async with asyncio.timeout(30):
        await bench.ozzie.erasures.cleaned()

    assert on_disk(bench.ozzie.home.root) == []


@pytest.mark.parametrize("when", ["it waits", "it has read a page"])
async def test_a_subscriber_that_reads_the_whole_feed_gets_nothing_that_was_erased(bench: Bench, when: str) -> None:
    await plant(bench)
    if when == "it has read a page":
        await restart(bench)  # else the feed still has the events
    last = (await bench.ozzie.log.head()).position
    session = await bench.session()
    async with bench.ozzie.feed.subscribe(0) as waiting:
        read = waiting._read

        async def read_and_erase(position: int) -> tuple[Event, ...]:
            waiting._read = read
            page = await read(position)
            await bench.ozzie.erasures.erase_session(session, "ana")
            return page

        if when == "it waits":
            await bench.ozzie.erasures.erase_session(session, "ana")
        else:
            waiting._read = read_and_erase
        async with asyncio.timeout(10):
            while isinstance(event := await anext(waiting), Event) and event.position <= last:
                assert PLANTED not in str(event)
    assert event.type == "session.erased"


async def test_the_same_content_of_another_session_stays(bench: Bench) -> None:
    first = await bench.turn(NOTE, notebook="a")
    other = await bench.turn(NOTE, notebook="b")
    (ref,) = {
        blob_of(body.storage_ref)
        for task_id in (first, other)
        for body in await bench.bodies(task_id)
        if isinstance(body, ArtifactCreated)
    }

    await bench.ozzie.erasures.erase_session(await bench.session("a"), "ana")
    assert PLANTED.encode() in await bench.ozzie.blobs.get(ref)

    await bench.ozzie.erasures.erase_session(await bench.session("b"), "ana")
    with pytest.raises(NotFound):
        await bench.ozzie.blobs.get(ref)


@pytest.mark.parametrize("name", ["messages.jsonl", "meta.json", "index.jsonl"])
async def test_it_is_said_that_a_file_can_not_be_replaced_and_done_once_it_can(bench: Bench, name: str) -> None:
    await plant(bench)
    await restart(bench)
    session = await bench.session()
    await bench.ozzie._readable.catch_up()
    folder = bench.ozzie.home.root / "sessions" / ("" if name == "index.jsonl" else session)
    in_the_way = folder / (name if name == "messages.jsonl" else f".new-{name}")
    in_the_way.unlink(missing_ok=True)
    in_the_way.mkdir()
    (in_the_way / "somebody's").touch()

    refused = await refused_erasure(
        bench, session, f"It is erased, but a trace is left: .*{name} can't be written anew"
    )
    assert (
        refused.hint
        == "Remove it, or let Ozzie's user write there. It is tried again in a minute, and at the next start."
    )
    assert await bench.ozzie._store.uncleaned()

    (in_the_way / "somebody's").unlink()
    in_the_way.rmdir()
    await bench.ozzie.erasures.cleaned()
    assert on_disk(bench.ozzie.home.root) == []
    assert await bench.ozzie._store.uncleaned() == []


async def refused_erasure(bench: Bench, session: SessionId, why: str) -> Unavailable:
    with pytest.raises(Unavailable, match=why) as refused:
        await bench.ozzie.erasures.erase_session(session, "ana")
    return refused.value


async def test_a_content_that_somebody_is_about_to_name_stays_and_is_gone_at_the_next_start(bench: Bench) -> None:
    await bench.turn(NOTE)
    put = await bench.ozzie.blobs.put(f"A note of {PLANTED}.".encode())
    other = await bench.ozzie.blobs.put(b"no trace of the session")

    await refused_erasure(
        bench, await bench.session(), f"a trace is left: Somebody is storing the same content .*{put}"
    )
    assert await bench.ozzie.blobs.get(put)
    assert await bench.ozzie.blobs.get(other)

    await restart(bench)
    await bench.ozzie.erasures.cleaned()
    assert on_disk(bench.ozzie.home.root) == []


async def test_what_a_crash_left_of_a_content_goes_and_what_is_being_written_stays(bench: Bench) -> None:
    await bench.turn(NOTE)
    folder = next(path.parent for path in bench.ozzie.home.blobs.rglob("*") if path.is_file())
    left, written = folder / ".new-abc", folder / f"{bench.ozzie.blobs._files._temporary}abc"
    for path in (left, written):
        path.write_text(PLANTED)

    await bench.ozzie.erasures.erase_session(await bench.session(), "ana")

    assert (left.exists(), written.exists()) == (False, True)


async def test_what_somebody_else_is_storing_is_no_trace(bench: Bench) -> None:
    await bench.turn(NOTE)
    other = await bench.ozzie.blobs.put(b"a picture of a message that is refused")

    await bench.ozzie.erasures.erase_session(await bench.session(), "ana")

    assert await bench.ozzie.blobs.get(other)


async def test_who_erases_hears_that_the_gateway_stops(bench: Bench) -> None:
    await plant(bench)
    begun, may_end = threading.Event(), threading.Event()

    def wait(_: Committer) -> None:
        begun.set()
        may_end.wait(20)

    writing = asyncio.create_task(bench.ozzie._store._writer.call(wait))
    erasing = asyncio.create_task(bench.ozzie.erasures.erase_session(await bench.session(), "ana"))
    await asyncio.to_thread(begun.wait, 20)
    stopping = asyncio.create_task(bench.ozzie.erasures.stop())
    await asyncio.wait([stopping])
    may_end.set()

    async with asyncio.timeout(20):
        with pytest.raises(Unavailable, match="It is erased, and Ozzie stops"):
            await erasing
        await writing
    await restart(bench)
    await bench.ozzie.erasures.cleaned()
    assert on_disk(bench.ozzie.home.root) == []


@pytest.mark.parametrize("when", ["its end waits", "it is behind", "it comes back"])
async def test_who_follows_a_turn_that_is_erased_does_not_wait_for_ever(bench: Bench, when: str) -> None:
    task_id = await plant(bench)
    if when == "it is behind":
        await restart(bench)
    session, feed = await bench.session(), bench.ozzie.feed
    ends = frozenset({"task.succeeded"})
    async with feed.subscribe(0, types=ends, task_id=task_id) as before, asyncio.timeout(20):
        if when == "its end waits":
            await before._catch_up()
            await before._catch_up()
        await bench.ozzie.erasures.erase_session(session, "ana")
        if when == "its end waits":
            assert (await anext(before)).type == "task.succeeded"
            return
        async with feed.subscribe(0, types=ends, task_id=task_id) as after:
            with pytest.raises(Gone, match="This turn was erased"):
                await anext(before if when == "it is behind" else after)


async def test_it_is_erased_also_if_nobody_waits_for_it_any_more(bench: Bench) -> None:
    await plant(bench)
    session = await bench.session()
    last = (await bench.ozzie.log.head()).position
    async with asyncio.timeout(30), bench.ozzie.feed.subscribe(last, types=frozenset({"session.erased"})) as events:
        waiting = asyncio.create_task(bench.ozzie.erasures.erase_session(session, "ana"))
        await anext(events)
    waiting.cancel()
    await asyncio.wait([waiting])

    await bench.ozzie.erasures.cleaned()
    assert waiting.cancelled()
    assert on_disk(bench.ozzie.home.root) == []


async def test_a_message_that_is_sent_again_after_it_was_erased_is_refused(bench: Bench) -> None:
    session = await bench.session()
    turn = replace(bench_turn(session, "Remember it."), message_id=MessageId("01M8000000000000000000000A"))
    bench.ozzie.plays([Say("Done.")])
    sent = await bench.ozzie.submit(turn)
    assert await bench.rests(sent.task_id) == "task.succeeded"
    await bench.ozzie.erasures.erase_message(sent.message_id, "ana")

    with pytest.raises(Gone, match="erased since"):
        await bench.ozzie.submit(turn)


async def test_a_turn_that_waits_has_to_end_first(bench: Bench) -> None:
    await bench.turn(Use("ask_user", {"question": "Tea?", "options": [{"label": "tea"}, {"label": "milk"}]}))

    with pytest.raises(Conflict, match="A turn is not over"):
        await bench.ozzie.erasures.erase_session(await bench.session(), "ana")


async def test_there_is_no_such_message(bench: Bench) -> None:
    with pytest.raises(NotFound, match="There is no message 01M") as refused:
        await bench.ozzie.erasures.erase_message(MessageId("01M"), "ana")
    assert refused.value.hint == "List those of a session with ozzie messages list SESSION."
