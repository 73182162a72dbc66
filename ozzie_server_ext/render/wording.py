"""Sentences about a turn and its steps that more than one form uses (UX §2.3, §10)."""

from collections.abc import Sequence
from datetime import datetime

from ozzie_server_ext.render.text import cut_end, duration, money, token_count
from ozzie_server_ext.render.toolrows import RESULT_WIDTH, ToolRow
from ozzie_server_ext.render.turnview import TurnView

KEPT = "Your message is kept."
CONTINUED = "Continued after a restart. Nothing was done twice."
"""String 21 of UX §10."""
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
