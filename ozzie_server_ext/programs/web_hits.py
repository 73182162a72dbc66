"""Pages of search engines, read: what was found, without what is paid for."""

from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from bs4.element import Tag

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.programs.web_text import Got, text_of
from ozzie_server_ext.programs.web_visible import soup_of
from ozzie_server_ext.render.text import without_hidden
from ozzie_server_ext.web.address import joined
from ozzie_server_ext.web.port import MAX_HITS, MAX_URL, Hit, web_error

_MAX_TITLE = 200
_MAX_SNIPPET = 500


class GotPage(Got, Protocol):
    """A body, and from where with which status it came."""

    @property
    def url(self) -> str: ...

    @property
    def status(self) -> int: ...

    @property
    def leads_to(self) -> str: ...


def duckduckgo(got: GotPage, engine: str) -> tuple[Hit, ...]:
    """The results of `html.duckduckgo.com`, in their order. Raises Challenged where it asks for a person, and
    NotAnswered where the page is not what it was."""
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


READERS: Mapping[str, Callable[[GotPage, str], tuple[Hit, ...]]] = {"duckduckgo": duckduckgo}


def challenged(engine: str) -> OzzieError:
    """What is said where an engine wants to see a person."""
    return web_error(
        "web.challenged",
        f"{engine} refuses for now: it asks whether a person searches.",
        "Try again in some minutes, or fetch a page whose address is known.",
    )


def _changed(engine: str) -> OzzieError:
    return web_error(
        "web.changed",
        f"What {engine} answers can't be read: its page is not what it was.",
        "Fetch a page whose address is known. A newer Ozzie may read it again.",
    )


def _target(href: str, base: str) -> str:
    """Where a result leads: it stands in the parameter `uddg` of a way through the engine. "" for an advertisement."""
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
