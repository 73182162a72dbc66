"""Web pages as Markdown of their visible content, and the hits of search engines."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from bs4 import BeautifulSoup
from bs4.element import NavigableString, PageElement, PreformattedString, Tag
from bs4.exceptions import ParserRejectedMarkup
from markdownify import ATX, MarkdownConverter

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.programs.web_text import Downloaded, text_of
from ozzie_server_ext.render.text import without_hidden
from ozzie_server_ext.web.address import joined
from ozzie_server_ext.web.port import MAX_HITS, MAX_LINK, MAX_LINKS, MAX_TAGS, MAX_TITLE, MAX_URL, Hit, web_error

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
_TINY = {"px": 2.0, "pt": 2.0, "em": 0.15, "rem": 0.15, "%": 15.0}
"""Sizes up to which text is unreadable."""
_MAX_STYLE = 2000

# End tags that HTML allows to be left out, and html.parser does not add: for each start tag, the elements that it ends,
# and those at which the search stops (HTML, 13.1.2.4).
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
_SEARCHED_LEVELS = 30
"""Levels above a start tag that are searched for an element to end."""


class Soup(BeautifulSoup):
    """A page's tree, with omitted end tags added."""

    def handle_starttag(self, name: str, *args: object, **more: object) -> Tag | None:
        if name in _ENDS:
            ends, stops = _ENDS[name]
            above = self.currentTag
            for _ in range(_SEARCHED_LEVELS):
                if above is None or above.name in stops:
                    break
                if above.name in ends:
                    self.handle_endtag(above.name)
                    break
                above = above.parent
        return super().handle_starttag(name, *args, **more)  # pyright: ignore[reportArgumentType]


def soup_of(html: str) -> Soup:
    """Parse a page, however broken."""
    try:
        return Soup(html, "html.parser")
    except ParserRejectedMarkup:
        return Soup(html.replace("<!", "&lt;!"), "html.parser")  # html.parser rejects nothing else


def is_hidden(tag: Tag) -> bool:
    """Return whether an element with its content is invisible, or is not part of a page's text."""
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
    """Yield all visible elements and texts within, in order. Not recursive, because pages may be nested to any depth.
    Elements named in `skipped` are left out with their content."""
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
    """Return whether an element is text, and not a comment or the like."""
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
        return number <= _TINY.get(found[3], 0.0)
    return number <= (5.0 if found[3] == "%" else 0.05)


def _escaped(match: re.Match[str]) -> str:
    if match[2]:
        return match[2]
    code = int(match[1], 16)
    return chr(code) if 0 < code < 0xD800 else ""


MAX_DEPTH = 150
"""Nesting depth below which only text is kept: each level takes a handful of calls, and copies its text."""
_MAX_ALT = 200
_SPAN = re.compile(r"[1-9][0-9]?")
_START = re.compile(r"[0-9]{1,6}")
_AFTER_BANG = "\x01"
"""Marks an exclamation mark at the end of a text until it is known whether a link follows: together they would be an
image. No page can contain it, because it is removed from input."""


class _Converter(MarkdownConverter):
    # The library's type stubs lack the methods that its documentation says to override.

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

    # Blocks that markdownify treats as inline.
    _block = MarkdownConverter.convert_div  # pyright: ignore[reportAttributeAccessIssue]
    convert_main = convert_header = convert_footer = convert_nav = convert_aside = convert_form = _block
    convert_fieldset = convert_figure = convert_address = convert_details = convert_summary = convert_center = _block

    def convert_li(self, el: Any, text: str, parent_tags: Any) -> str:
        """Number the items here: markdownify counts all preceding items for each item, which is quadratic."""
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
    """Convert to Markdown, without `skipped` elements. `link_of` returns a link's address, or "" to drop it."""
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
    """Return its visible texts in order."""
    return [str(found) for found in shown(root, skipped) if isinstance(found, NavigableString)]


_AROUND = frozenset({"nav", "header", "footer", "aside"})
"""Elements around a page's own text."""
_MAIN_SHARE = 0.5
"""Share of a page's text that its main part must have for the rest to be left out."""
_ARTICLES = 20


