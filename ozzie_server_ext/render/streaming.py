"""Markdown that is still being written: each closed block is drawn once, only the open one again (UX §2.2)."""

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ozzie_server_ext.render.markdown_html import plain_block, to_html
from ozzie_server_ext.render.markdown_tree import MAX_CHARS, TooDeep, parse
from ozzie_server_ext.render.text import visible_prose

if TYPE_CHECKING:
    from markdown_it.token import Token

CARET = '<span class="oz-caret" aria-hidden="true"></span>'
MAX_OPEN_CHARS = 16 * 1024
"""An open block above this is shown as it is until it closes: it would be parsed anew at every update."""

MAX_SHOWN = 192 * 1024
"""Characters of HTML shown of one reply while it streams; the end of the turn shows all of it."""

_RETRY_GROWTH = 1.25  # a long open block is looked at again when it has grown by so much: linear in all

_CLOSERS = re.compile(r"(?:\s*</[a-z0-9]+>)*\s*\Z")
_CLOSERS_WIDTH = 400


class StreamingMarkdown:
    """The HTML of one growing text. Feed it the whole text each time; it looks only at what is new.

    A text that does not go on from the one before (a reply that was reset) starts over.
    """

    def __init__(self) -> None:
        self._start_over()

    def html(self, text: str, *, caret: bool = True) -> str:
        """Inert HTML of `text`, by default with the mark of its live end."""
        source = visible_prose(text)
        if not source.startswith(self._closed_source):
            self._start_over()
        opened = self._advance(source[len(self._closed_source) :])
        shown = self._shown_closed() + opened
        return _with_caret(shown) if caret else shown

    def _start_over(self) -> None:
        self._closed: list[str] = []
        self._closed_source = ""
        self._references: dict[str, Any] = {}
        self._look_again_at = 0

    def _advance(self, tail: str) -> str:
        """Keeps the blocks of `tail` that have closed; gives back the HTML of the rest."""
        if len(tail) > MAX_CHARS or MAX_OPEN_CHARS < len(tail) < self._look_again_at:
            return plain_block(tail)
        try:
            tokens = parse(tail, self._references)
            index, line = _open_from(tokens, complete_lines=tail.count("\n"))
            if line:
                self._closed.append(to_html(tokens[:index]))
                kept = "".join(tail.splitlines(keepends=True)[:line])
                self._closed_source += kept
                tail = tail[len(kept) :]
            if len(tail) > MAX_OPEN_CHARS:
                self._look_again_at = int(len(tail) * _RETRY_GROWTH)
                return plain_block(tail)
            return _open_html(tokens[index:], tail)
        except TooDeep:
            return plain_block(tail)

    def _shown_closed(self) -> str:
        size = 0
        for index in range(len(self._closed) - 1, -1, -1):
            size += len(self._closed[index])
            if size > MAX_SHOWN:
                note = '<p class="oz-note">The text above this is shown when the turn ends.</p>\n'
                return note + "".join(self._closed[index + 1 :])
        return "".join(self._closed)


def _open_from(tokens: "Sequence[Token]", *, complete_lines: int) -> tuple[int, int]:
    """Token and line at which the part begins that may still change: the last block, or the one before it while the
    line that would begin the last one is unfinished ("1" may become "1. item" or go on with the paragraph)."""
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        if token.level == 0 and token.nesting >= 0 and token.map and token.map[0] < complete_lines:
            return index, token.map[0]
    return 0, 0


def _open_html(tokens: "Sequence[Token]", source: str) -> str:
    """The open part; a table is text until it has a row below its head."""
    starts = [index for index, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0]
    if not starts or tokens[starts[-1]].type != "table_open":
        return to_html(tokens)
    table = tokens[starts[-1] :]
    if any(token.type == "tbody_open" for token in table):
        return to_html(tokens)
    lines = source.rstrip("\n").split("\n")[-2:]
    return to_html(tokens[: starts[-1]]) + f"<p>{'<br>'.join(escape(line) for line in lines)}</p>\n"


def _with_caret(html: str) -> str:
    head, end = html[:-_CLOSERS_WIDTH], html[-_CLOSERS_WIDTH:]
    match = _CLOSERS.search(end)
    at = match.start() if match else len(end)
    return head + end[:at] + CARET + end[at:]
