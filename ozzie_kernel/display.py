"""Where a turn is seen: a widget that lives in the cell, text on a console, or only the saved form at the end."""

import time
from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from ozzie_kernel.cards import Answer, Cards
from ozzie_kernel.keyboard import Asking, Keyboard, ToType, first_to_type, too_late
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.console import ConsoleWriter
from ozzie_server_ext.render.graph.output import GraphWriter, graph_bundle, graph_svg
from ozzie_server_ext.render.graph.view import GraphView
from ozzie_server_ext.render.live import LiveTurn
from ozzie_server_ext.render.page import Paragraph, page_bundle
from ozzie_server_ext.render.static import static_bundle
from ozzie_server_ext.render.turnview import TurnView

if TYPE_CHECKING:
    from datetime import datetime

    from ipywidgets import HTML, DOMWidget, VBox


MOST_DRAWN = 60
"""Steps of a run whose picture a widget shows while it goes on; more are told in a line. A page with our extension
draws any number itself."""

CHARACTERS_PER_S = 1_000_000
"""Each update carries the whole turn, so a long one is drawn less often: a page that falls behind catches up late."""


@cache
def _looks() -> dict[str, Any]:
    """How all our widgets look: nothing special. Each widget opens a comm of its own for these unless it is given them,
    which would be two of the three messages before a turn is first seen."""
    from ipywidgets import Layout
    from ipywidgets.widgets.widget_string import HTMLStyle

    return {"layout": Layout(), "style": HTMLStyle()}


def html_widget(html: str) -> "HTML":
    """A widget that shows HTML of ours."""
    from ipywidgets import HTML  # takes 0.1 s; the kernel imports it in the background, once it is ready

    return HTML(value=html, **_looks())


def box_of(children: "list[Any]") -> "VBox":
    """These widgets, one below the other."""
    from ipywidgets import VBox

    return VBox(children)


def graph_output(view: GraphView) -> dict[str, Any]:
    """A workflow as it is saved: a picture of its own, beside its turn, so that no viewer takes it for that."""
    return {"data": graph_bundle(view), "metadata": {}, "transient": {}}


def live_picture(view: GraphView) -> str:
    """A workflow that goes on as HTML of ours: the saved picture without running times, so that it is sent anew only
    where a state has changed; "" where it has too many steps for that."""
    if len(view.steps) > MOST_DRAWN:
        return ""
    return f'<div class="oz-graph" style="overflow: auto">{graph_svg(view)}</div>'


class Publisher(Protocol):
    """What a display needs of the kernel: sending an output message of the running cell."""

    def publish(self, msg_type: str, content: dict[str, Any]) -> None: ...


class TurnDisplay(Protocol):
    def show(self, view: TurnView, now: "datetime") -> None:
        """Draw the present state."""
        ...

    def stop(self) -> None:
        """Ask nothing any more: whoever would be asked has the turn stopped."""
        ...

    def finish(self, view: TurnView, graph: GraphView | None = None) -> None:
        """Put the final form in its place, which tells of the steps of a run, too."""
        ...

    def graph(self, view: GraphView, now: "datetime", *, is_final: bool) -> None:
        """Draw how far a workflow is; the last time, once its turn is finished."""
        ...

    def problem(self, data: dict[str, str]) -> None:
        """Show what kept the turn from going on: in its place, or below it once it is finished."""
        ...


class CellDisplay(TurnDisplay, Protocol):
    """A display that has something to say before its turn begins."""

    def note(self, said: Paragraph) -> None: ...


class WidgetDisplay:
    """Live HTML of ours in one widget, which a page keeps updating; the static form replaces it at the end."""

    def __init__(self, publisher: Publisher, display_id: str, answer: Answer) -> None:
        """`answer`: see `cards`."""
        self._publisher = publisher
        self._display_id = display_id
        self._cards = Cards(answer)
        self._box: VBox | None = None
        self._live = LiveTurn()
        self._picture = ""
        self._widget: HTML | None = None
        self._not_before = 0.0

    def note(self, said: Paragraph) -> None:
        self._end(page_bundle([said]), {})
        self._display_id += "-"  # what is shown from now on stands below it
        self._not_before = 0.0

    def show(self, view: TurnView, now: "datetime") -> None:
        if time.monotonic() < self._not_before:
            return  # a later call, at the latest the final form, shows what this one would have
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
        """Show these widgets below the turn, in one box with it from the first of them on."""
        if self._box is None and below:
            self._box = box_of([self._widget, *below])
            self._place(self._box, view, "update_display_data")
        elif self._box is not None and list(self._box.children[1:]) != below:
            self._box.children = [self._widget, *below]

    def _place(self, widget: "DOMWidget", view: TurnView, msg_type: str) -> None:
        where = f" (task {view.task_id})" if view.task_id else ""
        fallback = (
            f"*This turn was still running when the notebook was saved. Open it with Ozzie to see the rest{where}.*"
        )
        data = {
            "application/vnd.jupyter.widget-view+json": {
                "version_major": 2,
                "version_minor": 0,
                "model_id": widget.model_id,
            },
            "text/markdown": fallback,
            "text/plain": fallback.strip("*"),
        }
        transient = {"display_id": self._display_id}
        self._publisher.publish(msg_type, {"data": data, "metadata": {}, "transient": transient})

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
        for each in (self._box, widget):
            if each is not None:
                each.close()
        self._box = None


class ConsoleDisplay:
    """Text that is written once and never redrawn, and questions that the keyboard answers."""

    def __init__(
        self, publisher: Publisher, keyboard: Keyboard, answer: Callable[[str, JsonObject], Awaitable[object]]
    ) -> None:
        """`answer` asks a method of the gateway."""
        self._publisher = publisher
        self._keyboard = keyboard
        self._answer = answer
        self._writer = ConsoleWriter()
        self._graph_writer = GraphWriter()
        self._asking: Asking | None = None
        self._stopped = False

    def note(self, said: Paragraph) -> None:
        self._publisher.publish("stream", {"name": "stdout", "text": f"{page_bundle([said])['text/plain']}\n"})

    def show(self, view: TurnView, now: "datetime") -> None:
        typed = first_to_type(view, now)
        self._withdraw(view, but=typed)
        if text := self._writer.update(view, now) + self._writer.asks(view, now, but=typed.key if typed else ""):
            self._say(text)
        if self._asking is None and typed is not None and not self._stopped:
            self._asking = Asking(typed, self._keyboard, self._answer, self._say)

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

    def _withdraw(self, view: TurnView, *, but: ToType | None = None) -> None:
        """Ask for nothing any more `but` this. Whose prompt stands there yet is told: a console may drop what is typed
        to it, and nobody else would say that it did not count."""
        asking = self._asking
        if asking is None or (but is not None and but.key == asking.key):
            return
        self._asking = None
        if asking.withdraw() and (told := too_late(asking.key, view)):
            self._say(told)

    def _say(self, text: str) -> None:
        self._publisher.publish("stream", {"name": "stdout", "text": text})

    def problem(self, data: dict[str, str]) -> None:
        before = "" if self._writer.at_line_start else "\n"
        self._publisher.publish("stream", {"name": "stdout", "text": f"{before}{data['text/plain']}\n"})


class StaticDisplay:
    """Only the saved form: for nbclient and its like, where nobody watches and widgets would stay behind."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def note(self, said: Paragraph) -> None:
        self._publisher.publish("display_data", {"data": page_bundle([said]), "metadata": {}, "transient": {}})

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
