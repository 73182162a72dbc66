"""Where a turn is seen: what is published, and how often."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from ipywidgets.widgets.widget import _instances  # the public name of it is deprecated

from ozzie_kernel import cards
from ozzie_kernel import display as shown
from ozzie_kernel.display import ConsoleDisplay, StaticDisplay, WidgetDisplay
from ozzie_kernel.keyboard import MAX_BLANK
from ozzie_kernel.widgets import html_widget
from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.graph.view import GraphStep, GraphView
from ozzie_server_ext.render.page import paragraph
from ozzie_server_ext.render.turnfold import fold, new_turn
from ozzie_server_ext.render.turnview import TurnView
from tests.unit.render.frames import ASKED, BEGINNING, GRANTED, PUT, START, TASK, Frame, folded, waiting

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Page:
    """Remembers what was published."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []

    def publish(self, msg_type: str, content: dict[str, Any]) -> None:
        self.messages.append((msg_type, content))


class Person:
    """Types these lines, one after the other, and then nothing more; the answers that are passed on are kept."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.prompts: list[str] = []
        self.answers: list[tuple[str, JsonObject]] = []
        self.prompted = asyncio.Condition()

    async def read_line(self, prompt: str) -> str:
        async with self.prompted:
            self.prompts.append(prompt)
            self.prompted.notify_all()
        if not self.lines:
            await asyncio.Event().wait()
        return self.lines.pop(0)

    async def answer(self, method: str, params: JsonObject) -> None:
        self.answers.append((method, params))


SILENT = Person()


def unanswered(method: str, params: JsonObject) -> None:
    raise AssertionError("nobody answers here")


def saying(text: str) -> TurnView:
    view = fold(new_turn(task_id="t"), "task.started", {"attempt": 1}, NOW)
    return fold(view, "reply.delta", {"reply_id": "r", "offset": 0, "phase": "delta", "content": text})


def test_a_widget_is_shown_once_and_replaced_by_the_final_form_in_its_place() -> None:
    page = Page()
    display = WidgetDisplay(page, "here", unanswered)

    display.show(saying("a"), NOW)
    display.finish(saying("ab"))

    assert [kind for kind, _ in page.messages] == ["display_data", "update_display_data"]
    assert {content["transient"]["display_id"] for _, content in page.messages} == {"here"}
    assert "task t" in page.messages[0][1]["data"]["text/plain"]


def test_a_long_turn_is_drawn_less_often_and_its_end_at_once() -> None:
    page = Page()
    display = WidgetDisplay(page, "here", unanswered)
    long = "word " * 20_000
    display.show(saying(long), NOW)
    widget = display._widget
    assert widget is not None
    drawn = widget.value

    display.show(saying(long + "more"), NOW)
    assert widget.value == drawn
    display.finish(saying(long + "more"))
    assert "more" in page.messages[-1][1]["data"]["text/markdown"]


def test_a_problem_takes_the_place_of_a_turn_that_never_was_and_stands_below_one_that_is_finished() -> None:
    before, after = Page(), Page()
    display = WidgetDisplay(before, "here", unanswered)
    display.show(new_turn(), NOW)
    display.problem({"text/plain": "No."})
    display = WidgetDisplay(after, "there", unanswered)
    display.show(saying("a"), NOW)
    display.finish(saying("a"))
    display.problem({"text/plain": "No."})

    assert [kind for kind, _ in before.messages] == ["display_data", "update_display_data"]
    assert [kind for kind, _ in after.messages] == ["display_data", "update_display_data", "display_data"]


def test_without_widgets_a_turn_is_text_or_its_final_form_only() -> None:
    console, file = Page(), Page()

    for display in (ConsoleDisplay(console, SILENT, SILENT.answer), StaticDisplay(file)):
        display.show(saying("a"), NOW)
        display.finish(fold(saying("ab"), "task.succeeded", {"rounds": 1}, NOW))

    text = "".join(content["text"] for _, content in console.messages)
    assert text.startswith("[working]")
    assert "[done]" in text
    assert [kind for kind, _ in file.messages] == ["display_data"]


def test_a_run_is_drawn_below_its_turn_and_its_picture_is_kept_beside_the_final_form() -> None:
    page = Page()
    display = WidgetDisplay(page, "here", unanswered)
    steps = (GraphStep(step_id="plan", title="plan <b>"), GraphStep(step_id="merge", title="merge", needs=("plan",)))
    graph = GraphView(name="review", steps=steps)
    display.show(saying("a"), NOW)
    widget = display._widget
    assert widget is not None
    display.graph(graph, NOW, is_final=False)
    first = widget.value
    display.graph(replace(graph, steps=(replace(steps[0], state="Done"), steps[1])), NOW, is_final=False)

    assert (first.count("oz-graph"), widget.value.count("oz-graph")) == (1, 1)
    assert "plan &lt;b&gt;, Waiting" in first
    assert "plan &lt;b&gt;, Done" in widget.value
    display.graph(replace(graph, steps=steps * 31), NOW, is_final=False)
    assert "oz-graph" not in widget.value
    display.finish(saying("ab"))
    display.graph(graph, NOW, is_final=True)
    assert [kind for kind, _ in page.messages] == ["display_data", "update_display_data", "display_data"]
    assert list(page.messages[-1][1]["data"]) == ["image/svg+xml", "text/plain"]


def test_a_note_stands_above_the_turn_also_where_the_turn_was_shown_already() -> None:
    page = Page()
    display = WidgetDisplay(page, "here", unanswered)
    display.show(new_turn(), NOW)

    display.note(paragraph("First this."))
    display.show(saying("a"), NOW)
    display.finish(saying("ab"))

    kinds = [(kind, content["transient"]["display_id"]) for kind, content in page.messages]
    assert kinds[:2] == [("display_data", "here"), ("update_display_data", "here")]
    assert "First this." in page.messages[1][1]["data"]["text/plain"]
    below = kinds[2][1]
    assert below != "here"
    assert kinds[2:] == [("display_data", below), ("update_display_data", below)]
    assert "ab" in page.messages[-1][1]["data"]["text/markdown"]


def test_a_note_is_a_line_of_a_console_and_an_output_of_its_own_where_nobody_watches() -> None:
    console, unattended = Page(), Page()
    ConsoleDisplay(console, SILENT, SILENT.answer).note(paragraph("First this."))
    StaticDisplay(unattended).note(paragraph("First this."))

    assert console.messages == [("stream", {"name": "stdout", "text": "First this.\n"})]
    assert [content["data"]["text/markdown"] for _, content in unattended.messages] == ["First this."]


def test_all_widgets_share_their_looks_so_that_a_turn_opens_one_comm() -> None:
    first, second = html_widget("a"), html_widget("b")

    assert first.model_id != second.model_id
    assert first.layout is second.layout
    assert first.style is second.style
    first.close()
    assert second.layout.comm is not None  # whoever closes one leaves the looks to the others


async def asking(display: ConsoleDisplay) -> None:
    """Until what is asked has its answer."""
    assert display._asking is not None
    await display._asking.work


async def reading(person: Person, count: int) -> None:
    """Until that many prompts stood before the person."""
    async with asyncio.timeout(5), person.prompted:
        await person.prompted.wait_for(lambda: len(person.prompts) >= count)


def waiting_view(**changed: object) -> TurnView:
    return folded(waiting(**changed))


def test_a_page_that_draws_cards_gets_no_buttons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "CHARACTERS_PER_S", float("inf"))
    page = Page()
    display = WidgetDisplay(page, "here", unanswered)
    display.show(waiting_view(), NOW)
    display._cards._receive(None, {"here": True}, [])
    monkeypatch.setattr(display._cards, "_plain_at", 0.0)

    display.show(waiting_view(), NOW)

    assert display._box is None
    assert [kind for kind, _ in page.messages] == ["display_data"]


def test_plain_buttons_stand_below_the_turn_where_the_page_draws_no_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "HERE_S", 0.0)
    pressed: list[tuple[str, JsonObject]] = []
    display = WidgetDisplay(Page(), "here", lambda method, params: pressed.append((method, params)))
    display.show(waiting_view(), NOW)
    display.show(waiting_view(), NOW)
    assert display._box is not None
    html, plain = display._box.children
    row, comment = plain.children
    once, session, reject = list(row.children)

    assert "Change 2 lines" in html.value
    once.click()
    session.click()
    comment.value = "not that one"
    reject.click()

    named = {"approval_id": "01APPROVAL", "binds": "b1"}
    assert pressed == [
        ("approval.answer", {**named, "answer": "approve", "extent": "once"}),
        ("approval.answer", {**named, "answer": "approve", "extent": "session"}),
        ("approval.answer", {**named, "answer": "reject", "comment": "not that one"}),
    ]
    assert all(button.disabled for button in row.children)


def test_a_turn_whose_buttons_are_gone_leaves_no_widget_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "CHARACTERS_PER_S", float("inf"))
    monkeypatch.setattr(cards, "HERE_S", 0.0)
    html_widget("").close()  # what all share is there
    before = set(_instances)
    display = WidgetDisplay(Page(), "here", unanswered)
    display.show(waiting_view(), NOW)
    display.show(waiting_view(), NOW)
    with_buttons = set(_instances) - before

    display.show(folded([*waiting(), *GRANTED]), NOW)
    without = set(_instances) - before
    display.finish(folded([*waiting(), *GRANTED, (30, "task.succeeded", {"rounds": 1})]))

    assert len(without) < len(with_buttons)
    assert set(_instances) == before


def test_a_kernel_has_no_buttons_for_what_it_may_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "HERE_S", 0.0)
    display = WidgetDisplay(Page(), "here", unanswered)
    for _ in range(2):
        display.show(waiting_view(needs="cli"), NOW)

    assert display._box is None
    assert display._widget is not None
    assert "ozzie approvals approve 01APPROVAL" in display._widget.value


def test_the_final_form_takes_the_place_of_turn_and_buttons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "CHARACTERS_PER_S", float("inf"))
    monkeypatch.setattr(cards, "HERE_S", 0.0)
    page = Page()
    display = WidgetDisplay(page, "here", unanswered)
    display.show(waiting_view(), NOW)

    display.show(folded([*waiting(), *GRANTED]), NOW)
    assert display._box is not None
    assert len(display._box.children) == 1
    display.finish(folded([*waiting(), *GRANTED, (30, "task.succeeded", {"rounds": 1})]))

    assert "text/markdown" in page.messages[-1][1]["data"]
    assert display._box is None


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", {"answer": "approve", "extent": "once"}),
        (" s ", {"answer": "approve", "extent": "session"}),
        ("n", {"answer": "reject", "comment": ""}),
        ("n  not that one", {"answer": "reject", "comment": "not that one"}),
    ],
)
async def test_the_keyboard_answers_on_a_console(typed: str, answer: JsonObject) -> None:
    page, person = Page(), Person("", "Y", "yes", "yy", "d", "no", typed)
    display = ConsoleDisplay(page, person, person.answer)

    display.show(waiting_view(), NOW)
    await asking(display)

    assert person.answers == [("approval.answer", {"approval_id": "01APPROVAL", "binds": "b1", **answer})]
    assert len(person.prompts) == 7
    first, *again = person.prompts
    assert "Change 2 lines of notes/suppliers.md?\n" in first
    assert "  | +| 4.35 |\n" in first
    assert first.endswith("\n[y] once  [s] this session  [n] reject  [d] details  > ")
    assert [prompt.count("default.changes") for prompt in again] == [0, 0, 0, 0, 1, 0]
    assert "Approval needed" not in "".join(content["text"] for _, content in page.messages)


ANSWERED = f"{START.astimezone():%H:%M}"
OVER: list[tuple[list[Frame], list[Frame], str]] = [
    (waiting(), GRANTED[:1], f"Already answered: Ana approved it at {ANSWERED}."),
    (
        waiting(),
        [(24, "approval.rejected", {"approval_id": "01APPROVAL", "comment": "", "by": "Ana", "way": "browser"})],
        f"Already answered: Ana rejected it at {ANSWERED}.",
    ),
    (
        waiting(),
        [(24, "approval.expired", {"approval_id": "01APPROVAL", "why": "changed"})],
        "This is no longer asked.",
    ),
    (
        [*BEGINNING, *PUT],
        [(24, "prompt.answered", {"prompt_id": "p2", "option": "1", "by": "Ana"})],
        f"Already answered: Ana at {ANSWERED}.",
    ),
    (
        [*BEGINNING, *ASKED],
        [(24, "prompt.answered", {"prompt_id": "p1", "option": "stop", "by": "Ana"})],
        f"Already answered: Ana at {ANSWERED}.",
    ),
    ([*BEGINNING, *PUT], [(24, "task.cancelled", {"by": "Ana", "reason": ""})], "This is no longer asked."),
]
"""What is asked, how it ends elsewhere, and what is told of that where the prompt still stands."""


def printed(page: Page) -> str:
    return "".join(content["text"] for _, content in page.messages)


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize(("asked", "end", "told"), OVER)
async def test_who_is_asked_on_a_console_is_told_that_an_answer_comes_too_late(
    asked: list[Frame], end: list[Frame], told: str, *, is_last: bool
) -> None:
    page, person = Page(), Person()
    display = ConsoleDisplay(page, person, person.answer)
    display.show(folded(asked), NOW)
    assert display._asking is not None
    work = display._asking.work

    after = folded([*asked, *end])
    if is_last:
        display.finish(after)  # the turn ended in the same breath
    else:
        display.show(after, NOW)
    await asyncio.wait({work}, timeout=5)

    assert work.cancelled()
    assert person.answers == []
    assert f"{told} An answer here does nothing.\n" in printed(page)


async def test_the_next_question_is_asked_where_the_one_before_was_answered_elsewhere() -> None:
    page, person = Page(), Person()
    display = ConsoleDisplay(page, person, person.answer)
    display.show(waiting_view(), NOW)
    assert display._asking is not None
    first = display._asking.work
    await reading(person, 1)

    display.show(folded([*waiting(), *GRANTED, *PUT]), NOW)
    await reading(person, 2)

    assert first.cancelled()
    assert "Already answered: Ana" in printed(page)
    assert person.prompts[1].startswith("[waiting] Which year do you mean?")
    display.finish(folded([*waiting(), *GRANTED, *PUT]))


async def test_a_time_that_is_up_is_told_once() -> None:
    page, person = Page(), Person()
    display = ConsoleDisplay(page, person, person.answer)
    display.show(waiting_view(), NOW)

    display.show(folded([*waiting(), (24, "approval.expired", {"approval_id": "01APPROVAL", "why": "time"})]), NOW)

    assert "Approval needed (expired; nothing was done)" in printed(page)
    assert "any more" not in printed(page)


async def test_a_person_who_stops_the_turn_or_leaves_is_not_told_of_its_question() -> None:
    stopped, left = Page(), Page()
    for page in (stopped, left):
        person = Person()
        display = ConsoleDisplay(page, person, person.answer)
        display.show(waiting_view(), NOW)
        assert display._asking is not None
        work = display._asking.work
        if page is stopped:
            display.stop()
            display.show(waiting_view(), NOW)  # until the gateway has stopped it
            display.finish(folded([*waiting(), (24, "task.cancelled", {"by": "Ana", "reason": ""})]))
        else:
            display.finish(waiting_view())
        await asyncio.wait({work}, timeout=5)

        assert work.cancelled()
        assert display._asking is None
        assert "no longer asked" not in printed(page)
        assert "Approval needed" not in printed(page)


class Gateway:
    """Takes one answer, and says what it has against it when it is told to."""

    def __init__(self) -> None:
        self.taken = asyncio.Event()
        self.verdict: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def answer(self, method: str, params: JsonObject) -> None:
        self.taken.set()
        await self.verdict


async def test_an_answer_that_was_given_is_not_called_late_where_its_event_is_heard_of_first() -> None:
    page, gateway = Page(), Gateway()
    display = ConsoleDisplay(page, Person("y"), gateway.answer)
    display.show(waiting_view(), NOW)
    assert display._asking is not None
    work = display._asking.work
    await gateway.taken.wait()

    display.finish(folded([*waiting(), *GRANTED]))
    gateway.verdict.set_result(None)
    await work

    assert "Already answered" not in printed(page)


async def test_what_the_gateway_has_against_an_answer_is_said_also_after_the_other_one_is_heard_of() -> None:
    page, gateway = Page(), Gateway()
    display = ConsoleDisplay(page, Person("n"), gateway.answer)
    display.show(waiting_view(), NOW)
    assert display._asking is not None
    work = display._asking.work
    await gateway.taken.wait()

    display.show(folded([*waiting(), *GRANTED]), NOW)
    gateway.verdict.set_exception(Conflict("Already answered: Ana approved it at 14:05. Your answer did nothing."))
    await work

    assert printed(page).count("Already answered: Ana approved it at 14:05. Your answer did nothing.\n") == 1
    assert "An answer here" not in printed(page)


async def test_what_the_gateway_has_against_an_answer_is_said() -> None:
    page, person = Page(), Person("y")

    async def late(method: str, params: JsonObject) -> None:
        raise Conflict("Already answered: Ana approved it at 14:05. Your answer did nothing.")

    display = ConsoleDisplay(page, person, late)
    display.show(waiting_view(), NOW)
    await asking(display)

    assert page.messages[-1][1]["text"].startswith("Already answered: Ana approved it at 14:05.")


def test_a_question_has_a_button_for_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "HERE_S", 0.0)
    monkeypatch.setattr(shown, "CHARACTERS_PER_S", float("inf"))
    pressed: list[tuple[str, JsonObject]] = []
    display = WidgetDisplay(Page(), "here", lambda method, params: pressed.append((method, params)))
    display.show(folded([*BEGINNING, *ASKED]), NOW)
    assert display._box is not None
    _, row = list(display._box.children)

    assert [button.description for button in row.children] == ["Allow $0.50 more", "Stop here"]
    row.children[0].click()
    assert pressed == [("task.answer", {"task_id": TASK, "prompt_id": "p1", "option": "allow"})]

    display.show(folded([*BEGINNING, *ASKED, (9, "prompt.answered", {"prompt_id": "p1", "option": "allow"})]), NOW)
    assert len(display._box.children) == 1


def put_buttons(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, list[tuple[str, JsonObject]]]:
    """The buttons of a question of the model's and its line for words, in a page without our cards; what is sent."""
    monkeypatch.setattr(cards, "HERE_S", 0.0)
    monkeypatch.setattr(shown, "CHARACTERS_PER_S", float("inf"))
    pressed: list[tuple[str, JsonObject]] = []
    display = WidgetDisplay(Page(), "here", lambda method, params: pressed.append((method, params)))
    display.show(folded([*BEGINNING, *PUT]), NOW)
    assert display._box is not None
    _, box = list(display._box.children)
    row, words = box.children
    return row, words, pressed


