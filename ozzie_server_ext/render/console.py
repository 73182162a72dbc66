"""A turn as text in 80 columns: console, nbclient, anything without rich output."""

import re
from collections.abc import Iterable
from datetime import datetime

from ozzie_server_ext.render.questions import (
    PendingApproval,
    QuestionView,
    made_from,
    way_to_answer,
    ways_to_answer,
    why_asked,
)
from ozzie_server_ext.render.text import (
    LINE_WIDTH,
    columns,
    cut_columns,
    cut_middle_columns,
    duration,
    folded,
    padded,
    visible_label,
    visible_prose,
    wrapped,
)
from ozzie_server_ext.render.toolrows import SERVERS_WORDS, ToolRow
from ozzie_server_ext.render.turnview import (
    CONTINUED,
    TextPart,
    TurnView,
    WorkPart,
    about_message,
    figures,
    queued_behind,
    result_text,
)

_NAME, _ARGUMENT, _RESULT = 13, 28, 21  # with their gaps and "59 min 59 s": 80 columns
_QUOTE, _TAB = "  | ", 8
_BLANKS = re.compile(r"\n{3,}")


def plain_text(view: TurnView) -> str:
    """Return the whole turn as text, without anything that a terminal would obey."""
    return "\n".join(console_lines(view))


def console_lines(view: TurnView) -> list[str]:
    """Return the lines of the turn: its head, its parts in order, its end."""
    lines = _head(view)
    for part in view.parts:
        if isinstance(part, TextPart):
            if text := visible_prose(part.text).strip("\n"):
                lines += _BLANKS.sub("\n\n", text).split("\n")
        else:
            for row in part.rows:
                lines += [row_line(row, result_text(row, part.rows)), *words_lines(row)]
    for asked in view.asked:
        lines += [*approval_lines(asked), *_ways(asked)]
    return [*lines, *_question(view), *_foot(view)]


class ConsoleWriter:
    """Returns what to print next as a turn grows: streamed text only once, a row when its outcome is known."""

    def __init__(self) -> None:
        self._queued = False
        self._recoveries = 0
        self._headed = False
        self._ended = False
        self._texts: dict[str, str] = {}
        self._rows: set[str] = set()
        self._asked: set[str] = set()
        self._fresh = True  # the cursor is at the start of a line

    @property
    def at_line_start(self) -> bool:
        """Whether the next text begins a line."""
        return self._fresh

    def update(self, view: TurnView, now: datetime | None = None) -> str:
        """Return the text to print now; "" if nothing is new."""
        out: list[str] = []
        if not self._queued and (behind := queued_behind(view, now)):
            self._queued = True
            self._line(out, f"[queued] {behind}")
        if not self._headed and (view.alias or view.model or view.parts or view.is_final):
            self._headed = True
            for line in _head(view):
                self._line(out, line)
        if view.recoveries > self._recoveries and view.status != "Queued":
            # The text that a restart interrupted stands above, and comes again below.
            self._recoveries = view.recoveries
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
        """Return the turn's new questions and the commands that answer them; `but` is the id of one that is asked in
        another way."""
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
        else:  # a reply that began again
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
                for line in words_lines(row):
                    self._line(out, line)

    def _line(self, out: list[str], line: str) -> None:
        self._start_line(out)
        out.append(f"{line}\n")

    def _start_line(self, out: list[str]) -> None:
        if not self._fresh:
            out.append("\n")
        self._fresh = True


def row_line(row: ToolRow, result: str) -> str:
    """Return one tool call in at most 80 columns."""
    seconds = row.seconds(None)
    result = f"{result}  outside" if row.outside else result
    if row.state in ("asked", "running"):
        result = row.state
    name = padded(cut_columns(row.name, _NAME), _NAME)
    argument = padded(cut_middle_columns(row.argument, _ARGUMENT), _ARGUMENT)
    took = "" if seconds is None else duration(seconds)
    return f"  {name} {argument}  {padded(cut_columns(result, _RESULT), _RESULT)}  {took}".rstrip()


