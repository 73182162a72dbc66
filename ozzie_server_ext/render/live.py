"""A running turn as one self-contained, inert piece of HTML, for a widget that shows HTML unchanged."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files

from ozzie_server_ext.render.icons import icon
from ozzie_server_ext.render.markdown import MAX_SHOWN, StreamingMarkdown
from ozzie_server_ext.render.markdown_source import inert_html
from ozzie_server_ext.render.questions import (
    EACH_ASKS,
    PendingApproval,
    made_from,
    way_to_answer,
    ways_to_answer,
    why_asked,
)
from ozzie_server_ext.render.text import duration, elapsed, spoken_duration, step_count, visible_label, visible_prose
from ozzie_server_ext.render.toolrows import SERVERS_WORDS, ToolRow
from ozzie_server_ext.render.turnview import (
    Part,
    TextPart,
    TurnView,
    WorkPart,
    about_message,
    queued_behind,
    result_text,
    spent,
)

_CSS = files("ozzie_server_ext.render").joinpath("live.css").read_text("utf-8")
STYLE = f"<style> {' '.join(line.strip() for line in _CSS.splitlines())}</style>"


_CODE = re.compile(r"`([^`]{1,200})`")
_HOUR_S = 3600
MAX_ROWS = 200
"""Limit on the rows drawn of a work group, and about the limit for a running turn; the newest are drawn."""


class LiveTurn:
    """Draws one turn repeatedly as it grows. Keeps the HTML of closed blocks, so use one for each turn.

    `is_record`: it draws a turn as it once was, and doesn't say how to answer what was asked then.
    """

    def __init__(self, *, is_record: bool = False) -> None:
        self._is_record = is_record
        self._open: dict[str, StreamingMarkdown] = {}
        self._done: dict[str, tuple[str, str]] = {}

    def html(self, view: TurnView, now: datetime | None = None) -> str:
        """Return the turn as HTML. Texts of a model or a tool are escaped, or go through `inert_html`."""
        busy = "true" if view.status == "Working" else "false"
        first = 0 if view.is_final else _first_shown(view.parts)
        parts = _above(view.parts[:first]) + "".join(self._part(view, at, now) for at in range(first, len(view.parts)))
        asked = "".join(
            _approval(each, now, self._ways(_way(*way) for way in ways_to_answer(each))) for each in view.asked
        )
        body = f"{_pictures(view)}{parts}{asked}{self._question(view)}{_ending(view)}"
        return (
            f'<div class="oz" role="group" aria-label="Turn, {view.status}">{STYLE}'
            f'{_state_line(view, now)}<div class="oz-body" aria-busy="{busy}">{body}</div></div>'
        )

    def _part(self, view: TurnView, index: int, now: datetime | None) -> str:
        part = view.parts[index]
        if isinstance(part, WorkPart):
            return _work(part, now)
        if not part.text:
            return ""
        live = view.status == "Working" and not part.done and index == len(view.parts) - 1
        return f'<div class="oz-md jp-RenderedHTMLCommon jp-RenderedMarkdown">{self._text(part, live=live)}</div>'

    def _text(self, part: TextPart, *, live: bool) -> str:
        if not part.done:
            return self._open.setdefault(part.reply_id, StreamingMarkdown()).html(part.text, caret=live)
        known = self._done.get(part.reply_id)
        if known is None or known[0] != part.text:
            known = self._done[part.reply_id] = (part.text, inert_html(part.text))
            self._open.pop(part.reply_id, None)
        return known[1]

    def _question(self, view: TurnView) -> str:
        """Return what the turn waits for, and how to answer."""
        if view.question is None:
            return ""
        notes = "".join(f"<p>{escape(visible_label(note))}</p>" for note in view.question.notes)
        ways = self._ways(
            f"{_way(choice.label, way_to_answer(view.task_id, choice))} {escape(visible_label(choice.help))}"
            for choice in view.question.choices
        )
        sentence = escape(visible_prose(view.question.sentence)).replace("\n", "<br>")
        return (
            f'<div class="oz-ask-card" role="group" aria-label="A question"><p><b>{sentence}</b></p>{notes}{ways}</div>'
        )

    def _ways(self, ways: Iterable[str]) -> str:
        """Return how to answer in a terminal."""
        items = "".join(f"<li>{way}</li>" for way in ways)
        return "" if self._is_record else f"<p>In a terminal:</p><ul>{items}</ul>"


def _way(name: str, command: str) -> str:
    return f"{escape(visible_label(name))}: <code>{escape(command)}</code>"


def _state_line(view: TurnView, now: datetime | None) -> str:
    seconds = view.elapsed_s(now)
    meta: list[str] = []
    if view.started_at is not None and view.status != "Queued":
        shown = duration(seconds) if view.is_final else elapsed(seconds)
        running = _running(seconds) if view.status == "Working" else ""
        meta.append(f'<span class="oz-t" aria-label="{spoken_duration(seconds)}"{running}>{shown}</span>')
    meta += [f"<span>{escape(note)}</span>" for note in _notes(view)]
    meta += [
        f'<span class="{"oz-tok" if figure.endswith(("token", "tokens")) else "oz-cost"}">{escape(figure)}</span>'
        for figure in spent(view)
    ]
    word = f"{view.status} {queued_behind(view, now)}".rstrip()
    alias = escape(visible_label(view.answering))
    model = f"{view.provider}/{view.model}".strip("/")
    model = escape(visible_label(f"{model}, instead of {view.instead_of}" if view.instead_of else model))
    return (
        f'<div class="oz-status">{icon(view.status, seconds)}<b>{word}</b>'
        f'<span class="oz-meta">{"".join(meta)}</span><span class="oz-grow"></span>'
        f'<span class="oz-meta oz-model" title="{model}">{alias}</span></div>'
    )


def _running(seconds: float) -> str:
    """Return the attribute that lets a page continue a time by itself while nothing is new."""
    return f' data-s="{seconds:.1f}"'


def _notes(view: TurnView) -> list[str]:
    notes: list[str] = []
    if view.recoveries and not view.is_final:
        notes.append("continued after a restart")
    running = [row.name for row in view.rows if row.state == "running"]
    waiting = sum(not each.expired for each in view.asked)
    if view.status == "Working" and running:
        notes.append(running[-1] if len(running) == 1 else f"{running[-1]} and {len(running) - 1} more")
    elif view.status == "Working" and view.step:
        notes.append(visible_label(view.step))
    if view.status == "Waiting for you" and waiting:
        notes.append("1 approval" if waiting == 1 else f"{waiting} approvals")
    if view.budget_share and not view.is_final and view.question is None:
        notes.append(f"{view.budget_share} % of budget")
    if view.status in ("Paused", "Waiting") and view.reason:
        notes.append(visible_label(view.reason))
    return notes


def _first_shown(parts: Sequence[Part]) -> int:
    """Return where to begin: only the end of a long turn is drawn while it grows, as each update carries all of it."""
    rows = characters = 0
    for at in range(len(parts) - 1, -1, -1):
        part = parts[at]
        if isinstance(part, WorkPart):
            rows += len(part.rows)
        else:
            characters += len(part.text)
        if at < len(parts) - 1 and (rows > MAX_ROWS or characters > MAX_SHOWN):
            return at + 1
    return 0


def _pictures(view: TurnView) -> str:
    shown = visible_label(about_message(view))
    return f'<p class="oz-note">{escape(shown)}</p>' if shown else ""


def _above(hidden: Sequence[Part]) -> str:
    if not hidden:
        return ""
    steps = sum(len(part.rows) for part in hidden if isinstance(part, WorkPart))
    before = f"{step_count(steps)} before this, and the text above, are" if steps else "The text above this is"
    return f'<p class="oz-note">{before} shown when the turn ends.</p>'


def _work(part: WorkPart, now: datetime | None) -> str:
    rows = part.rows[-MAX_ROWS:]
    hidden = len(part.rows) - len(rows)
    above = f'<div class="oz-row oz-mut">{step_count(hidden)} before these</div>' if hidden else ""
    drawn = "".join(
        _approved(row) + _row(row, result_text(row, part.rows), now) + _output(row) + _words(row) for row in rows
    )
    return f'<div class="oz-work" role="list">{above}{drawn}</div>'


def _approved(row: ToolRow) -> str:
    """Return a row that says who approved the call below it."""
    if not row.approved:
        return ""
    return (
        f'<div class="oz-row" role="listitem" aria-label="approval, done">{icon("done")}<span class="oz-tool">approval'
        f'</span><bdi class="oz-arg oz-cut" dir="ltr">{escape(row.argument)}</bdi><span class="oz-grow"></span>'
        f'<span class="oz-res oz-cut">{escape(row.approved)}</span></div>'
    )


def _output(row: ToolRow) -> str:
    """Return the last lines that a running call has printed."""
    if row.state != "running" or not row.output:
        return ""
    hidden = row.printed - len(row.output)
    above = f'<div class="oz-do">{hidden:,} lines before these</div>' if hidden > 0 else ""
    lines = escape("\n".join(row.output))
    return f'<div class="oz-out" role="presentation">{above}<pre>{lines}</pre></div>'


def _words(row: ToolRow) -> str:
    """Return the words of a server's prompt, which the model answers."""
    if not row.words:
        return ""
    return (
        f'<div class="oz-out" role="presentation"><div class="oz-do">{escape(SERVERS_WORDS)}</div>'
        f"<pre>{escape(row.words)}</pre></div>"
    )