def test_a_question_of_the_models_has_a_line_for_words_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    row, words, pressed = put_buttons(monkeypatch)
    assert [button.description for button in row.children] == ["2025", "2026", "Something else…", "Skip"]

    row.children[2].click()
    assert pressed == [], "nothing stands there yet"
    words.value = "2019"
    row.children[2].click()

    answer = {"task_id": TASK, "prompt_id": "p2", "option": "text", "text": "2019"}
    assert pressed == [("task.answer", answer)]


def test_a_choice_is_sent_without_the_words_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    row, words, pressed = put_buttons(monkeypatch)
    words.value = "half a tho"

    row.children[1].click()

    assert pressed == [("task.answer", {"task_id": TASK, "prompt_id": "p2", "option": "2"})]


def test_a_choice_that_is_called_as_another_answer_has_a_button_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "HERE_S", 0.0)
    monkeypatch.setattr(shown, "CHARACTERS_PER_S", float("inf"))
    pressed: list[tuple[str, JsonObject]] = []
    at, kind, asked = PUT[0]
    options = [{**asked["options"][0], "label": "Skip"}, *asked["options"][1:]]
    display = WidgetDisplay(Page(), "here", lambda method, params: pressed.append((method, params)))
    display.show(folded([*BEGINNING, (at, kind, {**asked, "options": options}), PUT[1]]), NOW)
    assert display._box is not None
    row: Any = display._box.children[1].children[0]

    row.children[0].click()

    assert [button.description for button in row.children] == ["Skip", "2026", "Something else…", "Skip"]
    assert pressed[0][1]["option"] == "1"


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("1", {"option": "1"}),
        (" 2 ", {"option": "2"}),
        ("-", {"option": "skip"}),
        ("s", {"option": "text", "text": "s"}),
        ("2024", {"option": "text", "text": "2024"}),
        ("the one before", {"option": "text", "text": "the one before"}),
    ],
)
async def test_a_question_of_the_models_is_answered_on_a_console(typed: str, answer: JsonObject) -> None:
    person = Person("", "3", "0", typed)
    display = ConsoleDisplay(Page(), person, person.answer)

    display.show(folded([*BEGINNING, *PUT]), NOW)
    await asking(display)

    said, *again = person.prompts
    keys = "[1] 2025  [2] 2026  [-] Skip  or your own words  > "
    lines = "[waiting] Which year do you mean?\nThe table has two.\n  2025: The last full one.\n"
    assert said == lines + keys
    assert again == [keys, keys, keys]
    assert person.answers == [("task.answer", {"task_id": TASK, "prompt_id": "p2", **answer})]


