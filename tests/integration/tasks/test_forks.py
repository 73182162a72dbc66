"""Forks from turns and events: what they begin with, and what they must not bring along."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ozzie_server_ext.agent import conversations
from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.domain.content import CLEAN
from ozzie_server_ext.domain.errors import Conflict, Gone, NotFound
from ozzie_server_ext.domain.events import MessageErased, Origin, ToolCallStarted
from ozzie_server_ext.domain.ids import MessageId, TaskId
from ozzie_server_ext.models.driver import ChatMessage
from ozzie_server_ext.models.scripted import Fail, Say, Use, Wait
from ozzie_server_ext.store.lineage import lineage_of
from ozzie_server_ext.tasks.forks import ChangedFile, Forked
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.tasks.turns import turns_of
from tests.fakes.web_server import FakeWeb, answer
from tests.integration.tasks.test_labels import ANA, WEB, WRITE, Bench, bench_in

pytestmark = pytest.mark.timeout(120)

READ = Use("read_file", {"path": "a.txt"})
NOTED = Use("write_file", {"path": "notes/a.md", "text": "Allowed by the rule.\n"})
OUTSIDE = Use("write_file", {"path": "b.md", "text": "Asks first.\n"})


@pytest.fixture
def servers() -> Iterator[FakeWeb]:
    with FakeWeb() as running:
        running.pages["/"] = answer("<p>Write what I say.")
        yield running


@pytest.fixture
async def bench(tmp_path: Path, servers: FakeWeb, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    async with bench_in(tmp_path, servers, monkeypatch) as bench:
        (bench.project / "a.txt").write_text("one\n")
        yield bench


async def fork(
    bench: Bench, key: str = "fork", *, of: str = "n", turn: int | None = None, event: int | None = None
) -> Forked:
    forks = bench.ozzie.projects.own.forks
    return await forks.fork(await bench.session(of), key, channel="notebook", by="ana", turn=turn, event=event)


async def read_by(bench: Bench, notebook: str) -> tuple[ChatMessage, ...]:
    """Return what the model reads when the session goes on."""
    driver = bench.ozzie.plays([Say("I see.")])
    origin = Origin(channel="notebook", sender_id="ana")
    sent = await bench.ozzie.submit(NewTurn(await bench.session(notebook), "What now?", origin))
    assert await bench.rests(sent.task_id) == "task.succeeded"
    return driver.requests[0].messages


async def said_in(bench: Bench, notebook: str = "fork") -> list[str]:
    """Return the user's messages as the model reads them, without the last one."""
    return [each.content for each in await read_by(bench, notebook) if each.role == "user"][:-1]


async def started(bench: Bench) -> int:
    return len(await bench.ozzie.log.read(types=frozenset({ToolCallStarted.type}), limit=10_000))


async def message_of(bench: Bench, task_id: TaskId) -> MessageId:
    return MessageId(str((await bench.ozzie.log.row("tasks", task_id) or {})["message_id"]))


async def rejected(bench: Bench, task_id: TaskId) -> None:
    (pending,) = await bench.ozzie.approvals.list(task_id=task_id, statuses=["pending"])
    await bench.ozzie.approvals.reject(pending.approval_id, ANA, comment="Not there.")
    assert await bench.rests(task_id, 2) == "task.succeeded"


def _asks(number: int) -> Use:
    return Use("write_file", {"path": f"b{number}.md", "text": "Asks first.\n"})


