"""Facts about questions that a task asks a person, and waits for (S1 "Prompt")."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ozzie_server_ext.domain.events.fact import Fact
from ozzie_server_ext.domain.ids import CallId, PromptId


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOption:
    """One answer that may be chosen. `unit` says what `amount`, which whoever answers may change, is counted in; empty
    where there is none. 1e-9 USD, tokens, milliseconds. `help` is a line about it; with `takes_text`, it is answered in
    words."""

    name: str
    label: str
    amount: int = 0
    unit: Literal["", "cost", "tokens", "time"] = ""
    help: str = ""
    takes_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRequested(Fact):
    """A question, which waits in the log for its answer. `notes` are sentences below it; `call_id` is the call of a
    tool whose result the answer is, of a question that the model asks."""

    type: ClassVar[str] = "prompt.requested"
    prompt_id: PromptId
    kind: Literal["budget", "asks", "uncertain", "question"]
    question: str
    notes: tuple[str, ...]
    options: tuple[PromptOption, ...]
    call_id: CallId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptAnswered(Fact):
    """The first answer, which is the only one. `option` is the name of one of those that were offered; `text` is what a
    person wrote to it."""

    type: ClassVar[str] = "prompt.answered"
    prompt_id: PromptId
    option: str
    by: str
    amount: int = 0
    text: str = ""