@pytest.mark.parametrize("nothing", ["\x04", " \t ", "\x04\x04 \x00", "\u200b", "\x1b"])
async def test_a_line_without_a_visible_character_is_no_words_of_ones_own(nothing: str) -> None:
    person = Person(nothing, "2024")
    display = ConsoleDisplay(Page(), person, person.answer)

    display.show(folded([*BEGINNING, *PUT]), NOW)
    await asking(display)

    sent = {"task_id": TASK, "prompt_id": "p2", "option": "text", "text": "2024"}
    assert person.answers == [("task.answer", sent)]
    assert len(person.prompts) == 2


async def test_a_console_whose_input_is_closed_is_not_asked_for_ever() -> None:
    page, person = Page(), Person(*["\x04"] * (MAX_BLANK + 1))
    display = ConsoleDisplay(page, person, person.answer)

    display.show(folded([*BEGINNING, *PUT]), NOW)
    await asking(display)
    display.show(folded([*BEGINNING, *PUT]), NOW)
    await asking(display)

    assert (len(person.prompts), person.answers) == (MAX_BLANK, [])
    assert (
        page.messages[-1][1]["text"] == "Not answered here. It still waits: ozzie approvals list, ozzie tasks list.\n"
    )


async def test_without_choices_a_number_is_an_answer_like_any_other() -> None:
    at, kind, asked = PUT[0]
    free = {**asked, "options": asked["options"][2:]}
    person = Person("3")
    display = ConsoleDisplay(Page(), person, person.answer)

    display.show(folded([*BEGINNING, (at, kind, free), PUT[1]]), NOW)
    await asking(display)

    assert person.prompts[0].endswith("\n[-] Skip  or your own words  > ")
    sent = {"task_id": TASK, "prompt_id": "p2", "option": "text", "text": "3"}
    assert person.answers == [("task.answer", sent)]


async def test_a_number_answers_a_question_on_a_console() -> None:
    person = Person("", "0", "3", "allow", "²", "2")
    display = ConsoleDisplay(Page(), person, person.answer)

    display.show(folded([*BEGINNING, *ASKED]), NOW)
    await asking(display)

    assert person.prompts[0].startswith("[waiting] This turn has used its $1.00.\n")
    assert person.prompts[1] == "[1] Allow $0.50 more  [2] Stop here  > "
    assert person.answers == [("task.answer", {"task_id": TASK, "prompt_id": "p1", "option": "stop"})]


async def test_a_console_names_the_command_for_what_the_kernel_may_not_answer() -> None:
    page, person = Page(), Person()
    display = ConsoleDisplay(page, person, person.answer)

    display.show(waiting_view(needs="cli", side_effect="irreversible"), NOW)

    text = "".join(content["text"] for _, content in page.messages)
    assert "Approval needed" in text
    assert "Approve once: ozzie approvals approve 01APPROVAL" in text
    assert display._asking is None
