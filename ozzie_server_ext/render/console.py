"""A turn as text in 80 columns: console, nbclient, anything without rich output."""

import re
from collections.abc import Iterable
from datetime import datetime

from ozzie_server_ext.render.questions import Asked, QuestionView, made_from, way_to_answer, ways_to_answer, why_asked
from ozzie_server_ext.render.text import (
    LINE_WIDTH,
    cut_columns,
    cut_middle_columns,
    duration,
    folded,
    padded,
    visible_label,
    visible_prose,
    wrapped,
)
from ozzie_server_ext.render.toolrows import ToolRow
from ozzie_server_ext.render.turnview import (
    CONTINUED,
    KEPT,
    TextPart,
    TurnView,
    WorkPart,
    figures,
    queued_behind,
    result_text,
    shown_pictures,
)

_NAME, _ARGUMENT, _RESULT = 13, 28, 21  # with their gaps and "59 min 59 s": 80 columns
_QUOTE, _TAB = "  | ", 8
_BLANKS = re.compile(r"\n{3,}")


def plain_text(view: TurnView) -> str:
    """The whole turn as text, with nothing in it that a terminal would obey."""
    return "\n".join(console_lines(view))


def console_lines(view: TurnView) -> list[str]:
    """The turn, line by line: its head, its parts in their order, its end."""
    lines = _head(view)
    for part in view.parts:
        if isinstance(part, TextPart):
            if text := visible_prose(part.text).strip("\n"):
                lines += _BLANKS.sub("\n\n", text).split("\n")
        else:
            lines += [row_line(row, result_text(row, part.rows)) for row in part.rows]
    for asked in view.asked:
        lines += [*approval_lines(asked), *_ways(asked)]
    return [*lines, *_question(view), *_foot(view)]


class ConsoleWriter:
    """What to print next as a turn grows: streamed text once and never again, a row when its outcome is known."""

    def __init__(self) -> None:
        self._queued = False
        self._attempt = 1
        self._headed = False
        self._ended = False
        self._texts: dict[str, str] = {}
        self._rows: set[str] = set()
        self._asked: set[str] = set()
        self._fresh = True  # the cursor is at the start of a line

    @property
    def at_line_start(self) -> bool:
        """Whether what comes next stands at the beginning of a line."""
        return self._fresh

    def update(self, view: TurnView, now: datetime | None = None) -> str:
        """The text to print now; "" where there is nothing new."""
        out: list[str] = []
        if not self._queued and (behind := queued_behind(view, now)):
            self._queued = True
            self._line(out, f"[queued] {behind}")
        if not self._headed and (view.alias or view.model or view.parts or view.is_final):
            self._headed = True
            for line in _head(view):
                self._line(out, line)
        if view.recovered and view.attempt > self._attempt:
            # What was being said when the gateway went stands above, and is said again below.
            self._attempt = view.attempt
            self._line(out, CONTINUED)
        for part in view.parts:
            if isinstance(part, TextPart):
                self._text(out, part)
            else:
                self._work(out, part)
        if view.is_final and not self._ended:
            self._ended = True
            for line in _foot(view):
                self._line(out, line)
        return "".join(out)

    def asks(self, view: TurnView, now: datetime | None = None, *, but: str = "") -> str:
        """What the turn asks and has not asked before, with the commands that answer it; `but` is the one that is asked
        in another way."""
        out: list[str] = []
        for asked in view.asked:
            if asked.approval_id not in (*self._asked, but):
                self._asked.add(asked.approval_id)
                for line in (*approval_lines(asked, now), *_ways(asked)):
                    self._line(out, line)
        if view.question is not None and view.question.prompt_id not in (*self._asked, but):
            self._asked.add(view.question.prompt_id)
            for line in _question(view):
                self._line(out, line)
        return "".join(out)

    def _text(self, out: list[str], part: TextPart) -> None:
        text = visible_prose(part.text)
        if not part.done and text.endswith("\n"):
            text = text.rstrip("\n")  # the end of a line may yet be the end of the reply
        printed = self._texts.get(part.reply_id)
        if printed == text or not text:
            return
        if printed is None:
            self._start_line(out)
            fresh = text
        elif text.startswith(printed):
            fresh = text[len(printed) :]
        elif printed.startswith(text):
            return
        else:  # a reply that began anew
            self._start_line(out)
            fresh = text
        self._texts[part.reply_id] = text
        out.append(fresh)
        self._fresh = fresh.endswith("\n")

    def _work(self, out: list[str], part: WorkPart) -> None:
        for row in part.rows:
            if row.call_id not in self._rows and (row.is_settled or row.state == "unknown"):
                self._rows.add(row.call_id)
                self._line(out, row_line(row, row.result))

    def _line(self, out: list[str], line: str) -> None:
        self._start_line(out)
        out.append(f"{line}\n")

    def _start_line(self, out: list[str]) -> None:
        if not self._fresh:
            out.append("\n")
        self._fresh = True


