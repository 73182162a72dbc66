"""What a person sees of a turn: its parts in order, its state, what it took."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from ozzie_server_ext.render.asked import Asked
from ozzie_server_ext.render.question import Question
from ozzie_server_ext.render.textparts import TextPart
from ozzie_server_ext.render.toolrows import ToolRow

Status: TypeAlias = Literal[
    "Queued",
    "Working",
    "Waiting for you",
    "Waiting for your answer",
    "Needs a decision",
    "Paused",
    "Done",
    "Failed",
    "Stopped",
]
"""The words of UX §2.1."""

FINAL_STATUSES = frozenset({"Done", "Failed", "Stopped"})
HELD_STATUSES = frozenset({"Waiting for you", "Waiting for your answer", "Needs a decision", "Paused"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPart:
    """Consecutive tool calls."""

    rows: tuple[ToolRow, ...]


Part: TypeAlias = TextPart | WorkPart


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnError:
    """Why a turn failed: a sentence, what to do about it, the stable code, and what the provider itself said."""

    code: str
    message: str
    hint: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegated:
    """What the tasks that a turn delegated have used; as `TurnView` has it. `models` by alias, provider and model."""

    models: tuple[tuple[str, str, str], ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    cost_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """One turn. `parts` stand in the order in which things happened. `cost` is in 1e-9 USD, a lower bound where
    `cost_known` is false. `closing` is the last line of a turn that a person stopped, `step` what the turn is waiting
    for, while it is nothing that has a row; `ahead` how many turns are before it in its session; `instead_of` the
    provider in whose place another one answers; `question` what the turn waits to be told, `asked` what it waits to be
    allowed, the oldest first, `answers` who answered either, and when, each with the id of what was asked; `checked`
    the approvals that a second model gave, each with its call; `budget_share` how many per cent of a budget are used,
    once that is worth a word; `pictures` the names of those that belong to the message, `absent` of such as were not
    there; `rejected` the replies that do not have the wanted shape: the last one stands in `parts` until the next one
    begins. From its end on, its figures hold what it has `delegated`, too."""

    task_id: str = ""
    session_id: str = ""
    status: Status = "Queued"
    alias: str = ""
    provider: str = ""
    model: str = ""
    instead_of: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    waited_s: float = 0.0
    held_since: datetime | None = None
    pictures: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    cost_known: bool = True
    error: TurnError | None = None
    attempt: int = 0
    recovered: bool = False
    reason: str = ""
    closing: str = ""
    step: str = ""
    question: Question | None = None
    asked: tuple[Asked, ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    checked: tuple[tuple[str, str], ...] = ()
    rejected: frozenset[str] = field(default_factory=frozenset[str])
    ahead: int = 0
    budget_share: int = 0
    open_calls: frozenset[str] = field(default_factory=frozenset[str])
    counted_calls: frozenset[str] = field(default_factory=frozenset[str])
    delegated: Delegated | None = None

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def answering(self) -> str:
        """Who answers, in the fewest words: the alias, and the provider where it is not the one that was to."""
        name = self.alias or self.model
        return f"{name} ({self.provider})" if self.instead_of else name

    @property
    def models(self) -> tuple[tuple[str, str, str], ...]:
        """The models that were called for it, each by alias, provider and model: its own, then those of what it has
        delegated."""
        own = (self.alias, self.provider, self.model)
        called = self.delegated.models if self.delegated else ()
        return tuple(dict.fromkeys([*([own] if any(own) else []), *called]))

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def rows(self) -> tuple[ToolRow, ...]:
        """All tool rows, in order."""
        return tuple(row for part in self.parts if isinstance(part, WorkPart) for row in part.rows)

    @property
    def usage_known(self) -> bool:
        """Whether any model call has told what it used. One that failed used nothing, which says little while another
        one runs."""
        has_told = bool(self.counted_calls) or self.delegated is not None
        return has_told and (self.is_final or self.total_tokens > 0)

    def elapsed_s(self, now: datetime | None = None) -> float:
        """Seconds of work so far or in all, without the time spent waiting for a person."""
        end = self.finished_at or now
        if self.started_at is None or end is None:
            return 0.0
        held = (end - self.held_since).total_seconds() if self.held_since else 0.0
        return max((end - self.started_at).total_seconds() - self.waited_s - max(held, 0.0), 0.0)
