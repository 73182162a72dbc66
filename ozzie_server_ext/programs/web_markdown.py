"""A part of a page as Markdown: by markdownify, held to what is visible, to links that were checked, and to a depth."""

import re
from collections.abc import Callable
from typing import Any

from bs4.element import NavigableString, Tag
from markdownify import ATX, MarkdownConverter

from ozzie_server_ext.programs.web_visible import is_hidden, is_text, shown
from ozzie_server_ext.render.text import without_hidden

MAX_DEPTH = 150
"""Levels below which only text is left of a page: each takes a handful of calls, and writes its text once more."""
_MAX_ALT = 200
_SPAN = re.compile(r"[1-9][0-9]?")
_START = re.compile(r"[0-9]{1,6}")
_AFTER_BANG = "\x01"
"""Stands behind an exclamation mark that ends a text, until it is known whether a link comes next: together they would
be an image. No page can write it, as it is taken out of what comes."""


class _Converter(MarkdownConverter):
    # Its stubs leave out what its documentation tells to override.

    def __init__(self, link_of: Callable[[str], str], skipped: frozenset[str]) -> None:
        super().__init__(heading_style=ATX, bullets="-", escape_asterisks=False, escape_underscores=False)
        self._link_of = link_of
        self._skipped = skipped
        self._depth = 0
        self._numbers: dict[int, int] = {}

    def process_element(self, node: Any, parent_tags: Any = None) -> str:
        if isinstance(node, Tag):
            return "" if node.name in self._skipped or is_hidden(node) else self.process_tag(node, parent_tags)
        return self.process_text(node, parent_tags) if is_text(node) else ""  # pyright: ignore[reportAttributeAccessIssue]

    def process_tag(self, node: Any, parent_tags: Any = None) -> str:
        if self._depth >= MAX_DEPTH:
            return self.escape(" ".join(" ".join(texts_of(node, self._skipped)).split()), parent_tags)
        span = node.attrs.get("colspan")
        if span is not None and not _SPAN.fullmatch(str(span)):
            del node.attrs["colspan"]
        self._depth += 1
        try:
            return super().process_tag(node, parent_tags)  # pyright: ignore[reportAttributeAccessIssue]
        finally:
            self._depth -= 1

    def escape(self, text: str, parent_tags: Any) -> str:
        text = without_hidden(text).replace("![", "!\\[")
        return text + _AFTER_BANG if text.endswith("!") else text

    def convert_a(self, el: Any, text: str, parent_tags: Any) -> str:
        prefix, suffix = text[:1].isspace() * " ", text[-1:].isspace() * " "
        text = text.strip()
        if "_noformat" in parent_tags or not text:
            return prefix + text + suffix
        link = self._link_of(str(el.get("href") or ""))
        return f"{prefix}[{' '.join(text.split())}]({link}){suffix}" if link else prefix + text + suffix

    # Blocks that markdownify takes for words within a line.
    _block = MarkdownConverter.convert_div  # pyright: ignore[reportAttributeAccessIssue]
    convert_main = convert_header = convert_footer = convert_nav = convert_aside = convert_form = _block
    convert_fieldset = convert_figure = convert_address = convert_details = convert_summary = convert_center = _block

    def convert_li(self, el: Any, text: str, parent_tags: Any) -> str:
        """Counted here: markdownify counts the items before each item, which takes the square of their number."""
        bullet = "- "
        if el.parent is not None and el.parent.name == "ol":
            number = self._numbers.get(id(el.parent), _start(el.parent))
            self._numbers[id(el.parent)] = number + 1
            bullet = f"{number}. "
        lines = text.strip().split("\n")
        indent = " " * len(bullet)
        return bullet + "\n".join([lines[0], *(indent + line if line else "" for line in lines[1:])]) + "\n"

    def convert_img(self, el: Any, text: str, parent_tags: Any) -> str:
        alt = " ".join(without_hidden(str(el.get("alt") or "")).replace("[", "(").replace("]", ")").split())
        return f"[image: {alt[:_MAX_ALT]}]" if alt else ""


def markdown_of(root: Tag, link_of: Callable[[str], str], skipped: frozenset[str]) -> str:
    """`link_of` gives the address that a link may have, "" where there is none. Elements of the names in `skipped` are
    left out."""
    text = _Converter(link_of, skipped).process_tag(root, set())
    text = text.replace(f"!{_AFTER_BANG}[", "! [").replace(_AFTER_BANG, "")
    lines: list[str] = []
    for line in without_hidden(text).split("\n"):
        line = line.rstrip(" \t")
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip("\n")


def _start(numbered: Tag) -> int:
    written = str(numbered.attrs.get("start", ""))
    return int(written) if _START.fullmatch(written) else 1


def texts_of(root: Tag, skipped: frozenset[str]) -> list[str]:
    """Its visible texts, in their order."""
    return [str(found) for found in shown(root, skipped) if isinstance(found, NavigableString)]