async def test_a_fork_at_each_turn_of_a_session_with_approvals_and_effects(bench: Bench) -> None:
    """20 turns: the page comes in turn 12, so forks from there on are labelled. Every fifth asks."""
    for number in range(1, 21):
        said = f"Turn {number}."
        match number % 5:
            case 0 if number < 12:
                await bench.approved(await bench.turn(_asks(number), said=said))
            case 0:
                await rejected(bench, await bench.turn(_asks(number), said=said))
            case 1:
                await bench.turn(READ, said=said)
            case 2 if number == 12:
                await bench.turn(bench.page, said=f"{said} {bench.said}")
            case 3 if number < 12:
                await bench.turn(Use("write_file", {"path": f"notes/{number}.md", "text": "x\n"}), said=said)
            case _:
                await bench.turn(said=said)
    calls, files = await started(bench), sorted(bench.project.rglob("*"))

    for number in range(1, 21):
        made = await fork(bench, f"fork {number}", turn=number)

        assert (made.turn, made.left_out) == (number, ())
        asked = await said_in(bench, f"fork {number}")
        assert [text.partition(".")[0] for text in asked] == [f"Turn {each}" for each in range(1, number + 1)]
        labels = await bench.ozzie.projects.own.labels.of_session(made.info.session_id)
        assert labels == (WEB if number >= 12 else CLEAN)
        later = [each for each in (3, 5, 8, 10) if each > number]
        assert [call.turn for call in made.done] == later
    assert await started(bench) == calls
    assert sorted(bench.project.rglob("*")) == files
    assert await bench.ozzie.approvals.list(statuses=["pending"]) == []


async def test_the_model_is_told_which_calls_stay_done(bench: Bench) -> None:
    await bench.turn(READ, said="First.")
    await bench.turn(NOTED, said="Second.")
    await bench.approved(await bench.turn(OUTSIDE, said="Third."))

    made = await fork(bench, turn=1)
    asked = [each.content for each in await read_by(bench, "fork") if each.role == "user"]

    assert [(call.turn, call.tool, call.path) for call in made.done] == [
        (2, "write_file", "notes/a.md"),
        (3, "write_file", "b.md"),
    ]
    assert asked[0] == "First."
    note, _, text = asked[1].partition("\n\n")
    assert text == "What now?"
    assert "after its turn 1" in note
    assert "write_file 2 times" in note
    again = [each.content for each in await read_by(bench, "fork") if each.role == "user"]
    assert again[:2] == asked  # it stays before that message, so that requests begin as before


async def test_files_that_changed_since_are_named(bench: Bench) -> None:
    for name in ("same.txt", "gone.txt", "c.txt"):
        (bench.project / name).write_text("text\n")
    reads = [Use("read_file", {"path": name}) for name in ("a.txt", "same.txt", "gone.txt", "c.txt")]
    await bench.turn(*reads, said="First.")
    (bench.project / "a.txt").write_text("two\n")
    (bench.project / "gone.txt").unlink()
    await bench.turn(said="Second.")

    made = await fork(bench, turn=1)

    assert made.files == (ChangedFile(path="a.txt", how="changed"), ChangedFile(path="gone.txt", how="gone"))
    assert (bench.project / "a.txt").read_text() == "two\n"


async def test_files_that_the_history_wrote_itself_are_not_named(bench: Bench) -> None:
    await bench.turn(NOTED, Use("read_file", {"path": "notes/a.md"}), NOTED, said="First.")

    assert (await fork(bench)).files == ()


async def test_without_a_turn_it_begins_with_all_that_are_over(bench: Bench) -> None:
    await bench.turn(said="First.")
    waiting = await bench.turn(OUTSIDE, said="Second.")

    made = await fork(bench)

    assert (made.turn, made.left_out) == (1, (2,))
    assert await said_in(bench) == ["First."]
    bench.ozzie.plays([Say("Written.")])
    await bench.approved(waiting)
    assert (bench.project / "b.md").exists()


async def test_turns_that_began_before_the_last_one_ended_are_left_out(bench: Bench) -> None:
    """With Run All, later messages are received while an earlier turn runs."""
    release, reached = asyncio.Event(), asyncio.Event()
    bench.ozzie.plays([Wait(release, reached), Say("One.")], [Say("Two.")], [Say("Three.")])
    session = await bench.session()
    messages = [
        NewTurn(session, text, Origin(channel="notebook", sender_id=sender))
        for text, sender in (("First.", "ana"), ("Second.", "bo"), ("Third.", "bo"))
    ]
    first = await bench.ozzie.submit(messages[0])
    await reached.wait()
    others = [await bench.ozzie.submit(message) for message in messages[1:]]
    release.set()
    for sent in (first, *others):
        assert await bench.rests(sent.task_id) == "task.succeeded"

    made = await fork(bench, turn=1)

    assert await said_in(bench) == ["First."]
    row = await bench.ozzie.sessions.row(made.info.session_id)
    assert all(sent.task_id in str(row["forked_without"]) for sent in others)
    assert await bench.ozzie.log.dump() == await bench.ozzie.log.rebuild()
    assert await said_in(bench) == ["First.", "What now?"]


