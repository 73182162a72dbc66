"""Approvals in the running cell: our own card where the page has it, plain buttons where it has not (NB-3).

Our card is drawn by the page from what the gateway says, and answers from there, under the user's identity. The kernel
only says where it stands. A plain button is answered by the kernel, which counts for less: code that runs here could
press it too (THREATS 5).
"""

import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.asked import Asked

if TYPE_CHECKING:
    from ipywidgets import DOMWidget, VBox

MODULE = "@ozzie/labextension"
HERE_S = 1.5
"""How long a page has to say that it knows our card, before there are plain buttons in its place."""

Answer = Callable[[JsonObject], None]
"""Sends an answer, the parameters of `approval.answer`, to the gateway; for any thread."""


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


class Card:
    """One approval's place in the cell: nothing for a moment, then our card or plain buttons."""

    def __init__(self, asked: Asked, task_id: str, answer: Answer) -> None:
        self._asked = asked
        self._answer = answer
        self._plain_at = time.monotonic() + HERE_S
        self._is_here = False
        self._plain: VBox | None = None
        self._card = _card_class()(approval_id=asked.approval_id, task_id=task_id)
        self._card.on_msg(self._take)

    @property
    def is_drawn(self) -> bool:
        """Whether the page draws it, so that nothing else has to."""
        return self._is_here

    def widgets(self) -> list[Any]:
        """What stands in the cell for it now."""
        if self._is_here:
            return [self._card]
        if self._plain is None and self._asked.by_kernel and time.monotonic() >= self._plain_at:
            self._plain = self._buttons()
        return [] if self._plain is None else [self._plain]

    def close(self) -> None:
        self._card.close()
        if self._plain is not None:
            self._plain.close()

    def _take(self, widget: Any, content: Any, buffers: Any) -> None:
        if isinstance(content, dict) and content.get("here"):
            self._is_here = True

    def _buttons(self) -> "VBox":
        from ipywidgets import Button, HBox, Layout, Text, VBox

        comment = Text(placeholder="Tell Ozzie why (optional)", layout=Layout(width="auto", flex="1 1 auto"))

        buttons: list[Button] = []

        def add(label: str, answer: str, extent: str = "") -> None:
            def press(_: object) -> None:
                for each in buttons:
                    each.disabled = True
                said = {"answer": answer, "extent": extent} if extent else {"answer": answer, "comment": comment.value}
                self._answer({"approval_id": self._asked.approval_id, "binds": self._asked.binds, **said})

            button = Button(description=label, layout=Layout(width="auto"))
            button.on_click(press)
            buttons.append(button)

        add("Approve once", "approve", "once")
        if self._asked.cover:
            add("Approve for this session", "approve", "session")
        add("Reject", "reject")
        return VBox([HBox(buttons), comment])


class Cards:
    """All approvals of one turn."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._cards: dict[str, Card] = {}

    def follow(self, asked: Sequence[Asked], task_id: str) -> list[Any]:
        """The widgets that stand in the cell for what is asked now, the oldest first."""
        wanted = {each.approval_id for each in asked}
        for approval_id in [each for each in self._cards if each not in wanted]:
            self._cards.pop(approval_id).close()
        for each in asked:
            if each.approval_id not in self._cards:
                self._cards[each.approval_id] = Card(each, task_id, self._answer)
        return [widget for card in self._cards.values() for widget in card.widgets()]

    @property
    def drawn(self) -> frozenset[str]:
        """The approvals that the page draws itself."""
        return frozenset(approval_id for approval_id, card in self._cards.items() if card.is_drawn)

    def close(self) -> None:
        for card in self._cards.values():
            card.close()
        self._cards.clear()
