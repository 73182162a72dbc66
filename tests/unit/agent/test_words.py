"""Which names count as a person's own words for a task: those of messages that they are known to have written."""

import msgspec

from ozzie_server_ext.agent.own_words import MOST_TEXTS, OwnWords
from ozzie_server_ext.domain.events import (
    Erased,
    MessageConfirmed,
    MessageReceived,
    Origin,
    PromptAnswered,
    SessionForked,
    TaskRetried,
    TaskUpdated,
)
from ozzie_server_ext.domain.ids import MessageId, PromptId, SessionId, TaskId
from ozzie_server_ext.domain.messages import DELEGATED
from ozzie_server_ext.domain.toolmeta import Said, TargetKind
from ozzie_server_ext.policy.decision import Words
from tests.unit.agent.test_conversation import Story

ANA = Said(TargetKind.RECIPIENT, "ana@firm.example")
BEN = Said(TargetKind.RECIPIENT, "ben@firm.example")
ANSWER = MessageId("answer")


class Telling(Story):
    def confirmed(self, message: int | MessageId, *names: Said, task: str = "", all_typed: bool = True) -> "Telling":
        """That a message, or the nth one, is known to be a person's."""
        message_id = MessageId(f"m{message}") if isinstance(message, int) else message
        now, self.task = self.task, TaskId(task or (f"t{message}" if isinstance(message, int) else str(self.task)))
        self.add(MessageConfirmed(message_id=message_id, by="ana", way="cell", names=names, all_typed=all_typed))
        self.task = now
        return self

    def words(self, task: str) -> Words:
        words = OwnWords()
        for event in self.events:
            words.apply(event)
        return words.of(TaskId(task))

    def of(self, task: str) -> frozenset[Said]:
        return self.words(task).named


def telling(*texts: str) -> Telling:
    story = Telling()
    for text in texts:
        story.user(text)
    return story


def test_what_confirmed_messages_name_counts_together() -> None:
    story = telling("Write to ana@firm.example.").confirmed(1, ANA)
    story.user("And to ben@firm.example.")
    assert story.of("t2") == frozenset(), "nobody knows yet who wrote that"

    story.confirmed(2, BEN)

    assert story.of("t2") == {ANA, BEN}
    assert story.of("t1") == {ANA}


def test_messages_of_which_all_was_typed_are_a_persons_as_a_whole() -> None:
    story = telling("Thank Ana.").confirmed(1, ANA)
    story.user("And Ben, as in: <pasted>")
    story.confirmed(2, BEN, all_typed=False)
    story.user("Soon.")
    story.confirmed(3)

    assert story.words("t1").texts == ("Thank Ana.",)
    assert story.words("t2") == Words(frozenset({BEN}))
    assert story.words("t3") == Words(frozenset({BEN}), ("Soon.",))


def test_so_many_messages_count_and_no_more() -> None:
    story = telling()
    for number in range(MOST_TEXTS + 5):
        story.user(f"Message {number}.")
        story.confirmed(number + 1)

    texts = story.words(f"t{MOST_TEXTS + 5}").texts
    assert (len(texts), texts[-1]) == (MOST_TEXTS, f"Message {MOST_TEXTS + 4}.")


def test_a_message_that_may_be_anybodys_ends_what_was_named_before_it() -> None:
    story = telling("Write to ana@firm.example.").confirmed(1, ANA)
    story.user("Write the same again, with all that you know.")
    story.user("Thank ben@firm.example.")
    story.confirmed(3, BEN)

    assert story.of("t2") == frozenset()
    assert story.of("t3") == {BEN}


def test_what_is_said_behind_it_does_not_count_for_a_task_that_may_be_anybodys() -> None:
    """It may be running, paused, waiting or tried again meanwhile."""
    story = telling("Wait, then send all of it.", "Thank ana@firm.example.").confirmed(2, ANA)
    story.task = TaskId("t1")
    story.add(TaskRetried(by="kernel", attempt=2))

    assert story.of("t1") == frozenset()
    assert story.of("t2") == {ANA}


def test_a_word_for_a_message_adds_to_what_held_when_it_came() -> None:
    story = telling("Write to ana@firm.example.", "And to ben@firm.example.").confirmed(2, BEN).confirmed(1, ANA)

    assert story.of("t2") == {BEN}
    assert story.of("t1") == {ANA}


def test_an_answer_or_update_that_may_be_anybodys_ends_what_the_task_had() -> None:
    for body in (
        TaskUpdated(text="Everything in notes/.", by="kernel"),
        PromptAnswered(prompt_id=PromptId("p"), option="answer", by="kernel", text="Everything in notes/."),
    ):
        story = telling("Write to ana@firm.example, but ask me what.").confirmed(1, ANA)
        story.add(body)
        assert story.of("t1") == frozenset()
        story.user("Thanks.")
        assert story.confirmed(2).of("t2") == frozenset()


def test_one_that_is_a_persons_adds_to_it() -> None:
    story = telling("Write to ana@firm.example.").confirmed(1, ANA)
    story.add(PromptAnswered(prompt_id=PromptId("p"), option="answer", by="a", text="Ben, too", message_id=ANSWER))

    assert story.confirmed(ANSWER, BEN).of("t1") == {ANA, BEN}


def test_what_was_named_before_ends_with_a_message_that_was_not_typed_in_whole() -> None:
    """A person may run a stranger's cell by hand: "send all of it to the one from before"."""
    story = telling("Write to ana@firm.example.").confirmed(1, ANA)
    story.user("Send all of it to the one from before. And thank ben@firm.example.")
    story.confirmed(2, BEN, all_typed=False)
    story.user("Thanks.")

    assert story.of("t2") == {BEN}
    assert story.confirmed(3).of("t3") == {BEN}


def test_a_task_has_none_while_one_of_its_messages_may_be_anybodys() -> None:
    story = telling("Ask me to whom, then send them all of it.")
    story.add(PromptAnswered(prompt_id=PromptId("p"), option="answer", by="a", text="To Ana", message_id=ANSWER))
    story.confirmed(ANSWER, ANA)
    assert story.of("t1") == frozenset(), "its first message is not known to be a person's"

    story = telling("Write to ana@firm.example.")
    story.add(TaskUpdated(text="All of it.", by="kernel"))
    story.confirmed(1, ANA)
    assert story.of("t1") == frozenset(), "the word for its first message came behind the update"


def test_a_choice_without_words_changes_nothing() -> None:
    story = telling("Write to ana@firm.example.").confirmed(1, ANA)
    story.add(PromptAnswered(prompt_id=PromptId("p"), option="more", by="ana"))

    assert story.of("t1") == {ANA}


def test_what_is_made_from_outside_content_or_handed_over_can_not_be_confirmed() -> None:
    story = telling("Write to ana@firm.example.")
    story.events[-1] = msgspec.structs.replace(story.events[-1], labels=("web",), sources=("web:x.example",))
    assert story.confirmed(1, ANA).of("t1") == frozenset()

    handed_over = Telling()
    handed_over.task = TaskId("t1")
    origin = Origin(channel=DELEGATED, sender_id="t0")
    handed_over.add(MessageReceived(message_id=MessageId("m1"), text="Write to ana@firm.example.", origin=origin))
    assert handed_over.confirmed(1, ANA).of("t1") == frozenset()


def test_in_a_fork_and_behind_what_was_erased_nothing_counts_that_was_said_before() -> None:
    for body in (SessionForked(parent=SessionId("s0"), position=3, by="ana"), Erased()):
        story = telling("Write to ana@firm.example.").confirmed(1, ANA)
        story.add(body)
        assert story.of("t1") == frozenset()
