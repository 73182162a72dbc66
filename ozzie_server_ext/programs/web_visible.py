"""What of a page a person would see: what is hidden from people is where instructions to models hide (TL-8).

Style sheets and scripts are not read, so what only they hide is taken for visible.
"""

import re
from collections.abc import Iterator

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PageElement, PreformattedString, Tag
from bs4.exceptions import ParserRejectedMarkup

_NEVER = frozenset(
    {
        *("script", "style", "template", "noscript", "noframes", "noembed", "iframe", "frame", "frameset"),
        *("object", "embed", "applet", "svg", "math", "canvas", "audio", "video", "map", "param", "source", "track"),
        *("input", "button", "select", "textarea", "datalist", "output", "meter", "progress"),
        *("title", "meta", "link", "base"),
    }
)
_DECLARATION = re.compile(r"\s*([a-z-]{1,40})\s*:\s*([^;]{0,200})")
_CSS_COMMENT = re.compile(r"/\*.*?(\*/|\Z)", re.S)
_CSS_ESCAPE = re.compile(r"\\([0-9a-f]{1,6})\s?|\\(.)", re.I | re.S)
_NUMBER = re.compile(r"([+-]?(?:\d{1,9}\.?\d{0,9}|\.\d{1,9}))(e-?\d{1,3})?\s*([a-z%]*)")
_SMALLEST = {"px": 2.0, "pt": 2.0, "em": 0.15, "rem": 0.15, "%": 15.0}
"""No letter of a smaller size is read by anybody."""
_MAX_STYLE = 2000

# End tags that HTML lets be left out, and html.parser does not add: what each start tag ends, and what it does not look
# beyond (HTML, 13.1.2.4).
_ITEMS = frozenset({"li"})
_TERMS = frozenset({"dt", "dd"})
_CELLS = frozenset({"td", "th"})
_ROWS = frozenset({"tr"})
_PARAGRAPH = frozenset({"p"})
_LISTS = frozenset({"ul", "ol", "menu"})
_TABLE = frozenset({"table"})
_BLOCKS = frozenset({"div", "section", "article", "blockquote", "button", "body"})
_ENDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "li": (_ITEMS, _LISTS),
    "dt": (_TERMS, frozenset({"dl"})),
    "dd": (_TERMS, frozenset({"dl"})),
    "td": (_CELLS, _TABLE | _ROWS),
    "th": (_CELLS, _TABLE | _ROWS),
    "tr": (_ROWS, _TABLE),
    "body": (frozenset({"head"}), frozenset()),
    **dict.fromkeys(
        (
            *("p", "div", "ul", "ol", "dl", "table", "pre", "blockquote", "figure", "hr", "address", "details"),
            *("section", "article", "aside", "nav", "header", "footer", "main", "form", "fieldset"),
            *("h1", "h2", "h3", "h4", "h5", "h6"),
        ),
        (_PARAGRAPH, _TABLE | _CELLS | _ITEMS | _BLOCKS),
    ),
}
_LOOKED_AT = 30
"""Levels above a start tag that are searched for what it ends."""


class Soup(BeautifulSoup):
    """A page's tree, with the ends that its author left out."""

    def handle_starttag(self, name: str, *args: object, **more: object) -> Tag | None:
        if name in _ENDS:
            ends, beyond = _ENDS[name]
            above = self.currentTag
            for _ in range(_LOOKED_AT):
                if above is None or above.name in beyond:
                    break
                if above.name in ends:
                    self.handle_endtag(above.name)
                    break
                above = above.parent
        return super().handle_starttag(name, *args, **more)  # pyright: ignore[reportArgumentType]


def soup_of(html: str) -> Soup:
    """The tree of a page, whatever is wrong with it."""
    try:
        return Soup(html, "html.parser")
    except ParserRejectedMarkup:
        return Soup(html.replace("<!", "&lt;!"), "html.parser")  # all that html.parser ever rejects begins so


def is_hidden(tag: Tag) -> bool:
    """Whether that element, with all within it, is shown to nobody, or is none of a page's text."""
    if tag.name in _NEVER:
        return True
    attributes = tag.attrs
    if "hidden" in attributes or str(attributes.get("aria-hidden", "")).strip().lower() == "true":
        return True
    if tag.name == "dialog" and "open" not in attributes:
        return True
    style = attributes.get("style")
    return bool(style) and _hides(str(style))


def shown(root: Tag, skipped: frozenset[str] = frozenset()) -> Iterator[PageElement]:
    """All that is visible within, in its order: elements and texts. Without recursion, as pages are as deep as they
    like. Elements of the names in `skipped` are left out too, with all within them."""
    stack = [iter(root.contents)]
    while stack:
        for element in stack[-1]:
            if isinstance(element, Tag):
                if element.name in skipped or is_hidden(element):
                    continue
                yield element
                stack.append(iter(element.contents))
                break
            if is_text(element):
                yield element
        else:
            stack.pop()


def is_text(element: PageElement) -> bool:
    """Whether it is text, and no comment or the like."""
    return isinstance(element, NavigableString) and not isinstance(element, PreformattedString)


def _hides(style: str) -> bool:
    plain = _CSS_ESCAPE.sub(_escaped, _CSS_COMMENT.sub("", style[:_MAX_STYLE])).lower()
    for declaration in plain.split(";"):
        found = _DECLARATION.match(declaration)
        if found is None:
            continue
        name, value = found[1], found[2].replace("!important", "").strip()
        if (name, value) in _HIDDEN_BY:
            return True
        if name in ("font-size", "opacity", "zoom") and _is_tiny(name, value):
            return True
    return False


_HIDDEN_BY = frozenset(
    {
        ("display", "none"),
        ("visibility", "hidden"),
        ("visibility", "collapse"),
        ("content-visibility", "hidden"),
        ("color", "transparent"),
    }
)


def _is_tiny(name: str, value: str) -> bool:
    found = _NUMBER.match(value)
    if found is None:
        return False
    number = float(found[1] + (found[2] or ""))
    if name == "font-size":
        return number <= _SMALLEST.get(found[3], 0.0)
    return number <= (5.0 if found[3] == "%" else 0.05)


def _escaped(match: re.Match[str]) -> str:
    if match[2]:
        return match[2]
    code = int(match[1], 16)
    return chr(code) if 0 < code < 0xD800 else ""