def _origin(row: ToolRow) -> str:
    places = [visible_label(source.partition(":")[2]) for source in row.brought]
    return f"This result came from outside: {', '.join(filter(None, places)) or 'an unknown source'}"


def _row(row: ToolRow, result: str, now: datetime | None) -> str:
    seconds = row.seconds(now)
    took = "" if seconds is None else duration(seconds)
    running = _running(seconds) if seconds is not None and row.state == "running" else ""
    tag = f'<span class="oz-tag" title="{escape(_origin(row))}">outside content</span>' if row.outside else ""
    detail = f' title="{escape(row.detail)}"' if row.detail and row.detail != result else ""
    return (
        f'<div class="oz-row" role="listitem" aria-label="{escape(f"{row.name}, {row.state}")}">'
        f'{icon(row.state, seconds or 0.0)}<span class="oz-tool">{escape(row.name)}</span>'
        f'<bdi class="oz-arg oz-cut" dir="ltr">{escape(row.argument)}</bdi>{tag}<span class="oz-grow"></span>'
        f'<span class="oz-res oz-cut"{detail}>{escape(result)}</span><span class="oz-dur"{running}>{took}</span></div>'
    )


def _approval(asked: PendingApproval, now: datetime | None, ways: str) -> str:
    """Return a call that a person is to approve; `ways` say how to answer."""
    covers = asked.cover and not asked.is_grave
    covered = f"For this session: {_with_code(asked.cover)}" if covers else escape(EACH_ASKS)
    by = f"<p>{escape(asked.elsewhere)}</p>" if asked.elsewhere else ""
    hidden = f'<p class="oz-do">{_with_code(asked.hidden)}</p>' if asked.hidden else ""
    targets = "".join(
        f'<p class="oz-to">{escape(word)}: <bdi dir="ltr">{escape(named)}</bdi></p>' for word, named in asked.targets
    )
    known = f'<p class="oz-do">{escape(asked.known_from)}</p>' if asked.known_from else ""
    notes = "".join(f"<p>{escape(said)}</p>" for said in (made_from(asked), asked.checked) if said)
    head = (
        f'{icon("waiting")}<b>Approval needed</b><span class="oz-grow"></span><span>{escape(_left(asked, now))}</span>'
    )
    return (
        f'<div class="oz-ask-card" role="group" aria-label="{escape(asked.sentence)}"><div class="oz-kick">{head}</div>'
        f'<p class="oz-say">{_with_code(asked.sentence)}</p>{targets}{known}<p>{escape(why_asked(asked))}</p>{notes}'
        f'{_proof(asked)}{hidden}<p class="oz-do">{covered}</p>{by}{ways}</div>'
    )