async def test_a_fork_in_the_middle_of_a_turn(bench: Bench) -> None:
    task_id = await bench.turn(READ, NOTED, said="First.")
    calls = await bench.ozzie.log.read(task_id=task_id, types=frozenset({ToolCallStarted.type}))

    made = await fork(bench, event=calls[1].position)
    *_, use, result, asked = await read_by(bench, "fork")

    assert [(call.tool, call.path) for call in made.done] == [("write_file", "notes/a.md")]
    assert use.tool_uses[0].name == "write_file"
    assert "forked before the call had a result" in result.content
    assert "write_file" in asked.content
    with pytest.raises(NotFound):
        await fork(bench, "other", event=(await bench.ozzie.log.head()).position)


async def test_what_can_not_be_forked_from_is_said(bench: Bench) -> None:
    with pytest.raises(NotFound, match="There is no turn 1: the session has no turn yet"):
        await fork(bench, turn=1)
    await bench.turn(said="First.")
    await bench.turn(OUTSIDE, said="Second.")

    with pytest.raises(Conflict, match=r"Turn 2 is not over\."):
        await fork(bench, turn=2)
    with pytest.raises(NotFound, match="There is no turn 3: the session has 2 turns"):
        await fork(bench, turn=3)


async def test_it_has_the_model_of_then(bench: Bench) -> None:
    session = await bench.session()
    await bench.turn(said="First.")
    await bench.ozzie.sessions.choose_model(session, "offline", by="ana")
    await bench.turn(said="Second.")
    await bench.ozzie.sessions.choose_model(session, "", by="ana")
    await bench.turn(said="Third.")

    assert [(await fork(bench, f"{turn}", turn=turn)).info.model for turn in (1, 2, 3)] == ["", "offline", ""]
    assert (await fork(bench, "again", of="2", turn=1)).info.model == ""
    assert (await fork(bench, "same", of="2")).info.model == "offline"


async def test_a_fork_of_a_fork_from_the_shared_part(bench: Bench) -> None:
    for number in (1, 2, 3):
        await bench.turn(said=f"Turn {number}.")
    await fork(bench, "a", turn=2)
    await bench.turn(said="In a.", notebook="a")
    await bench.turn(said="Turn 4.")

    deep = await fork(bench, "b", of="a", turn=1)
    await fork(bench, "c", of="a")

    assert await said_in(bench, "b") == ["Turn 1."]
    assert await said_in(bench, "c") == ["Turn 1.", "Turn 2.", "In a."]
    tree = await bench.ozzie.sessions.tree(deep.info.session_id, most=10)
    assert [(row["key"], row["forked_turn"]) for row in tree] == [("n", 0), ("a", 2), ("b", 1), ("c", 3)]


async def test_a_fork_outlives_its_parent_without_its_history(bench: Bench) -> None:
    await bench.turn(READ, said="First.")
    await bench.turn(said="Second.")
    await fork(bench, "a", turn=1)
    await bench.turn(said="In a.", notebook="a")
    await fork(bench, "b", of="a")

    await bench.ozzie.erasures.erase_session(await bench.session(), "ana")

    assert await said_in(bench, "a") == ["In a."]
    gone = await bench.session("a")
    await bench.ozzie.erasures.erase_session(gone, "ana")
    assert await said_in(bench, "b") == []
    with pytest.raises(Gone):
        await bench.ozzie.projects.own.forks.fork(gone, channel="notebook")
    assert await bench.ozzie.log.dump() == await bench.ozzie.log.rebuild()


async def test_an_erased_turn_that_a_fork_has_not_leaves_the_fork_alone(bench: Bench) -> None:
    await bench.turn(said="First.")
    later = await bench.turn(said="Second.")
    await fork(bench, "early", turn=1)
    await fork(bench, "late", turn=2)

    await bench.ozzie.erasures.erase_message(await message_of(bench, later), "ana")

    (erased,) = await bench.ozzie.log.read(types=frozenset({MessageErased.type}))
    assert isinstance(erased.body, MessageErased)
    assert erased.body.forks == (await bench.session("late"),)
    assert await said_in(bench, "early") == ["First."]
    assert await said_in(bench, "late") == ["First."]
    with pytest.raises(Conflict, match="Turn 2 was erased"):
        await fork(bench, "no", turn=2)


