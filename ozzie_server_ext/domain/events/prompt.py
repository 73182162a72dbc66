"""Facts about questions that a task asks a person, and waits for (S1 "Prompt")."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ozzie_server_ext.domain.events.fact import Fact
from ozzie_server_ext.domain.ids import PromptId


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOption:
    """One answer that may be chosen. `unit` says what `amount`, which whoever answers may change, is counted in; empty
    where there is none. 1e-9 USD, tokens, milliseconds."""

    name: str
    label: str
    amount: int = 0
    unit: Literal["", "cost", "tokens", "time"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRequested(Fact):
    """A question, which waits in the log for its answer. `notes` are sentences below it."""

    type: ClassVar[str] = "prompt.requested"
    prompt_id: PromptId
    kind: Literal["budget", "asks", "uncertain"]
    question: str
    notes: tuple[str, ...]
    options: tuple[PromptOption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptAnswered(Fact):
    """The first answer, which is the only one. `option` is the name of one of those that were offered."""

    type: ClassVar[str] = "prompt.answered"
    prompt_id: PromptId
    option: str
    by: str
    amount: int = 0
