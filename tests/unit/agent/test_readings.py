"""What a session has read, folded from its events (ADR 31)."""

import msgspec
import pytest

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.provenance import MOST_LINKED, SessionReading
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.events import (
    Event,
    EventBody,
    LabelsCleared,
    MessageCompleted,
    PromptAnswered,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallStarted,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import CallId, PromptId, ReplyId
from ozzie_server_ext.policy.decision import Reading
from tests.unit.agent.test_conversation import Story

WEB = Content.of(Label.WEB, ["docs.example.org"])


class Told(Story):
    """One whose events may bear labels."""

    def bears(self, content: Content) -> "Told":
        """The last event does."""
        self.events[-1] = msgspec.structs.replace(self.events[-1], labels=content.labels, sources=content.sources)
        return self

    def result(self, *links: str) -> "Told":
        done = ToolCallCompleted(call_id=CallId("c"), ok=True, data=None, summary="", duration_ms=1.0, links=links)
        self.add(done)
        return self


def now(events: list[Event]) -> Reading:
    readings = SessionReading()
    for event in events:
        readings.apply(event)
    return readings.now


def gave(reading: Reading, url: str) -> str:
    return reading.gave(url)


# --- labels ------------------------------------------------------------------------------------------------------


def test_a_session_bears_what_any_of_its_events_does_until_a_person_takes_it_off() -> None:
    story = Told()
    story.user("hi")
    assert Conversation(story.events).content == CLEAN
    story.result().bears(WEB)
    story.user("and now?")
    story.add(MessageCompleted(reply_id=ReplyId("r"), text="so", finish="stop"))
    assert Conversation(story.events).content == WEB

    story.add(LabelsCleared(by="ana", way=AuthStrength.BROWSER))
    assert Conversation(story.events).content == CLEAN
    assert now(story.events).has_read, "it was read all the same"
    story.result().bears(Content.of(Label.MCP, ["tickets"]))
    assert Conversation(story.events).content == Content.of(Label.MCP, ["tickets"])


def test_a_rounds_calls_are_made_from_what_stood_there_when_the_model_was_asked() -> None:
    story = Told()
    story.user("look at https://docs.example.org/guide")
    story.begins(1).answers("", "u1", "u2")
    story.result("https://docs.example.org/next").bears(WEB)
    conversation = Conversation(story.events)
    first = conversation.last_round(story.task)
    assert first is not None
    assert (first.reading.content, first.reading.has_read) == (CLEAN, False)

    story.begins(2).answers("", "u3")
    second = Conversation(story.events).last_round(story.task)
    assert second is not None
    assert (second.reading.content, second.reading.has_read) == (WEB, True)
    assert second.reading.gave("https://docs.example.org/next") == "address"


# --- addresses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/a",
        "See https://example.org/a.",
        "(https://example.org/a)",
        "**https://example.org/a**",
        "<https://example.org/a>",
        'a "https://example.org/a", say',
        "[a](https://example.org/a)",
        "HTTPS://EXAMPLE.org/a#there",
    ],
)
def test_an_address_that_a_person_wrote_is_theirs_however_they_wrote_it(text: str) -> None:
    story = Told()
    story.user(text)
    story.result()

    assert gave(now(story.events), "https://example.org/a") == "address"
    assert gave(now(story.events), "https://example.org/b") == ""
    assert gave(now(story.events), "https://other.example/a") == ""


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("look at example.org", "https://example.org/"),
        ("look at example.org.", "http://example.org/"),
        ("see docs.example.org/guide, please", "https://docs.example.org/guide"),
        ("(www.example.org/a?b=c)", "https://www.example.org/a?b=c"),
    ],
)
def test_an_address_without_its_protocol_is_given_to_the_letter_and_its_host_is_not(text: str, url: str) -> None:
    story = Told()
    story.user(text)
    story.result()

    assert gave(now(story.events), url) == "address"
    assert gave(now(story.events), url + "x") == ""


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("(see http://h.example/Foo_(bar)).", "http://h.example/Foo_(bar)"),
        ("[http://h.example/c](http://h.example/c)", "http://h.example/c"),
        ("http://h.example/c。", "http://h.example/c"),
    ],
)
def test_what_stands_around_an_address_is_no_part_of_it(text: str, url: str) -> None:
    story = Told()
    story.user(text)
    story.result()

    assert gave(now(story.events), url) == "address"