def _proof(asked: PendingApproval) -> str:
    if not asked.proof:
        return ""
    lines = "".join(_proof_line(line, is_diff=asked.is_diff) for line in asked.shown)
    return f'<pre class="oz-proof" dir="ltr">{lines}</pre>'


def _proof_line(line: str, *, is_diff: bool) -> str:
    kind = {"+": " oz-plus", "-": " oz-minus"}.get(line[:1], "") if is_diff else ""
    return f'<span class="oz-line{kind}">{escape(line)}\n</span>'


def _left(asked: PendingApproval, now: datetime | None) -> str:
    if asked.expires_at is None:
        return ""
    at = f"{asked.expires_at.astimezone():%H:%M}"
    if asked.expired:
        return f"Expired at {at}. Nothing was done."
    left = (asked.expires_at - now).total_seconds() if now else _HOUR_S
    if left >= _HOUR_S:
        return f"Expires at {at}"
    minutes, seconds = divmod(max(int(left), 0), 60)
    return f"Expires in {minutes}:{seconds:02}"


def _ending(view: TurnView) -> str:
    if view.status == "Stopped":
        return f'<p class="oz-closing">{escape(visible_label(view.closing))}</p>'
    if view.status == "Failed" and view.error is not None:
        return (
            f'<div class="oz-err" role="status"><p><b>{_with_code(view.error.message)}</b></p>'
            f'<p class="oz-do">{_with_code(view.error.advice)}</p></div>'
        )
    return ""


def _with_code(sentence: str) -> str:
    """Return a sentence of ours as HTML; backticks mark commands."""
    pieces = _CODE.split(visible_label(sentence))
    return "".join(f"<code>{escape(piece)}</code>" if at % 2 else escape(piece) for at, piece in enumerate(pieces))
