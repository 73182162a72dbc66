"""One web request and the parsing of its response, in a separate process that can be killed.

`python -m ozzie_server_ext.programs.web` reads `{"url": …, "limits": …, "allowance": …}`, and for a search also
`reader`, `engine` and `max_results`. It writes the fields of `web.port`'s `Fetched` or `Searched`, or `{"error":
{"code": …, "message": …, "hint": …}}`. `web.reach` starts it. It ignores proxy variables: a proxy would connect to
unchecked addresses.
"""

import gc
import sys
import warnings

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.planes.child import limit_child
from ozzie_server_ext.programs.web_download import Download, RefusedByStatus
from ozzie_server_ext.programs.web_pages import READERS, challenged, page_of
from ozzie_server_ext.programs.web_text import HTML_TYPES, Downloaded, links_in, text_of
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object, repair_text
from ozzie_server_ext.render.text import without_hidden
from ozzie_server_ext.web.port import MAX_TEXT, Fetched, Searched, web_error
from ozzie_server_ext.web.reach import Allowance, Limits

NICE = 10
MAX_CPU_S = 20
MAX_WALL_S = 60
"""The gateway ends it earlier; this limit is for when the gateway is gone."""
MAX_MEMORY = 1 << 30
_RATE_LIMITED = (403, 429)
"""Statuses by which search engines refuse clients that ask too often."""
_RECURSION = 5000
"""For nesting that `web_pages` bounds: each level takes a handful of calls."""


def main() -> None:
    limit_child(cpu_s=MAX_CPU_S, memory=MAX_MEMORY, nice=NICE, wall_s=MAX_WALL_S)
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(_RECURSION)
    gc.disable()  # the process lives for one page, whose million objects all stay in use
    request = loads_object(sys.stdin.buffer.read())
    sys.stdout.buffer.write(canonical_bytes(_answer(request)))


def _answer(request: JsonObject) -> JsonObject:
    try:
        return encode(_searched(request) if "reader" in request else _fetched(request))
    except OzzieError as error:
        return {"error": {"code": error.code, "message": str(error), "hint": error.hint}}
    except RecursionError:
        error = web_error("web.too_complex", "That page is nested too deeply to be read.", "Look on another page.")
        return {"error": {"code": error.code, "message": str(error), "hint": error.hint}}


def _download(request: JsonObject) -> Downloaded:
    limits, allowance = decode(Limits, request["limits"]), decode(Allowance, request["allowance"])
    return Download(limits, allowance).get(str(request["url"]))


def _fetched(request: JsonObject) -> Fetched:
    got = _download(request)
    if got.leads_to:
        return Fetched(url=got.url, status=got.status, hosts=got.hosts, leads_to=got.leads_to)
    text, title, links, cut = text_of(got), "", (), got.cut
    if got.type in HTML_TYPES:
        page = page_of(text, got.url)
        text, title, links, cut = page.markdown, page.title, page.links, cut or page.cut
    else:
        text = without_hidden(text)
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


def _searched(request: JsonObject) -> Searched:
    engine, most = str(request["engine"]), request["max_results"]
    assert isinstance(most, int)
    try:
        got = _download(request)
    except RefusedByStatus as refused:
        raise (challenged(engine) if refused.status in _RATE_LIMITED else refused) from None
    hits = READERS[str(request["reader"])](got, engine)
    return Searched(hits=hits[:most], engine=engine, hosts=got.hosts)


if __name__ == "__main__":
    main()
