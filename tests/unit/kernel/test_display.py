"""Where a turn is seen: what is published, and how often."""

from datetime import UTC, datetime
from typing import Any

from ozzie_kernel.display import ConsoleDisplay, StaticDisplay, WidgetDisplay, html_widget
from ozzie_server_ext.render.page import paragraph
from ozzie_server_ext.render.turn import fold, new_turn
from ozzie_server_ext.render.turnview import TurnView

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Page:
    """Remembers what was published."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []

    def publish(self, msg_type: str, content: dict[str, Any]) -> None:
        self.messages.append((msg_type, content))


def saying(text: str) -> TurnView:
    view = fold(new_turn(task_id="t"), "task.started", {"attempt": 1}, NOW)
    return fold(view, "reply.delta", {"reply_id": "r", "offset": 0, "phase": "delta", "content": text})


def test_a_widget_is_shown_once_and_replaced_by_the_final_form_in_its_place() -> None:
    page = Page()
    display = WidgetDisplay(page, "here")

    display.show(saying("a"), NOW)
    display.finish(saying("ab"))

    assert [kind for kind, _ in page.messages] == ["display_data", "update_display_data"]
    assert {content["transient"]["display_id"] for _, content in page.messages} == {"here"}
    assert "task t" in page.messages[0][1]["data"]["text/plain"]


def test_a_long_turn_is_drawn_less_often_and_its_end_at_once() -> None:
    page = Page()
    display = WidgetDisplay(page, "here")
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
    display = WidgetDisplay(before, "here")
    display.show(new_turn(), NOW)
    display.problem({"text/plain": "No."})
    display = WidgetDisplay(after, "there")
    display.show(saying("a"), NOW)
    display.finish(saying("a"))
    display.problem({"text/plain": "No."})

    assert [kind for kind, _ in before.messages] == ["display_data", "update_display_data"]
    assert [kind for kind, _ in after.messages] == ["display_data", "update_display_data", "display_data"]


def test_without_widgets_a_turn_is_text_or_its_final_form_only() -> None:
    console, file = Page(), Page()

    for display in (ConsoleDisplay(console), StaticDisplay(file)):
        display.show(saying("a"), NOW)
        display.finish(fold(saying("ab"), "task.succeeded", {"rounds": 1}, NOW))

    text = "".join(content["text"] for _, content in console.messages)
    assert text.startswith("[working]")
    assert "[done]" in text
    assert [kind for kind, _ in file.messages] == ["display_data"]


def test_a_note_stands_above_the_turn_also_where_the_turn_was_shown_already() -> None:
    page = Page()
    display = WidgetDisplay(page, "here")
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
    ConsoleDisplay(console).note(paragraph("First this."))
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
