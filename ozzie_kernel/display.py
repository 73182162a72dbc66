"""Displays of a turn: a live widget in the cell, text on a console, or only the saved form at the end."""

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from ozzie_kernel.cards import PlainCards, SendAnswer
from ozzie_kernel.keyboard import Asking, Keyboard, Prompt, next_prompt, withdrawn_notice
from ozzie_kernel.widgets import box_of, close_all, html_widget, widget_output
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.console import ConsoleWriter
from ozzie_server_ext.render.graph.output import GraphWriter, graph_bundle, graph_svg
from ozzie_server_ext.render.graph.view import GraphView
from ozzie_server_ext.render.live import LiveTurn
from ozzie_server_ext.render.page import Paragraph, page_bundle
from ozzie_server_ext.render.static import UNFINISHED, static_bundle
from ozzie_server_ext.render.turnview import TurnView

if TYPE_CHECKING:
    from datetime import datetime

    from ipywidgets import HTML, DOMWidget, VBox


MAX_DRAWN = 60
"""Steps in a widget's live picture; longer runs get a summary. A page with our extension draws any number."""

CHARACTERS_PER_S = 1_000_000
"""Each update contains the whole turn, so long turns are drawn less often, or a page would fall behind."""


def graph_output(view: GraphView) -> dict[str, Any]:
    """Return the saved form of a workflow: a separate picture beside its turn, so that no viewer confuses them."""
    return {"data": graph_bundle(view), "metadata": {}, "transient": {}}


def live_picture(view: GraphView) -> str:
    """Return a running workflow as HTML: the saved picture without running times, so that it is sent again only if a
    state has changed; "" if it has too many steps."""
    if len(view.steps) > MAX_DRAWN:
        return ""
    return f'<div class="oz-graph" style="overflow: auto">{graph_svg(view)}</div>'


class Publisher(Protocol):
    """The kernel's side of a display: sending output messages of the running cell."""

    def publish(self, msg_type: str, content: dict[str, Any]) -> None: ...


class TurnDisplay(Protocol):
    def show(self, view: TurnView, now: "datetime") -> None:
        """Draw the current state."""

    def stop(self) -> None:
        """Ask no more questions: the person has stopped the turn."""

    def finish(self, view: TurnView, graph: GraphView | None = None) -> None:
        """Replace the display by the final form, which includes the steps of a run."""

    def graph(self, view: GraphView, now: "datetime", *, is_final: bool) -> None:
        """Draw a workflow's progress; the last time after its turn has finished."""

    def problem(self, data: dict[str, str]) -> None:
        """Show the error that ended the turn's display: in its place, or below it once it is finished."""


class CellDisplay(TurnDisplay, Protocol):
    """A display that can show notes before its turn begins."""

    def note(self, text: Paragraph) -> None: ...