# --- the routes by which labels could be lost ---------------------------------------------------------------------


async def test_a_file_of_a_turn_that_was_left_out_still_asks(bench: Bench) -> None:
    await bench.turn(said="First.")
    page = Use("write_file", {"path": "notes/a.md", "text": "x\n"})
    await bench.approved(await bench.turn(bench.page, page, said=bench.said))

    made = await fork(bench, turn=1)

    assert await bench.ozzie.projects.own.labels.of_session(made.info.session_id) == CLEAN
    await bench.expect_asked(await bench.turn(Use("read_file", {"path": "notes/a.md"}), WRITE, notebook="fork"))


async def test_a_fork_behind_the_page_asks(bench: Bench) -> None:
    await bench.reads_the_page()
    await bench.turn(said="Second.")
    await fork(bench, turn=1)

    await bench.expect_asked(await bench.turn(WRITE, notebook="fork"))


async def test_a_fork_before_a_clearing_asks(bench: Bench) -> None:
    await bench.reads_the_page()
    await bench.ozzie.projects.own.labels.clear_session(await bench.session(), ANA)
    await bench.turn(said="Second.")
    await fork(bench, turn=1)

    await bench.expect_asked(await bench.turn(WRITE, notebook="fork"))


async def test_a_fork_in_the_middle_of_a_turn_behind_the_page_asks(bench: Bench) -> None:
    task_id = await bench.turn(bench.page, said=bench.said)
    last = (await bench.ozzie.log.read(task_id=task_id, types=frozenset({"tool.call.completed"})))[-1]
    await fork(bench, event=last.position)

    await bench.expect_asked(await bench.turn(WRITE, notebook="fork"))


async def test_a_note_of_a_turn_that_was_left_out_is_not_there(bench: Bench) -> None:
    await bench.turn(Use("write_note", {"name": "plan", "text": "Early."}), said="First.")
    await bench.turn(Use("write_note", {"name": "plan", "text": "Late."}), said="Second.")
    await fork(bench, turn=1)

    task_id = await bench.turn(Use("read_note", {"name": "plan"}), notebook="fork")

    (result,) = await bench.results(task_id)
    assert isinstance(result.data, dict)
    assert result.data["text"] == "Early."


async def test_a_yes_for_the_session_is_for_that_session_only(bench: Bench) -> None:
    task_id = await bench.turn(OUTSIDE, said="First.")
    (pending,) = await bench.ozzie.approvals.list(task_id=task_id, statuses=["pending"])
    await bench.ozzie.approvals.approve(pending.approval_id, ANA, extent="session")
    assert await bench.rests(task_id, 2) == "task.succeeded"
    await fork(bench, turn=1)

    asked = await bench.turn(Use("write_file", {"path": "c.md", "text": "x\n"}), notebook="fork")

    assert len(await bench.asked(asked)) == 1
    assert not (bench.project / "c.md").exists()


async def test_the_notebook_of_a_fork_has_nothing_that_turns_behind_it_were_given(bench: Bench) -> None:
    """It is a file without a mark: what stands in it is read without asking."""
    await bench.turn(said="First.")
    page = Use("write_file", {"path": "notes/do as I say.md", "text": "x\n"})
    await bench.approved(await bench.turn(bench.page, page, said=bench.said))
    first = (await bench.ozzie.log.read(session_id=await bench.session(), limit=1))[0]

    made = await fork(bench, event=first.position)
    notebook = await bench.ozzie.exports.notebook_of_fork(made)

    assert [call.path for call in made.done] == ["notes/do as I say.md"]
    assert "A call made since then is not undone: write_file." in notebook
    assert "do as I say" not in notebook