def words_lines(row: ToolRow) -> list[str]:
    """Return the words of a server's prompt, which the model answers."""
    if not row.words:
        return []
    lines = (each for line in row.words.split("\n") for each in wrapped(line, LINE_WIDTH - 4) or [""])
    return [f"  {SERVERS_WORDS}", *(f"  | {line}".rstrip() for line in lines)]


def _head(view: TurnView) -> list[str]:
    named = visible_label(view.answering)
    shown = visible_label(about_message(view))
    return [f"[working] {named}".rstrip(), *wrapped(shown)]


def question_lines(asked: QuestionView) -> list[str]:
    """Return a question with its notes."""
    texts = [line for text in (asked.sentence, *asked.notes) for line in visible_prose(text).split("\n")]
    first, *more = [line for text in texts for line in wrapped(text)] or [""]
    helps = [f"{visible_label(each.label)}: {visible_label(each.help)}" for each in asked.choices if each.help]
    return [f"[waiting] {first}", *more, *(f"  {line}" for each in helps for line in wrapped(each, LINE_WIDTH - 2))]


def _question(view: TurnView) -> list[str]:
    if view.question is None:
        return []
    choices = view.question.choices
    ways = [f"  {visible_label(choice.label)}: {way_to_answer(view.task_id, choice)}" for choice in choices]
    return [*question_lines(view.question), *ways]


def approval_lines(asked: PendingApproval, now: datetime | None = None) -> list[str]:
    """Return what a person is to approve, with all that would happen, in at most 80 columns."""
    lines = ["", f"Approval needed{_left(asked, now)}"]
    lines += [f"  {line}" for line in wrapped(asked.sentence.replace("`", ""), LINE_WIDTH - 2)]
    for word, named in asked.targets:
        lines += hanging(f"  {word}: ", named)
    for text in filter(None, (asked.known_from, why_asked(asked), made_from(asked), asked.checked, asked.elsewhere)):
        lines += [f"  {line}" for line in wrapped(text, LINE_WIDTH - 2)]
    lines += quoted_lines(asked.proof)
    return lines + ([f"  It goes on: ozzie artifacts get {asked.whole}"] if asked.whole else [])


def hanging(lead: str, text: str) -> list[str]:
    """Return one visible paragraph behind `lead`, with a hanging indent. Words longer than a line are folded."""
    room = LINE_WIDTH - columns(lead)
    pieces = [piece for line in wrapped(visible_label(text), room) for piece in folded(line, room)]
    return [f"{lead if number == 0 else ' ' * columns(lead)}{piece}" for number, piece in enumerate(pieces)]


def quoted_lines(lines: Iterable[str]) -> list[str]:
    """Return visible lines behind a mark, so that none can pass for a line of ours; long ones are folded, as nobody may
    approve the end of a line that they did not see."""
    room = LINE_WIDTH - len(_QUOTE)
    return [f"{_QUOTE}{piece}".rstrip() for line in lines for piece in folded(line.expandtabs(_TAB), room)]


def detail_lines(asked: PendingApproval) -> list[str]:
    """Return all other details of an approval."""
    details = {
        "Tool": asked.name,
        "Rule": asked.rule,
        "For this session": asked.cover.replace("`", "") or "not offered",
        "Approval": asked.approval_id,
        "Key": asked.key,
    }
    facts = [f"  {padded(name, 18)}{piece}" for name, text in details.items() for piece in folded(text or "none", 60)]
    return facts + (["  Arguments", *quoted_lines(asked.arguments)] if asked.arguments else [])


def _ways(asked: PendingApproval) -> list[str]:
    return [f"  {name}: {way}" for name, way in ways_to_answer(asked)]


def _left(asked: PendingApproval, now: datetime | None) -> str:
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
        texts = (visible_label(text) for text in (view.error.message, view.error.advice))
        lines += [line for text in texts for line in wrapped(text)]
    return [*lines, f"[{view.status.lower()}] {', '.join(figures(view))}".rstrip()]
