"""Plain buttons for a turn's questions, where the page does not draw its own cards.

Our page draws a card in the cell from the gateway's data, and answers under the user's identity, without the kernel.
The kernel answers for a plain button, which counts for less: code running here could press it too.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ozzie_kernel.widgets import close_all
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.render.questions import PendingApproval, QuestionView
from ozzie_server_ext.render.turnview import TurnView

if TYPE_CHECKING:
    from ipywidgets import DOMWidget, Widget

MODULE = "@ozzie/labextension"
HERE_S = 1.5
"""How long to wait for a page to say that it draws cards, before showing plain buttons."""

SendAnswer = Callable[[str, JsonObject], None]
"""Calls a method of the gateway with parameters, from any thread."""


@cache
def _page_class() -> "type[Widget]":
    """Return the class of `CardsPage`, defined late because ipywidgets is imported late."""
    from ipywidgets import Widget
    from traitlets import Unicode

    class CardsPage(Widget):
        """Asks a page whether it draws cards: a page with our extension knows this model, and replies."""

        _model_name = Unicode("CardsModel").tag(sync=True)
        _model_module = Unicode(MODULE).tag(sync=True)
        _model_module_version = Unicode(version("jupyter-ozzie")).tag(sync=True)
        _view_name = Unicode(None, allow_none=True).tag(sync=True)
        _view_module = Unicode(None, allow_none=True).tag(sync=True)
        _view_module_version = Unicode("").tag(sync=True)

    return CardsPage


class Buttons:
    """A row of buttons, of which one may be pressed once: for each, its label and the parameters that it sends to
    `method`. With a `hint` there is a text field, sent as the parameter `text_as` by buttons that have it; unless it
    `is_optional`, those do nothing while it is empty."""

    def __init__(
        self,
        method: str,
        buttons: Sequence[tuple[str, JsonObject]],
        answer: SendAnswer,
        *,
        hint: str = "",
        text_as: str = "",
        is_optional: bool = True,
    ) -> None:
        from ipywidgets import Button, HBox, Layout, Text, VBox

        self._method = method
        self._answer = answer
        self._text = Text(placeholder=hint, layout=Layout(width="auto")) if hint else None
        self._text_as = text_as
        self._is_optional = is_optional
        self._buttons: list[Button] = []
        for label, params in buttons:
            button = Button(description=label, layout=Layout(width="auto"))
            button.on_click(lambda _, params=params: self._press(params))
            self._buttons.append(button)
        row = HBox(self._buttons, layout=Layout(flex_flow="row wrap"))
        self.widget: DOMWidget = row if self._text is None else VBox([row, self._text])
        # A page that draws cards hides it: one whose word that it does so doesn't reach a kernel in which Python waits.
        self.widget.add_class("jp-Ozzie-plainCard")

    def close(self) -> None:
        close_all(self.widget)

    def _press(self, params: JsonObject) -> None:
        text: dict[str, Json] = {}
        if self._text is not None and self._text_as in params:
            text[self._text_as] = self._text.value
            if not self._is_optional and not self._text.value.strip():
                return
        for button in self._buttons:
            button.disabled = True
        self._answer(self._method, {**params, **text})


class PlainCards:
    """The plain buttons of one turn: none if the page draws cards, or for what the kernel may not answer."""

    def __init__(self, answer: SendAnswer) -> None:
        self._answer = answer
        self._plain_at = 0.0
        self._is_here = False
        self._page: Widget | None = None
        self._buttons: dict[str, Buttons] = {}

    def follow(self, view: TurnView) -> "list[DOMWidget]":
        """Return the widgets for the current questions, the oldest first."""
        asked = {each.approval_id: each for each in view.asked if each.by_kernel and not each.expired}
        question = view.question
        wanted = {*asked, *([question.prompt_id] if question is not None else [])}
        for key in [each for each in self._buttons if each not in wanted]:
            self._buttons.pop(key).close()
        if not wanted or self._drawn_by_page():
            return []
        for key, each in asked.items():
            if key not in self._buttons:
                self._buttons[key] = _approval_buttons(each, self._answer)
        if question is not None and question.prompt_id not in self._buttons:
            self._buttons[question.prompt_id] = _question_buttons(question, view.task_id, self._answer)
        return [buttons.widget for buttons in self._buttons.values()]

    def close(self) -> None:
        for buttons in self._buttons.values():
            buttons.close()
        self._buttons.clear()
        if self._page is not None:
            self._page.close()

    def _drawn_by_page(self) -> bool:
        """Return whether the page has said that it draws cards, or may still do so."""
        if self._page is None:
            self._page = _page_class()()
            self._page.on_msg(self._receive)
            self._plain_at = time.monotonic() + HERE_S
        return self._is_here or time.monotonic() < self._plain_at

    def _receive(self, widget: Any, content: Any, buffers: Any) -> None:
        if isinstance(content, dict) and content.get("here"):
            self._is_here = True


def _approval_buttons(asked: PendingApproval, answer: SendAnswer) -> Buttons:
    seen: JsonObject = {"approval_id": asked.approval_id, "binds": asked.binds}
    buttons: list[tuple[str, JsonObject]] = [("Approve once", {**seen, "answer": "approve", "extent": "once"})]
    if asked.cover:
        buttons.append(("Approve for this session", {**seen, "answer": "approve", "extent": "session"}))
    buttons.append(("Reject", {**seen, "answer": "reject", "comment": ""}))
    return Buttons("approval.answer", buttons, answer, hint="Tell Ozzie why (optional)", text_as="comment")


def _question_buttons(question: QuestionView, task_id: str, answer: SendAnswer) -> Buttons:
    buttons: list[tuple[str, JsonObject]] = []
    for choice in question.choices:
        sent: JsonObject = {"task_id": task_id, "prompt_id": question.prompt_id, "option": choice.name}
        buttons.append((choice.label, {**sent, "text": ""} if choice.takes_text else sent))
    hint = "Your answer" if any(choice.takes_text for choice in question.choices) else ""
    return Buttons("task.answer", buttons, answer, hint=hint, text_as="text", is_optional=False)