class WidgetDisplay:
    """Live HTML in one widget, kept up to date; the static form replaces it at the end."""

    def __init__(self, publisher: Publisher, display_id: str, answer: SendAnswer) -> None:
        """`answer`: see `cards`."""
        self._publisher = publisher
        self._display_id = display_id
        self._cards = PlainCards(answer)
        self._box: VBox | None = None
        self._live = LiveTurn()
        self._picture = ""
        self._widget: HTML | None = None
        self._not_before = 0.0

    def note(self, text: Paragraph) -> None:
        self._end(page_bundle([text]), {})
        self._display_id += "-after"  # a new display below the note, which is not updated any more
        self._not_before = 0.0

    def show(self, view: TurnView, now: "datetime") -> None:
        if time.monotonic() < self._not_before:
            return  # a later call, or the final form, shows this
        asks = view.asked or view.question is not None
        below = self._cards.follow(view) if asks or self._box is not None else []
        html = self._live.html(view, now) + self._picture
        self._not_before = time.monotonic() + len(html) / CHARACTERS_PER_S
        if self._widget is None:
            self._widget = html_widget(html)
            self._place(self._widget, view, "display_data")
        elif self._widget.value != html:
            self._widget.value = html
        self._put_below(below, view)

    def _put_below(self, below: "list[DOMWidget]", view: TurnView) -> None:
        """Show these widgets below the turn; the first time, put both into a box."""
        if self._box is None and below:
            self._box = box_of([self._widget, *below])
            self._place(self._box, view, "update_display_data")
        elif self._box is not None and list(self._box.children[1:]) != below:
            self._box.children = [self._widget, *below]

    def _place(self, widget: "DOMWidget", view: TurnView, msg_type: str) -> None:
        where = f" (task {view.task_id})" if view.task_id else ""
        fallback = f"*{UNFINISHED} Open it with Ozzie to see the rest{where}.*"
        transient = {"display_id": self._display_id}
        others = {"text/markdown": fallback, "text/plain": fallback.strip("*")}
        self._publisher.publish(msg_type, {**widget_output(widget, others), "transient": transient})

    def stop(self) -> None:
        pass

    def finish(self, view: TurnView, graph: GraphView | None = None) -> None:
        self._end(*static_bundle(view, graph))

    def graph(self, view: GraphView, now: "datetime", *, is_final: bool) -> None:
        if is_final:
            self._publisher.publish("display_data", graph_output(view))
            return
        before, self._picture = self._picture, live_picture(view)
        if self._widget is not None and self._picture != before:
            self._widget.value = self._widget.value.removesuffix(before) + self._picture

    def problem(self, data: dict[str, str]) -> None:
        self._end(data, {})

    def _end(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        widget, self._widget = self._widget, None
        kind = "display_data" if widget is None else "update_display_data"
        transient = {} if widget is None else {"display_id": self._display_id}
        self._publisher.publish(kind, {"data": data, "metadata": metadata, "transient": transient})
        self._cards.close()
        box, self._box = self._box, None
        if (shown := box or widget) is not None:  # the box contains the widget
            close_all(shown)


class ConsoleDisplay:
    """Text that is written once and never redrawn, with questions answered at the keyboard."""

    def __init__(
        self, publisher: Publisher, keyboard: Keyboard, answer: Callable[[str, JsonObject], Awaitable[object]]
    ) -> None:
        """`answer` calls a method of the gateway."""
        self._publisher = publisher
        self._keyboard = keyboard
        self._answer = answer
        self._writer = ConsoleWriter()
        self._graph_writer = GraphWriter()
        self._asking: Asking | None = None
        self._stopped = False

    def note(self, text: Paragraph) -> None:
        self._publisher.publish("stream", {"name": "stdout", "text": f"{page_bundle([text])['text/plain']}\n"})

    def show(self, view: TurnView, now: "datetime") -> None:
        prompt = next_prompt(view, now)
        self._withdraw(view, but=prompt)
        if text := self._writer.update(view, now) + self._writer.asks(view, now, but=prompt.key if prompt else ""):
            self._say(text)
        if self._asking is None and prompt is not None and not self._stopped:
            self._asking = Asking(prompt, self._keyboard, self._answer, self._say)

    def stop(self) -> None:
        self._stopped = True
        if self._asking is not None:
            self._asking.withdraw()
            self._asking = None

    def finish(self, view: TurnView, graph: GraphView | None = None) -> None:
        self._withdraw(view)
        if text := self._writer.update(view):
            self._say(text)

    def graph(self, view: GraphView, now: "datetime", *, is_final: bool) -> None:
        if text := self._graph_writer.update(view, now):
            self._say(text if self._writer.at_line_start else f"\n{text}")

    def _withdraw(self, view: TurnView, *, but: Prompt | None = None) -> None:
        """Stop asking, except for `but`. If a prompt is still open, say that it no longer counts: a console may drop
        what is typed to it, and nothing else would say so."""
        asking = self._asking
        if asking is None or (but is not None and but.key == asking.key):
            return
        self._asking = None
        if asking.withdraw() and (notice := withdrawn_notice(asking.key, view)):
            self._say(notice)

    def _say(self, text: str) -> None:
        self._publisher.publish("stream", {"name": "stdout", "text": text})

    def problem(self, data: dict[str, str]) -> None:
        before = "" if self._writer.at_line_start else "\n"
        self._publisher.publish("stream", {"name": "stdout", "text": f"{before}{data['text/plain']}\n"})


class StaticDisplay:
    """Only the saved form, for nbclient and the like, where nobody watches and widgets would be left behind."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def note(self, text: Paragraph) -> None:
        self._publisher.publish("display_data", {"data": page_bundle([text]), "metadata": {}, "transient": {}})

    def show(self, view: TurnView, now: "datetime") -> None:
        pass

    def stop(self) -> None:
        pass

    def finish(self, view: TurnView, graph: GraphView | None = None) -> None:
        data, metadata = static_bundle(view, graph)
        self._publisher.publish("display_data", {"data": data, "metadata": metadata, "transient": {}})

    def graph(self, view: GraphView, now: "datetime", *, is_final: bool) -> None:
        if is_final:
            self._publisher.publish("display_data", graph_output(view))

    def problem(self, data: dict[str, str]) -> None:
        self._publisher.publish("display_data", {"data": data, "metadata": {}, "transient": {}})