class ReadPage(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed page; see `web.port.Fetched`."""

    title: str
    markdown: str
    links: tuple[str, ...]
    cut: bool


def page_of(html: str, url: str) -> ReadPage:
    """Parse the page from `url`."""
    whole, html = html, _beginning(html)
    soup = soup_of(html)
    base = _base(soup, url)

    @cache
    def link_of(href: str) -> str:
        return joined(base, href, longest=MAX_LINK)

    root, skipped = _main(soup.body or soup)
    try:
        markdown = markdown_of(root, link_of, skipped)
    except MemoryError:
        raise
    except Exception:
        # markdownify fails on some input that no author intends. Fall back to the plain text.
        markdown = without_hidden("\n".join(filter(None, map(str.strip, texts_of(root, skipped)))))
    return ReadPage(title=_title(soup), markdown=markdown, links=_links(shown(soup), link_of), cut=html != whole)


def _beginning(html: str) -> str:
    """Return the beginning of the page, up to the limit of tags."""
    at = -1
    for _ in range(MAX_TAGS):
        at = html.find("<", at + 1)
        if at < 0:
            return html
    return html[:at]


def _base(soup: Tag, url: str) -> str:
    found = soup.find("base", href=True)
    # A base far from the page would only produce links that are not its own; browsers take it too.
    return (joined(url, str(found.get("href")), longest=MAX_URL) if isinstance(found, Tag) else "") or url


def _title(soup: Tag) -> str:
    found = next((tag for tag in soup.find_all("title", limit=5) if tag.find_parent("svg") is None), None)
    return " ".join(without_hidden(found.get_text()).split())[:MAX_TITLE] if isinstance(found, Tag) else ""


def _main(body: Tag) -> tuple[Tag, frozenset[str]]:
    """Return the part of a page to convert, and the elements in it to skip."""
    whole = _size(body, _AROUND)
    mains = [tag for tag in shown(body) if isinstance(tag, Tag) and _is_main(tag)]
    articles = [tag for tag in shown(body) if isinstance(tag, Tag) and tag.name == "article"]
    for found in (mains[:1], articles[:_ARTICLES]):
        sized = [(_size(tag, frozenset({"nav"})), -number, tag) for number, tag in enumerate(found)]
        size, _, tag = max(sized, key=lambda each: each[:2], default=(0, 0, body))
        if size and size >= _MAIN_SHARE * whole:
            return tag, frozenset({"nav"})
    return (body, _AROUND) if whole else (body, frozenset())


def _is_main(tag: Tag) -> bool:
    return tag.name == "main" or str(tag.attrs.get("role", "")).strip().lower() == "main"


def _size(root: Tag, skipped: frozenset[str]) -> int:
    return sum(len(text.strip()) for text in texts_of(root, skipped))


def _links(elements: Iterable[object], link_of: Callable[[str], str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for tag in elements:
        if isinstance(tag, Tag) and tag.name == "a" and (link := link_of(str(tag.attrs.get("href") or ""))):
            found[link] = None
            if len(found) == MAX_LINKS:
                break
    return tuple(found)


_MAX_TITLE = 200
_MAX_SNIPPET = 500


def duckduckgo(got: Downloaded, engine: str) -> tuple[Hit, ...]:
    """Parse the results of `html.duckduckgo.com`. Raises Challenged, and NotAnswered if the page has changed."""
    if got.leads_to:
        raise _changed(engine)
    soup = soup_of(text_of(got))
    if soup.select_one(".anomaly-modal__title, .anomaly-modal__modal, #challenge-form, form[action*='anomaly.js']"):
        raise challenged(engine)
    hits: dict[str, Hit] = {}
    results = soup.select(".result")
    for result in results:
        found = result.select_one("a.result__a")
        if found is None or "result--ad" in result.get_attribute_list("class"):
            continue
        url = _target(str(found.get("href") or ""), got.url)
        if url and (title := _words(found, _MAX_TITLE)):
            snippet = _words(result.select_one(".result__snippet"), _MAX_SNIPPET)
            hits.setdefault(url, Hit(title=title, url=url, snippet=snippet))
        if len(hits) == MAX_HITS:
            break
    if hits:
        return tuple(hits.values())
    if soup.select_one(".no-results, .result--no-result"):
        return ()
    if got.status == 202:
        raise challenged(engine)
    raise _changed(engine)


READERS: Mapping[str, Callable[[Downloaded, str], tuple[Hit, ...]]] = {"duckduckgo": duckduckgo}


def challenged(engine: str) -> OzzieError:
    """Return the error for an engine that wants to see a person."""
    return web_error(
        "web.challenged",
        f"{engine} refuses for now: it wants to know whether a person is searching.",
        "Try again in some minutes, or fetch a page whose address is known.",
    )


def _changed(engine: str) -> OzzieError:
    return web_error(
        "web.changed",
        f"The answer of {engine} can't be read: its page has changed.",
        "Fetch a page whose address is known. A newer Ozzie may read it again.",
    )


def _target(href: str, base: str) -> str:
    """Return a result's target, the parameter `uddg` of the engine's redirect; "" for an advertisement."""
    try:
        parts = urlsplit(href)
    except ValueError:
        return ""
    if parts.path == "/y.js":
        return ""
    if parts.path == "/l/":
        href = parse_qs(parts.query, max_num_fields=20).get("uddg", [""])[0]
    url = joined(base, href, longest=MAX_URL)
    return "" if urlsplit(url).path == "/y.js" else url


def _words(tag: Tag | None, most: int) -> str:
    return " ".join(without_hidden(tag.get_text()).split())[:most] if tag is not None else ""
