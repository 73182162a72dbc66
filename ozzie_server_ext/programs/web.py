"""One request to the web, and the reading of what comes back: in a process of its own, that can be ended.

`python -m ozzie_server_ext.programs.web` reads `{"url": …, "limits": …, "allowance": …}`, or for a search
with `reader`, `engine` and `max_results` too. It writes the fields of `web.port`'s `Fetched` or
`Searched`, or `{"error": {"code": …, "message": …, "hint": …}}`. `web.search` starts it. No variable of the environment
leads it through a proxy: a proxy would connect to what was not checked.
"""

import gc
import sys
import warnings

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.planes.child import limit_child
from ozzie_server_ext.programs.web_download import Download, Downloaded, RefusedByStatus
from ozzie_server_ext.programs.web_pages import READERS, challenged, page_of
from ozzie_server_ext.programs.web_text import HTML_TYPES, cleaned, links_in, text_of
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object, repair_text
from ozzie_server_ext.web.port import MAX_TEXT, Fetched, Searched, web_error
from ozzie_server_ext.web.reach import Allowance, Limits

NICE = 10
MAX_CPU_S = 20
MAX_WALL_S = 60
"""Whoever started it ends it before; this is for where they are gone."""
MAX_MEMORY = 1 << 30
_TOO_MANY = (403, 429)
"""What search engines answer who asks more often than they like."""
_RECURSION = 5000
"""For levels that are bounded in `web_page`: each takes a handful of calls."""


def main() -> None:
    limit_child(cpu_s=MAX_CPU_S, memory=MAX_MEMORY, nice=NICE, wall_s=MAX_WALL_S)
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(_RECURSION)
    gc.disable()  # it lives for one page, of a million objects that all are in use
    asked = loads_object(sys.stdin.buffer.read())
    sys.stdout.buffer.write(canonical_bytes(_answer(asked)))


def _answer(asked: JsonObject) -> JsonObject:
    try:
        return encode(_searched(asked) if "reader" in asked else _fetched(asked))
    except OzzieError as error:
        return {"error": {"code": error.code, "message": str(error), "hint": error.hint}}
    except RecursionError:
        error = web_error("web.too_complex", "That page is nested too deeply to be read.", "Look on another page.")
        return {"error": {"code": error.code, "message": str(error), "hint": error.hint}}


def _download(asked: JsonObject) -> Downloaded:
    limits, allowance = decode(Limits, asked["limits"]), decode(Allowance, asked["allowance"])
    return Download(limits, allowance).get(str(asked["url"]))


def _fetched(asked: JsonObject) -> Fetched:
    got = _download(asked)
    if got.leads_to:
        return Fetched(url=got.url, status=got.status, hosts=got.hosts, leads_to=got.leads_to)
    text, title, links, cut = text_of(got), "", (), got.cut
    if got.type in HTML_TYPES:
        page = page_of(text, got.url)
        text, title, links, cut = page.markdown, page.title, page.links, cut or page.cut
    else:
        text = cleaned(text)
        links = links_in(text)
    return Fetched(
        url=got.url,
        status=got.status,
        type=got.type,
        title=title,
        text=repair_text(text[:MAX_TEXT]),
        links=links,
        hosts=got.hosts,
        size=len(got.body),
        cut=cut or len(text) > MAX_TEXT,
    )


def _searched(asked: JsonObject) -> Searched:
    engine, most = str(asked["engine"]), asked["max_results"]
    assert isinstance(most, int)
    try:
        got = _download(asked)
    except RefusedByStatus as refused:
        raise (challenged(engine) if refused.status in _TOO_MANY else refused) from None
    hits = READERS[str(asked["reader"])](got, engine)
    return Searched(hits=hits[:most], engine=engine, hosts=got.hosts)


if __name__ == "__main__":
    main()
