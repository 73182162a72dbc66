"""A page of HTML as a model reads it: its title, its visible text as Markdown, its links."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from bs4.element import Tag

from ozzie_server_ext.programs.web_markdown import markdown_of, texts_of
from ozzie_server_ext.programs.web_visible import shown, soup_of
from ozzie_server_ext.render.text import without_hidden
from ozzie_server_ext.web.address import joined
from ozzie_server_ext.web.port import MAX_LINK, MAX_LINKS, MAX_TAGS, MAX_TITLE, MAX_URL

_AROUND = frozenset({"nav", "header", "footer", "aside"})
"""What stands around a page's own text."""
_MOST = 0.5
"""The share of a page's text that its main part has to hold, so that the rest is left out."""
_ARTICLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """See `web.port.Fetched`."""

    title: str
    markdown: str
    links: tuple[str, ...]
    cut: bool


def page_of(html: str, url: str) -> Page:
    """A page that stood at `url`."""
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
        # markdownify trips over a few things that no author means. The text is there all the same.
        markdown = without_hidden("\n".join(filter(None, map(str.strip, texts_of(root, skipped)))))
    return Page(title=_title(soup), markdown=markdown, links=_links(shown(soup), link_of), cut=html != whole)


def _beginning(html: str) -> str:
    """As much of it as has no more tags than are read."""
    at = -1
    for _ in range(MAX_TAGS):
        at = html.find("<", at + 1)
        if at < 0:
            return html
    return html[:at]


def _base(soup: Tag, url: str) -> str:
    found = soup.find("base", href=True)
    # A base far from the page would only tell of links that are none of its own; it is what a browser takes too.
    return (joined(url, str(found.get("href")), longest=MAX_URL) if isinstance(found, Tag) else "") or url


def _title(soup: Tag) -> str:
    found = next((tag for tag in soup.find_all("title", limit=5) if tag.find_parent("svg") is None), None)
    return " ".join(without_hidden(found.get_text()).split())[:MAX_TITLE] if isinstance(found, Tag) else ""


def _main(body: Tag) -> tuple[Tag, frozenset[str]]:
    """The part of a page that is told, and the elements in it that are not."""
    whole = _size(body, _AROUND)
    mains = [tag for tag in shown(body) if isinstance(tag, Tag) and _is_main(tag)]
    articles = [tag for tag in shown(body) if isinstance(tag, Tag) and tag.name == "article"]
    for found in (mains[:1], articles[:_ARTICLES]):
        sized = [(_size(tag, frozenset({"nav"})), -number, tag) for number, tag in enumerate(found)]
        size, _, tag = max(sized, key=lambda each: each[:2], default=(0, 0, body))
        if size and size >= _MOST * whole:
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
