"""What a person sees of a turn: its parts in order, its state, what it took."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeAlias

from ozzie_server_ext.render.questions import Asked, QuestionView
from ozzie_server_ext.render.text import cut_end, duration, money, token_count
from ozzie_server_ext.render.toolrows import RESULT_WIDTH, ToolRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """What one reply says. `end` is the character offset that the stream has reached; `holes` tells that some of
    what lies before it was missed, until the final text or a whole replay fills it. `cut`: it was stopped. `short`: it
    reached the limit of its length."""

    reply_id: str
    text: str = ""
    done: bool = False
    end: int = 0
    holes: bool = False
    cut: bool = False
    short: bool = False


def begun(reply_id: str, start: int, content: str) -> TextPart:
    """A reply of which this piece, at that offset, is the first that came."""
    return TextPart(reply_id=reply_id, text=content, end=start + len(content), holes=start > 0)


def grown(part: TextPart, start: int | None, content: str) -> TextPart:
    """The part with another piece, at that offset; None where it says none and follows what there is."""
    if part.done:
        return part
    start = part.end if start is None else start
    end = start + len(content)
    if start == 0 and end >= part.end:  # a late joiner is sent the whole text so far
        return replace(part, text=content, end=end, holes=False)
    if end <= part.end:
        return part
    # A gap is closed by the final text; until then the pieces stand side by side.
    fresh = content[max(part.end - start, 0) :]
    return replace(part, text=part.text + fresh, end=end, holes=part.holes or start > part.end)


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
"""The states of a turn, in the words that a person reads."""

FINAL_STATUSES = frozenset({"Done", "Failed", "Stopped"})


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
    question: QuestionView | None = None
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


KEPT = "Your message is kept."
CONTINUED = "Continued after a restart. Nothing was done twice."

_NAMED, _NAME_WIDTH = 4, 60
QUEUED_AFTER_S = 2.0
"""So long a queued turn says nothing of what is before it: most get their turn sooner."""


def result_text(row: ToolRow, rows: Sequence[ToolRow]) -> str:
    """How the call went, in a few words; of a failure that was followed by the same call again, that too."""
    if row.state == "failed" and retried(row, rows):
        return cut_end(f"{row.result}, tried again", RESULT_WIDTH)
    return row.result


def retried(row: ToolRow, rows: Sequence[ToolRow]) -> bool:
    """Whether the same tool was called on the same thing after `row`."""
    later = False
    for other in rows:
        if later and (other.name, other.argument) == (row.name, row.argument):
            return True
        later = later or other.call_id == row.call_id
    return False


def unresolved(rows: Sequence[ToolRow]) -> list[str]:
    """What a fold must not hide: failures that no later call made good, refusals, unknown outcomes."""
    words = {"failed": "failed", "denied": "not allowed", "unknown": "unknown outcome"}
    found = [
        f"{row.name} {words[row.state]}"
        for row in rows
        if row.state in words and not (row.state == "failed" and retried(row, rows))
    ]
    return list(dict.fromkeys(found))


def queued_behind(view: TurnView, now: datetime | None) -> str:
    """ "behind 2 tasks", once a turn has waited long enough for that to be of interest; else empty."""
    if view.status != "Queued" or not view.ahead or view.elapsed_s(now) < QUEUED_AFTER_S:
        return ""
    return "behind 1 task" if view.ahead == 1 else f"behind {view.ahead} tasks"


def shown_pictures(view: TurnView) -> str:
    """ "With plot.png and map.jpg. There is no legend.png.": what the message's names of pictures came to; empty where
    it has none."""
    told = [f"With {_listed(view.pictures, 'and')}."] if view.pictures else []
    return " ".join(told + ([f"There is no {_listed(view.absent, 'or')}."] if view.absent else []))


def _listed(names: Sequence[str], word: str) -> str:
    shown = [name if len(name) <= _NAME_WIDTH else f"…{name[1 - _NAME_WIDTH :]}" for name in names]
    if len(shown) > _NAMED:
        shown[_NAMED - 1 :] = [f"{len(shown) - _NAMED + 1} more"]
    *before, last = shown
    return f"{', '.join(before)} {word} {last}" if before else last


def figures(view: TurnView) -> list[str]:
    """Time, tokens and cost of a finished turn: "24.0 s", "3,120 tokens", "$0.021"."""
    told = [duration(view.elapsed_s())] if view.finished_at and view.started_at else []
    return told + spent(view)


def spent(view: TurnView) -> list[str]:
    """Tokens and cost as far as they are known; an unknown cost never reads as nothing."""
    told = [token_count(view.total_tokens)] if view.usage_known else []
    if not view.cost_known:
        return [*told, "cost unknown"]
    return [*told, money(view.cost)] if view.usage_known else told
