"""What a turn asks for in its running cell: our own card of an approval where the page has it; plain buttons where it
has not, and for other questions (NB-3, UX §2.4, §2.6).

Our card is drawn by the page from what the gateway says, and answers from there, under the user's identity. The kernel
only says where it stands. A plain button is answered by the kernel, which counts for less: code that runs here could
press it too (THREATS 5).
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.render.asked import Asked
from ozzie_server_ext.render.question import Question
from ozzie_server_ext.render.turnview import TurnView

if TYPE_CHECKING:
    from ipywidgets import DOMWidget

MODULE = "@ozzie/labextension"
HERE_S = 1.5
"""How long a page has to say that it knows our card, before there are plain buttons in its place."""

Answer = Callable[[str, JsonObject], None]
"""Asks a method of the gateway, with its parameters; for any thread."""


@cache
def _card_class() -> "type[DOMWidget]":
    """Imported late, as ipywidgets is."""
    from ipywidgets import DOMWidget
    from traitlets import Unicode

    class ApprovalCard(DOMWidget):
        """Which approval the page is to draw, and nothing of it: a page believes the gateway alone."""

        _model_name = Unicode("ApprovalModel").tag(sync=True)
        _model_module = Unicode(MODULE).tag(sync=True)
        _model_module_version = Unicode(version("jupyter-ozzie")).tag(sync=True)
        _view_name = Unicode("ApprovalView").tag(sync=True)
        _view_module = Unicode(MODULE).tag(sync=True)
        _view_module_version = Unicode(version("jupyter-ozzie")).tag(sync=True)
        approval_id = Unicode().tag(sync=True)
        task_id = Unicode().tag(sync=True)

    return ApprovalCard


class Buttons:
    """Buttons of which one may be pressed, once: each with the parameters of `method` that it sends. With a `hint`, a
    line of text goes with those under the name `comment`."""

    def __init__(self, method: str, buttons: Mapping[str, JsonObject], answer: Answer, *, hint: str = "") -> None:
        from ipywidgets import Button, HBox, Layout, Text, VBox

        self._method = method
        self._answer = answer
        self._comment = Text(placeholder=hint, layout=Layout(width="auto")) if hint else None
        self._buttons: list[Button] = []
        for label, params in buttons.items():
            button = Button(description=label, layout=Layout(width="auto"))
            button.on_click(lambda _, params=params: self._press(params))
            self._buttons.append(button)
        row = HBox(self._buttons, layout=Layout(flex_flow="row wrap"))
        self.widget: DOMWidget = row if self._comment is None else VBox([row, self._comment])

    def close(self) -> None:
        self.widget.close()

    def _press(self, params: JsonObject) -> None:
        for button in self._buttons:
            button.disabled = True
        comment: dict[str, Json] = {} if self._comment is None else {"comment": self._comment.value}
        self._answer(self._method, {**params, **comment})


class Card:
    """One approval's place in the cell: nothing for a moment, then our card or plain buttons."""

    def __init__(self, asked: Asked, task_id: str, answer: Answer) -> None:
        self._asked = asked
        self._answer = answer
        self._plain_at = time.monotonic() + HERE_S
        self._is_here = False
        self._plain: Buttons | None = None
        self._card = _card_class()(approval_id=asked.approval_id, task_id=task_id)
        self._card.on_msg(self._take)

    @property
    def is_drawn(self) -> bool:
        """Whether the page draws it, so that nothing else has to."""
        return self._is_here

    def widgets(self) -> "list[DOMWidget]":
        """What stands in the cell for it now."""
        if self._is_here:
            return [self._card]
        may_answer = self._asked.by_kernel and not self._asked.expired
        if self._plain is None and may_answer and time.monotonic() >= self._plain_at:
            self._plain = Buttons("approval.answer", self._answers(), self._answer, hint="Tell Ozzie why (optional)")
        return [] if self._plain is None else [self._plain.widget]

    def close(self) -> None:
        self._card.close()
        if self._plain is not None:
            self._plain.close()

    def _take(self, widget: Any, content: Any, buffers: Any) -> None:
        if isinstance(content, dict) and content.get("here"):
            self._is_here = True

    def _answers(self) -> dict[str, JsonObject]:
        seen: JsonObject = {"approval_id": self._asked.approval_id, "binds": self._asked.binds}
        once: JsonObject = {**seen, "answer": "approve", "extent": "once"}
        session: JsonObject = {**seen, "answer": "approve", "extent": "session"}
        reject: JsonObject = {**seen, "answer": "reject"}
        if not self._asked.cover:
            return {"Approve once": once, "Reject": reject}
        return {"Approve once": once, "Approve for this session": session, "Reject": reject}


class Cards:
    """All that one turn asks for."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._cards: dict[str, Card] = {}
        self._questions: dict[str, Buttons] = {}

    def follow(self, view: TurnView) -> "list[DOMWidget]":
        """The widgets that stand in the cell for what is asked now, the oldest first."""
        wanted = {each.approval_id for each in view.asked}
        for approval_id in [each for each in self._cards if each not in wanted]:
            self._cards.pop(approval_id).close()
        for asked in view.asked:
            if asked.approval_id not in self._cards:
                self._cards[asked.approval_id] = Card(asked, view.task_id, self._answer)
        open_one = view.question.prompt_id if view.question is not None else ""
        for prompt_id in [each for each in self._questions if each != open_one]:
            self._questions.pop(prompt_id).close()
        if view.question is not None and open_one not in self._questions:
            self._questions[open_one] = Buttons("task.answer", _choices(view.question, view.task_id), self._answer)
        below = [widget for card in self._cards.values() for widget in card.widgets()]
        return [*below, *(buttons.widget for buttons in self._questions.values())]

    @property
    def drawn(self) -> frozenset[str]:
        """The approvals that the page draws itself."""
        return frozenset(approval_id for approval_id, card in self._cards.items() if card.is_drawn)

    def close(self) -> None:
        for each in (*self._cards.values(), *self._questions.values()):
            each.close()
        self._cards.clear()
        self._questions.clear()


def _choices(question: Question, task_id: str) -> dict[str, JsonObject]:
    return {
        choice.label: {"task_id": task_id, "prompt_id": question.prompt_id, "option": choice.name}
        for choice in question.choices
    }
