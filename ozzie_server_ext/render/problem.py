"""What went wrong and what to do next, for a cell that did not become a turn (UX §2.8)."""

import re

from ozzie_server_ext.render.columns import wrapped
from ozzie_server_ext.render.page import Command, Inline, Paragraph, Strong, page_markdown
from ozzie_server_ext.render.text import visible_prose

_COMMAND = re.compile(r"`([^`\n]+)`")


def problem_bundle(sentence: str, hint: str) -> dict[str, str]:
    """A MIME bundle: the sentence in bold, then what to do. Commands in backticks stay commands; all else is text as it
    stands, because a sentence may quote a title, a path or a provider."""
    bold = [page_markdown([Paragraph([Strong(line)])]) for line in _lines(sentence)]
    told = [page_markdown([Paragraph(_inlines(line))]) for line in _lines(hint)]
    return {
        "text/markdown": "\n\n".join("  \n".join(lines) for lines in (bold, told) if lines),
        "text/plain": "\n".join(
            line for part in (sentence, hint) for told in visible_prose(part).splitlines() for line in wrapped(told)
        ),
    }


def _lines(text: str) -> list[str]:
    return [line.strip() for line in visible_prose(text).splitlines() if line.strip()]


def _inlines(line: str) -> list[Inline]:
    """Every second piece of the split is what stood between backticks."""
    pieces = _COMMAND.split(line)
    return [Command(piece) if index % 2 else piece for index, piece in enumerate(pieces)]
