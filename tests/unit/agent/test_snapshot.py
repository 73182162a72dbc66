"""A conversation restored from its snapshots is the one that was folded, whatever comes next."""

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.snapshot import Snapshot
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import (
    ConversationCompacted,
    LabelsCleared,
    MessageConfirmed,
    MessageRejected,
    SessionPinned,
    TaskRetried,
    TaskStarted,
    TaskUpdated,
    ToolCallCompleted,
)
from ozzie_server_ext.domain.ids import CallId, MessageId, ReplyId, TaskId
from ozzie_server_ext.domain.toolmeta import Said, TargetKind
from tests.unit.agent.test_conversation import Story

NEXT = TaskId("the next one")


def stored(conversation: Conversation) -> Snapshot:
    """The next snapshot, as it comes back from where it was stored."""
    return msgspec.json.decode(msgspec.json.encode(conversation.snapshot()), type=Snapshot)


def state_of(conversation: Conversation, task_id: TaskId) -> dict[str, Any]:
    """All that a turn takes from a conversation."""
    return {
        "messages": conversation.messages(1_000_000, task_id),
        "window": conversation.history(3, task_id),
        "earlier": conversation.earlier(task_id),
        "reading": conversation._reading.now,
        "said": conversation._words.now.named,
        "pins": conversation.pins,
        "summary": conversation.summary,
        "goes on": conversation.goes_on(task_id),
        "used before": conversation.toolsets.used_before(task_id),
        "updates": conversation.has_new_updates(task_id),
    }


TURNS = st.lists(
    st.sampled_from(["plain", "tools", "open", "half", "unfit", "link", "pin", "clear", "compact", "said"]), max_size=12
)


def a_turn(story: Story, kind: str, number: int) -> None:
    """A turn of this kind, up to its end."""
    story.user(f"question {number}, https://typed.example/{number}")
    match kind:
        case "tools":
            story.begins(1).answers("", "a", "b").gives("b", {"n": number}).gives("a", number).begins(2).answers("done")
        case "open":
            story.begins(1).answers("", "a", "b").gives("b", 2)
        case "half":
            story.begins(1).answers("half", whole=False)
        case "unfit":
            story.begins(1).answers("no JSON")
            story.add(MessageRejected(reply_id=ReplyId(f"reply-{story.task}-1"), problem="It is no JSON."))
            story.begins(2).answers('{"fits": true}')
        case "link":
            call = story.begins(1).answers("", "a").requests("a")
            brought, links = ("web:example.org",), (f"https://linked.example/{number}",)
            story.add(
                ToolCallCompleted(
                    call_id=call, ok=True, data=1, summary="", duration_ms=1, brought=brought, links=links
                )
            )
            story.begins(2).answers("read it")
        case "pin":
            story.add(SessionPinned(pin_id=f"p{number}", text=f"fact {number}"))
            story.begins(1).answers("pinned")
        case "said":
            named = Said(TargetKind.RECIPIENT, f"u{number}@firm.example")
            message_id = MessageId(f"m{number}")
            confirmed = MessageConfirmed(
                message_id=message_id, by="ana", way="cell", names=(named,), all_typed=number % 3 != 0
            )
            story.add(confirmed)
            story.begins(1).answers("done as you said")
        case "clear":
            story.add(LabelsCleared(by="ana", way=AuthStrength.CLI))
            story.begins(1).answers("cleared")
        case "compact" if number > 2:
            through = TaskId(f"t{number - 2}")
            compacted = ConversationCompacted(
                call_id=CallId("c"), through=through, text=f"sum {number}", turns=1, messages=1
            )
            story.add(compacted)
            story.begins(1).answers("short")
        case _:
            story.add(TaskUpdated(text="And more.", by="ana"))
            story.begins(1).answers("text")


def told(kinds: Sequence[str]) -> tuple[Story, list[int]]:
    """The turns, and the number of events at the end of each."""
    story, ends = Story(), [0]
    for number, kind in enumerate(kinds, 1):
        a_turn(story, kind, number)
        ends.append(len(story.events))
    return story, ends


@given(TURNS, st.data())
def test_a_restored_conversation_is_the_folded_one_whatever_comes_next(kinds: list[str], data: st.DataObject) -> None:
    story, ends = told(kinds)
    taken = sorted(data.draw(st.sets(st.sampled_from(ends[1:]), max_size=4))) if kinds else []
    writing = Conversation()
    series: list[Snapshot] = []
    for event in story.events:
        writing.apply(event)
        if event.position in taken:
            snapshot = stored(writing)
            series = [*series, snapshot] if snapshot.after else [snapshot]
            assert not snapshot.after or series[-2].position == snapshot.after
    if not series:
        return

    restored = Conversation.restored(series)
    for event in story.events[series[-1].position :]:
        restored.apply(event)

    whole = Conversation(story.events)
    assert not restored.is_outdated
    current = () if series[-1].position == len(story.events) else (story.task,)
    for task_id in (*current, NEXT):
        assert state_of(restored, task_id) == state_of(whole, task_id)
        assert state_of(writing, task_id) == state_of(whole, task_id)
    # The next snapshot goes on with the series, whoever takes it.
    assert stored(restored) == stored(writing)


def test_a_snapshot_has_only_what_is_new() -> None:
    story, ends = told(["plain", "tools", "link"])
    conversation = Conversation(story.events[: ends[2]])
    first = stored(conversation)
    for event in story.events[ends[2] :]:
        conversation.apply(event)

    second = stored(conversation)

    assert (first.after, second.after) == (0, first.position)
    assert len(second.entries) == 3
    assert second.reading.typed == ("https://typed.example/3",)
    assert second.reading.linked == ("https://linked.example/3",)
    assert conversation.fresh == 0


def test_a_turn_from_before_a_snapshot_that_is_retried_makes_it_outdated() -> None:
    story, _ = told(["plain", "half"])
    restored = Conversation.restored([stored(Conversation(story.events))])
    assert not restored.is_outdated

    story.add(TaskRetried(by="ana", attempt=2))
    restored.apply(story.events[-1])

    assert restored.is_outdated


def test_a_folded_conversation_goes_on_with_an_earlier_turn_and_begins_a_new_series() -> None:
    story, _ = told(["half", "plain"])
    conversation = Conversation(story.events)
    stored(conversation)
    story.task = TaskId("t1")
    for body in (TaskRetried(by="ana", attempt=2), TaskStarted(attempt=2, epoch="e")):
        story.add(body)
        conversation.apply(story.events[-1])

    snapshot = stored(conversation)

    assert not conversation.is_outdated
    assert snapshot.after == 0
    assert state_of(Conversation.restored([snapshot]), NEXT) == state_of(Conversation(story.events), NEXT)


def test_a_fork_begins_a_series_of_its_own() -> None:
    story, _ = told(["plain", "tools"])
    fork = Conversation.restored([stored(Conversation(story.events))], is_own=False)

    snapshot = stored(fork)

    assert snapshot.after == 0
    assert len(snapshot.entries) == len(Conversation(story.events).snapshot().entries)