async def test_a_turn_that_read_what_was_left_out_may_quote_it(bench: Bench, servers: FakeWeb) -> None:
    """The first turn fails and is tried again behind the second, whose file it then knows."""
    bench.ozzie.plays([Fail("provider.forbidden")])
    session, origin = await bench.session(), Origin(channel="notebook", sender_id="ana")
    failed = await bench.ozzie.submit(NewTurn(session, "First.", origin))
    assert await bench.rests(failed.task_id) == "task.failed"
    await bench.turn(READ, said="Second.")
    bench.ozzie.plays([Say("It says one.")])
    await bench.ozzie.control.retries.retry(failed.task_id, by="ana")
    assert await bench.rests(failed.task_id, 2) == "task.succeeded"

    made = await fork(bench, turn=1)

    reading = (await bench.ozzie._conversations.get(made.info.session_id))._reading.now
    assert (reading.has_read, reading.has_own) == (True, True)
    assert await said_in(bench) == ["First."]


async def test_an_erased_turn_that_was_left_out_is_not_counted(bench: Bench) -> None:
    bench.ozzie.plays([Fail("provider.forbidden")])
    session, origin = await bench.session(), Origin(channel="notebook", sender_id="ana")
    failed = await bench.ozzie.submit(NewTurn(session, "First.", origin))
    assert await bench.rests(failed.task_id) == "task.failed"
    second = await bench.turn(READ, said="Second.")
    bench.ozzie.plays([Say("Done.")])
    await bench.ozzie.control.retries.retry(failed.task_id, by="ana")
    assert await bench.rests(failed.task_id, 2) == "task.succeeded"
    made = await fork(bench, turn=1)

    await bench.ozzie.erasures.erase_message(await message_of(bench, second), "ana")

    lineage = await lineage_of(bench.ozzie.log, made.info.session_id)
    assert [turn.number for turn in await turns_of(bench.ozzie.log, lineage)] == [1]


async def test_what_other_branches_have_done_is_told_once(bench: Bench) -> None:
    await bench.turn(said="First.")
    await bench.turn(NOTED, said="Second.")
    first = await fork(bench, "a", turn=1)
    from_shared = await fork(bench, "b", of="a", turn=1)
    await bench.turn(said="In a.", notebook="a")
    behind_the_note = await fork(bench, "c", of="a")

    assert [call.path for call in first.done] == ["notes/a.md"]
    assert [call.path for call in from_shared.done] == ["notes/a.md"]
    assert behind_the_note.done == ()
    assert "write_file" in (await said_in(bench, "c"))[1]


async def test_a_note_waits_for_the_first_message_through_a_restart(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "SNAPSHOT_STEP", 1)
    await bench.turn(said="First.")
    await bench.turn(NOTED, said="Second.")
    made = await fork(bench, turn=1)
    conversation = await bench.ozzie._conversations.get(made.info.session_id)

    restored = Conversation.restored([conversation.snapshot()])

    assert "write_file" in restored._note


async def test_a_title_from_a_message_stays_with_the_message(bench: Bench) -> None:
    session = (await bench.ozzie.sessions.begin("untitled", channel="notebook")).session_id
    origin = Origin(channel="notebook", sender_id="ana")
    bench.ozzie.plays([Say("Yes.")])
    sent = await bench.ozzie.submit(NewTurn(session, "My secret plan.", origin))
    assert await bench.rests(sent.task_id) == "task.succeeded"
    forks = bench.ozzie.projects.own.forks

    assert (await forks.fork(session, channel="rest", turn=1)).info.title == "Fork from turn 1"
    await bench.ozzie.sessions.rename(session, "Plans (from turn 4)")
    first = (await forks.fork(session, channel="rest", turn=1)).info
    assert first.title == "Plans (from turn 1)"
    assert (await forks.fork(first.session_id, channel="rest")).info.title == "Plans (from turn 1)"
    empty = await bench.ozzie.sessions.open("empty", title="Empty", channel="rest")
    assert (await forks.fork(empty.session_id, channel="rest")).info.title == "Empty (from the start)"


async def test_a_fork_takes_no_notebook_from_another_session(bench: Bench) -> None:
    await bench.turn(said="First.")
    await fork(bench, "taken", turn=1)

    with pytest.raises(Conflict, match="A session is there already for taken"):
        await fork(bench, "taken", turn=1)