def row_line(row: ToolRow, result: str) -> str:
    """One tool call in at most 80 columns."""
    seconds = row.seconds(None)
    told = f"{result}  outside" if row.outside else result
    if row.state in ("asked", "running"):
        told = row.state
    name = padded(cut_columns(row.name, _NAME), _NAME)
    argument = padded(cut_middle_columns(row.argument, _ARGUMENT), _ARGUMENT)
    took = "" if seconds is None else duration(seconds)
    return f"  {name} {argument}  {padded(cut_columns(told, _RESULT), _RESULT)}  {took}".rstrip()


def _head(view: TurnView) -> list[str]:
    named = visible_label(view.answering)
    shown = visible_label(shown_pictures(view))
    return [f"[working] {named}".rstrip(), *wrapped(shown)]


def question_lines(asked: QuestionView) -> list[str]:
    """What is asked, with its notes."""
    texts = [line for text in (asked.sentence, *asked.notes) for line in visible_prose(text).split("\n")]
    said = [line for text in texts for line in wrapped(text)]
    helps = [f"{visible_label(each.label)}: {visible_label(each.help)}" for each in asked.choices if each.help]
    told = [f"  {line}" for each in helps for line in wrapped(each, LINE_WIDTH - 2)]
    return [f"[waiting] {said[0]}", *said[1:], *told]


def _question(view: TurnView) -> list[str]:
    if view.question is None:
        return []
    choices = view.question.choices
    ways = [f"  {visible_label(choice.label)}: {way_to_answer(view.task_id, choice)}" for choice in choices]
    return [*question_lines(view.question), *ways]


def approval_lines(asked: Asked, now: datetime | None = None) -> list[str]:
    """What a person is asked to allow, with all of what would happen, in at most 80 columns."""
    lines = ["", f"Approval needed{_left(asked, now)}"]
    facts = ", ".join(f"{name.lower()} {said[:1].lower()}{said[1:].removesuffix('.')}" for name, said in asked.facts)
    told = f"{facts[:1].upper()}{facts[1:]}."
    says = (asked.sentence.replace("`", ""), why_asked(asked), made_from(asked), asked.checked, told, asked.elsewhere)
    for text in filter(None, says):
        lines += [f"  {line}" for line in wrapped(text, LINE_WIDTH - 2)]
    lines += quoted_lines(asked.proof)
    return lines + ([f"  It goes on: ozzie artifacts get {asked.whole}"] if asked.whole else [])


def quoted_lines(lines: Iterable[str]) -> list[str]:
    """Visible lines behind a mark: nothing in them can pass for a line of ours, and nobody says yes to the end of a
    line that they did not see."""
    room = LINE_WIDTH - len(_QUOTE)
    return [f"{_QUOTE}{piece}".rstrip() for line in lines for piece in folded(line.expandtabs(_TAB), room)]


def detail_lines(asked: Asked) -> list[str]:
    """What else is known of an approval, for who asks."""
    told = {
        "Tool": asked.name,
        "Rule": asked.rule,
        "For this session": asked.cover.replace("`", "") or "not offered",
        "Approval": asked.approval_id,
        "Key": asked.key,
    }
    facts = [f"  {padded(name, 18)}{piece}" for name, said in told.items() for piece in folded(said or "none", 60)]
    return facts + (["  Arguments", *quoted_lines(asked.arguments)] if asked.arguments else [])


def _ways(asked: Asked) -> list[str]:
    return [f"  {name}: {way}" for name, way in ways_to_answer(asked)]


def _left(asked: Asked, now: datetime | None) -> str:
    if asked.expired:
        return " (expired; nothing was done)"
    if asked.expires_at is None or now is None:
        return ""
    return f" (expires in {max(round((asked.expires_at - now).total_seconds() / 60), 1)} min)"


def _foot(view: TurnView) -> list[str]:
    if not view.is_final:
        return []
    lines: list[str] = []
    if view.closing:
        lines.append(visible_label(view.closing))
    if view.error is not None:
        kept = "" if KEPT in view.error.hint else KEPT
        said = (visible_label(text) for text in (view.error.message, f"{view.error.hint} {kept}"))
        lines += [line for text in said for line in wrapped(text)]
    return [*lines, f"[{view.status.lower()}] {', '.join(figures(view))}".rstrip()]