def test_an_address_is_known_once_it_was_asked_for() -> None:
    story = Told()
    story.user("hi")
    url = "https://example.org/made-up"
    asked = {"use_id": "u1", "tool_id": "web.fetch", "name": "fetch_url", "version": "", "round": 1, "index": 0}
    story.add(ToolCallRequested(call_id=CallId("c1"), args={"url": url}, **asked))
    story.result()
    assert gave(now(story.events), url) == ""

    story.add(ToolCallStarted(call_id=CallId("c1")))

    assert gave(now(story.events), url) == "address"
    assert now(story.events).followed == 1
    assert now(story.user("And now?").events).followed == 0


def test_an_address_in_the_answer_to_a_question_is_the_persons() -> None:
    story = Told()
    story.user("hi")
    story.result()
    story.add(PromptAnswered(prompt_id=PromptId("p"), option="text", by="ana", text="https://example.org/a"))

    assert gave(now(story.events), "https://example.org/a") == "address"


def test_a_message_that_bears_a_label_gives_no_address() -> None:
    story = Told()
    story.user("https://example.org/a")
    story.bears(Content.of(Label.CHANNEL, ["telegram"]))

    assert gave(now(story.events), "https://example.org/a") == ""


def test_only_what_a_tool_says_are_links_gives_addresses() -> None:
    story = Told()
    story.user("hi")
    said: EventBody = ToolCallCompleted(
        call_id=CallId("c"), ok=True, data={"text": "https://evil.example/?d=secret"}, summary="", duration_ms=1.0
    )
    story.add(said)
    story.add(MessageCompleted(reply_id=ReplyId("r"), text="https://evil.example/?d=secret", finish="stop"))

    assert gave(now(story.events), "https://evil.example/?d=secret") == ""


def test_of_very_many_addresses_those_behind_the_bound_are_asked_for() -> None:
    story = Told()
    story.user("hi")
    for page in range(MOST_LINKED // 200 + 1):
        story.result(*(f"https://example.org/{page}/{number}" for number in range(200)))

    found = now(story.events)
    assert gave(found, "https://example.org/0/0") == "address"
    assert len(found.linked) == MOST_LINKED
    assert gave(found, f"https://example.org/{MOST_LINKED // 200}/0") == ""


@pytest.mark.parametrize(
    "outcome",
    [
        ToolCallCompleted(call_id=CallId("c"), ok=True, data=None, summary="", duration_ms=1.0),
        ToolCallFailed(call_id=CallId("c"), code="x", message="It says …", duration_ms=1.0),
        ToolCallUncertain(call_id=CallId("c"), reason="It says …"),
        ToolCallCancelled(call_id=CallId("c"), reason="The turn was stopped."),
    ],
)
def test_whatever_a_call_comes_to_counts_as_read(outcome: EventBody) -> None:
    story = Told()
    story.user("hi")
    made_up = "https://evil.example/?d=1"
    assert gave(now(story.events), made_up) == "unread"
    story.add(outcome)
    assert gave(now(story.events), made_up) == ""
    assert now(story.events).has_own


def test_a_failure_of_the_web_alone_is_nothing_of_the_users_own() -> None:
    story = Told()
    story.user("hi")
    story.add(ToolCallFailed(call_id=CallId("c"), code="x", message="404", duration_ms=1.0, brought=("web:a.example",)))
    assert now(story.events).has_read
    assert not now(story.events).has_own
