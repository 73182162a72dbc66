"""The answer of a turn, for Python."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ozzie_server_ext.render.static import static_bundle
from ozzie_server_ext.render.turnview import TurnView


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What came of a message.

    - `text`: what was said, as Markdown, without the tool calls between
    - `data`: with a schema, the value that fits it: of a class of pydantic an object, else lists, dicts, numbers, texts
    - `task`: the id of its task, for `ozzie tasks show`
    - `cost`: in US dollars; None if a provider did not state it
    """

    text: str
    data: Any
    task: str
    cost: Decimal | None
    view: TurnView
    shown_in: int

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Answer of task {self.task}: {self.text[:60]!r}>"

    def _ipython_display_(self) -> None:
        """Show the turn as in its cell; nothing at the end of that cell itself, which shows it already."""
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        shell: Any = get_ipython()
        if shell is None or shell.execution_count != self.shown_in:
            display(static_bundle(self.view)[0], raw=True)


class TurnFailed(Exception):
    """A turn failed, or was not begun; the message is the sentence that its cell shows. `kind` is the stable code,
    `answer` what there is of the answer, if the turn had begun."""

    def __init__(self, kind: str, sentence: str, answer: Answer | None) -> None:
        super().__init__(kind, sentence, answer)  # all of them, so that it can be copied
        self.kind = kind
        self.sentence = sentence
        self.answer = answer

    def __str__(self) -> str:
        return self.sentence

    def _render_traceback_(self) -> list[str]:
        """For IPython: the cell shows the failure already, and where in Ozzie it was noticed helps nobody."""
        return [str(self)]


class TurnStopped(KeyboardInterrupt):
    """A person stopped the turn, and with it the code that asked. `answer` is what there is of the answer."""

    def __init__(self, answer: Answer | None) -> None:
        super().__init__(answer)
        self.answer = answer

    def __str__(self) -> str:
        return "Stopped by you."

    def _render_traceback_(self) -> list[str]:
        return [str(self)]
