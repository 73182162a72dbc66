"""Pages that answer commands: paragraphs, tables, lists and samples, as inert Markdown and as text for 80 columns.

Values go in unchanged and come out escaped, so that a title, a path or a name is always shown as itself; a `Command` is
text for the reader to type.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ozzie_server_ext.render.markdown_source import code_source, line_source, plain_source, text_source
from ozzie_server_ext.render.text import (
    LINE_WIDTH,
    columns,
    cut_columns,
    cut_middle_columns,
    padded,
    visible_label,
    visible_prose,
    wrapped,
)

_GAP = "  "
_NARROWEST = 6


@dataclass(frozen=True, slots=True)
class Strong:
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """Text to type: code in Markdown, unchanged in a terminal."""

    text: str


Inline: TypeAlias = str | Strong | Command


@dataclass(frozen=True, slots=True)
class Paragraph:
    parts: Sequence[Inline]


@dataclass(frozen=True, slots=True)
class Bullets:
    items: Sequence[Sequence[Inline]]


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels and their values."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`heads` may be empty strings; columns in `right` hold figures, those in `paths` are cut in the middle. If the
    rows need more than 80 columns, the `flexible` ones shrink."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Inline]]
    right: frozenset[int] = field(default_factory=frozenset[int])
    paths: frozenset[int] = field(default_factory=frozenset[int])
    flexible: frozenset[int] = field(default_factory=frozenset[int])


@dataclass(frozen=True, slots=True)
class Sample:
    """Lines of a file, or an example, unchanged."""

    text: str


Block: TypeAlias = Paragraph | Bullets | Facts | Table | Sample


def paragraph(*parts: Inline) -> Paragraph:
    return Paragraph(parts)


def page_bundle(page: Sequence[Block]) -> dict[str, str]:
    """Return the MIME bundle of a page."""
    return {"text/markdown": page_markdown(page), "text/plain": page_text(page)}


def page_markdown(page: Sequence[Block]) -> str:
    return "\n\n".join(_markdown(block) for block in page)


def page_text(page: Sequence[Block]) -> str:
    return "\n\n".join("\n".join(_text(block)) for block in page)


# --- Markdown -----------------------------------------------------------------------------------------


def _markdown(block: Block) -> str:
    match block:
        case Paragraph(parts):
            return _inlines_text(parts)
        case Bullets(items):
            return "\n".join(f"- {_inlines_text(item)}" for item in items)
        case Facts(items):
            # Another mark than that of Bullets, or two adjacent lists would become one.
            return "\n".join(f"* {_inlines_text((f'{label}: ', value))}" for label, value in items)
        case Table():
            rules = ["---:" if index in block.right else "---" for index in range(len(block.heads))]
            rows = [[text_source(visible_label(head)) for head in block.heads], rules]
            rows += [[_inline(cell) for cell in row] for row in block.rows]
            return "\n".join(f"| {' | '.join(row)} |" for row in rows)
        case Sample(text):
            # Our own preformatted HTML on one line: the text can't close a fence, and no blank line ends it.
            return plain_source("\n".join(_visible_lines(text)))


def _inlines_text(parts: Sequence[Inline]) -> str:
    first = parts[0] if parts else ""
    begins = line_source(_sentence(first)) if isinstance(first, str) else _inline(first)
    return begins + "".join(_inline(part) for part in parts[1:])


def _inline(part: Inline) -> str:
    match part:
        case Strong(text):
            label = text_source(visible_label(text))
            return f"**{label}**" if label else ""
        case Command(text):
            return code_source(visible_label(text))
        case str():
            return text_source(_sentence(part))


# --- text ---------------------------------------------------------------------------------------------


def _text(block: Block) -> list[str]:
    match block:
        case Paragraph(parts):
            return wrapped(_plain(parts))
        case Bullets(items):
            return [line for item in items for line in wrapped(f"- {_plain(item)}", indent="  ")]
        case Facts(items):
            wide = max((columns(visible_label(label)) for label, _ in items), default=0)
            return [line for label, value in items for line in _fact(visible_label(label), value, wide)]
        case Table():
            return _table(block)
        case Sample(text):
            return [f"  {cut_columns(line.expandtabs(), LINE_WIDTH - 2)}" for line in _visible_lines(text)]


def _visible_lines(text: str) -> list[str]:
    """Return the lines of a file with their blanks and tabs, and all else that is invisible made visible."""
    return [
        "\t".join(" ".join(visible_label(word) for word in part.split(" ")) for part in line.split("\t"))
        for line in visible_prose(text).split("\n")
    ]


def _fact(label: str, value: str, wide: int) -> list[str]:
    first, *rest = wrapped(visible_label(value), LINE_WIDTH - wide - len(_GAP)) or [""]
    blanks = " " * wide
    return [f"{padded(label, wide)}{_GAP}{first}".rstrip(), *(f"{blanks}{_GAP}{line}" for line in rest)]


def _table(table: Table) -> list[str]:
    rows = [[visible_label(head) for head in table.heads]] if any(table.heads) else []
    rows += [[_plain((cell,)) for cell in row] for row in table.rows]
    widths = [max((columns(row[index]) for row in rows), default=0) for index in range(len(table.heads))]
    _shrink(widths, table.flexible)
    return [
        _GAP.join(
            padded(_cut(cell, widths[index], middle=index in table.paths), widths[index], right=index in table.right)
            for index, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]


def _shrink(widths: list[int], flexible: frozenset[int]) -> None:
    """Shrink the widest of the flexible columns until the row fits."""
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - LINE_WIDTH
    while over > 0 and flexible:
        widest = max(flexible, key=lambda index: widths[index])
        if widths[widest] <= _NARROWEST:
            return
        widths[widest] -= 1
        over -= 1


def _cut(text: str, width: int, *, middle: bool) -> str:
    return cut_middle_columns(text, width) if middle else cut_columns(text, width)


def _plain(parts: Sequence[Inline]) -> str:
    return "".join(_sentence(part) if isinstance(part, str) else visible_label(part.text) for part in parts)


def _sentence(text: str) -> str:
    """Like `visible_label`, but keep a blank at either end, as other parts may follow."""
    label = visible_label(text)
    before = " " if text[:1] == " " and label else ""
    after = " " if text[-1:] == " " and label else ""
    return f"{before}{label}{after}" if label else text[:1] and " "


_COMMAND = re.compile(r"`([^`\n]+)`")


def problem_bundle(sentence: str, hint: str) -> dict[str, str]:
    """Return a MIME bundle: the sentence in bold, then what to do. Backticks mark commands; all else is plain text, as
    a sentence may quote a title, a path or a provider."""
    bold = [page_markdown([Paragraph([Strong(line)])]) for line in _lines(sentence)]
    hints = [page_markdown([Paragraph(_inlines(line))]) for line in _lines(hint)]
    return {
        "text/markdown": "\n\n".join("  \n".join(lines) for lines in (bold, hints) if lines),
        "text/plain": "\n".join(
            line for part in (sentence, hint) for each in visible_prose(part).splitlines() for line in wrapped(each)
        ),
    }


def _lines(text: str) -> list[str]:
    return [line.strip() for line in visible_prose(text).splitlines() if line.strip()]


def _inlines(line: str) -> list[Inline]:
    """Split a line at its backticks; every second piece is a command."""
    pieces = _COMMAND.split(line)
    return [Command(piece) if index % 2 else piece for index, piece in enumerate(pieces)]
