"""The view of a turn: its parts in order, its state, and what it used."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeAlias

from ozzie_server_ext.render.questions import PendingApproval, QuestionView
from ozzie_server_ext.render.text import cut_end, duration, money, token_count
from ozzie_server_ext.render.toolrows import RESULT_WIDTH, ToolRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """The text of one reply. `end` is the character offset that the stream has reached; `holes`: some text before it
    was missed, until the final text or a whole replay fills it. `cut`: it was stopped. `short`: it reached its length
    limit."""

    reply_id: str
    text: str = ""
    done: bool = False
    end: int = 0
    holes: bool = False
    cut: bool = False
    short: bool = False


def begun(reply_id: str, start: int, content: str) -> TextPart:
    """Return a reply whose first piece that came has this offset."""
    return TextPart(reply_id=reply_id, text=content, end=start + len(content), holes=start > 0)


def grown(part: TextPart, start: int | None, content: str) -> TextPart:
    """Return the part with another piece at this offset; None means it follows the present text."""
    if part.done:
        return part
    start = part.end if start is None else start
    end = start + len(content)
    if start == 0 and end >= part.end:  # a late subscriber gets the whole text so far
        return replace(part, text=content, end=end, holes=False)
    if end <= part.end:
        return part
    # The final text closes a gap; until then the pieces are adjacent.
    fresh = content[max(part.end - start, 0) :]
    return replace(part, text=part.text + fresh, end=end, holes=part.holes or start > part.end)


Status: TypeAlias = Literal[
    "Queued",
    "Working",
    "Waiting for you",
    "Waiting for your answer",
    "Waiting",
    "Needs a decision",
    "Paused",
    "Done",
    "Failed",
    "Stopped",
]
"""The states of a turn, in the words that people read. A run is "Waiting" if its steps wait for anything but a yes."""

FINAL_STATUSES = frozenset({"Done", "Failed", "Stopped"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPart:
    """Consecutive tool calls."""

    rows: tuple[ToolRow, ...]


Part: TypeAlias = TextPart | WorkPart


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnError:
    """Why a turn failed: a sentence, what to do about it, the stable code, and the provider's own words."""

    code: str
    message: str
    hint: str
    detail: str = ""

    @property
    def advice(self) -> str:
        """What to do, and that the message is kept."""
        return self.hint if KEPT in self.hint else f"{self.hint} {KEPT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegated:
    """What a turn's delegated tasks have used, as in `TurnView`. `models` by alias, provider and model."""

    models: tuple[tuple[str, str, str], ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    cost_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """One turn. At its end, the figures include what it has `delegated`.

    - `parts`: in the order in which things happened
    - `cost`: in 1e-9 USD, a lower bound if `cost_known` is false
    - `recoveries`: how often it went on after a restart
    - `closing`: the last line of a turn that a person stopped
    - `step`: what the turn waits for if that has no row; `ahead`: the number of turns before it in its session
    - `instead_of`: the provider that another one replaces
    - `question`: the question that it waits for; `asked`: the approvals that it waits for, oldest first
    - `answers`: who answered either and when, by the id of the question
    - `checked`: the approvals that a second model gave, each with its call
    - `budget_share`: the used per cent of a budget, once that is worth showing
    - `pictures`: the message's pictures; `absent`: those that do not exist
    - `is_joined`: the message of the cell answered the turn's question, from where on the view begins
    - `is_run`: it is a run of a skill, whose graph shows its steps
    - `compacted`: how many earlier turns were summarized for it
    - `rejected`: the replies that do not fit the schema; the last one stays in `parts` until the next begins
    """

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
    recoveries: int = 0
    reason: str = ""
    closing: str = ""
    step: str = ""
    is_run: bool = False
    question: QuestionView | None = None
    asked: tuple[PendingApproval, ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    checked: tuple[tuple[str, str], ...] = ()
    rejected: frozenset[str] = field(default_factory=frozenset[str])
    ahead: int = 0
    budget_share: int = 0
    open_calls: frozenset[str] = field(default_factory=frozenset[str])
    counted_calls: frozenset[str] = field(default_factory=frozenset[str])
    delegated: Delegated | None = None
    is_joined: bool = False
    compacted: int = 0

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def answering(self) -> str:
        """Who answers: the alias, and the provider if it is a substitute."""
        name = self.alias or self.model
        return f"{name} ({self.provider})" if self.instead_of else name

    @property
    def models(self) -> tuple[tuple[str, str, str], ...]:
        """The models that were called, by alias, provider and model: its own, then those of delegated tasks."""
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
    def text(self) -> str:
        """What was said in it, without the tool calls between."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart) and part.text)

    @property
    def last_text(self) -> str:
        """What it ends with; "" if it doesn't end with a text."""
        last = self.parts[-1] if self.parts else None
        return last.text if isinstance(last, TextPart) else ""

    @property
    def usage_known(self) -> bool:
        """Whether any call has reported its usage. A failed call used nothing, which means little while another one
        runs."""
        has_told = bool(self.counted_calls) or self.delegated is not None
        return has_told and (self.is_final or self.total_tokens > 0)

    def elapsed_s(self, now: datetime | None = None) -> float:
        """Return the seconds of work so far or in all, without the time spent waiting for a person."""
        end = self.finished_at or now
        if self.started_at is None or end is None:
            return 0.0
        held = (end - self.held_since).total_seconds() if self.held_since else 0.0
        return max((end - self.started_at).total_seconds() - self.waited_s - max(held, 0.0), 0.0)


KEPT = "Your message is kept."
ANSWERED = "Your message answered the question of an earlier turn, which goes on here."
CONTINUED = "Continued after a restart. Nothing was done twice."

_NAMED, _NAME_WIDTH = 4, 60
QUEUED_AFTER_S = 2.0
"""A queued turn waits so long before it shows what is ahead: most start sooner."""


def result_text(row: ToolRow, rows: Sequence[ToolRow]) -> str:
    """Return the result of a call in a few words, and whether a failed one was repeated."""
    if row.state == "failed" and retried(row, rows):
        return cut_end(f"{row.result}, tried again", RESULT_WIDTH)
    return row.result


def retried(row: ToolRow, rows: Sequence[ToolRow]) -> bool:
    """Whether the same tool was called with the same argument after `row`."""
    later = False
    for other in rows:
        if later and (other.name, other.argument) == (row.name, row.argument):
            return True
        later = later or other.call_id == row.call_id
    return False


def unresolved(rows: Sequence[ToolRow]) -> list[str]:
    """Return what a summary must not hide: failures without a later success, refusals, unknown outcomes."""
    words = {"failed": "failed", "denied": "not allowed", "unknown": "unknown outcome"}
    found = [
        f"{row.name} {words[row.state]}"
        for row in rows
        if row.state in words and not (row.state == "failed" and retried(row, rows))
    ]
    return list(dict.fromkeys(found))


def queued_behind(view: TurnView, now: datetime | None) -> str:
    """Return "behind 2 tasks" once a turn has waited for some time, else ""."""
    if view.status != "Queued" or not view.ahead or view.elapsed_s(now) < QUEUED_AFTER_S:
        return ""
    return "behind 1 task" if view.ahead == 1 else f"behind {view.ahead} tasks"


def about_message(view: TurnView) -> str:
    """Return what became of the message and its pictures: "With plot.png and map.jpg. There is no legend.png."; "" if
    there is nothing to say."""
    sentences = [ANSWERED] if view.is_joined else []
    if view.compacted:
        turns = "1 earlier turn was" if view.compacted == 1 else f"{view.compacted:,} earlier turns were"
        sentences.append(f"{turns} summarized to make room; the log keeps them whole.")
    sentences += [f"With {_listed(view.pictures, 'and')}."] if view.pictures else []
    return " ".join(sentences + ([f"There is no {_listed(view.absent, 'or')}."] if view.absent else []))


def _listed(names: Sequence[str], word: str) -> str:
    shown = [name if len(name) <= _NAME_WIDTH else f"…{name[1 - _NAME_WIDTH :]}" for name in names]
    if len(shown) > _NAMED:
        shown[_NAMED - 1 :] = [f"{len(shown) - _NAMED + 1} more"]
    *before, last = shown
    return f"{', '.join(before)} {word} {last}" if before else last


def figures(view: TurnView) -> list[str]:
    """Return time, tokens and cost of a finished turn: "24.0 s", "3,120 tokens", "$0.021"."""
    took = [duration(view.elapsed_s())] if view.finished_at and view.started_at else []
    return took + spent(view)


def spent(view: TurnView) -> list[str]:
    """Return tokens and cost as far as they are known; an unknown cost never reads as nothing."""
    tokens = [token_count(view.total_tokens)] if view.usage_known else []
    if not view.cost_known:
        return [*tokens, "cost unknown"]
    return [*tokens, money(view.cost)] if view.usage_known else tokens
