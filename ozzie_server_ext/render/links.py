"""Which link targets a reply may carry: http, https, mailto, and places relative to the page (DESIGN §2.13)."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

_SCHEMES = frozenset({"http", "https", "mailto"})
_HEAD = re.compile(r"[^/?#]*")
_REFUSED = re.compile("[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")
# What stays as it is in a target. All else is percent-encoded, so that no reader of Markdown or HTML finds the end
# of the target, an entity, an emphasis or a formula in it.
_KEPT = re.compile(r"[A-Za-z0-9\-._~:/?#@!&+,;=%]")
_ENTITY = re.compile(r"&(?=#|[A-Za-z][A-Za-z0-9]*;)")
MAX_LENGTH = 2048


class Target(NamedTuple):
    """A link target that may be shown. `host` is empty for mailto and for relative places."""

    href: str
    host: str

    @property
    def opens_elsewhere(self) -> bool:
        return not self.href.startswith("#")


def safe_target(url: str) -> Target | None:
    """The target to write for `url` (entities decoded), or None where a reply may not link there.

    `//host` is written as https; anything before the first `/`, `?` or `#` that holds a colon is a scheme, whatever
    it looks like, so a disguised `javascript:` is never taken for a relative place.
    """
    if not url or len(url) > MAX_LENGTH or _REFUSED.search(url):
        return None
    url = url.replace("\\", "/")
    if url.startswith("//"):
        url = f"https:{url}"
    head = _HEAD.match(url)
    scheme, colon, _ = (head[0] if head else "").partition(":")
    if not colon and re.search(r"%3a|&colon", head[0] if head else "", re.IGNORECASE):
        return None
    if colon:
        if scheme.lower() not in _SCHEMES:
            return None
        url = scheme.lower() + url[len(scheme) :]
    host = ""
    if colon and scheme.lower() != "mailto":
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            return None
        if not host:
            return None
    href = "".join(char if _KEPT.match(char) else _percent(char) for char in url)
    return Target(_ENTITY.sub("%26", href).replace("@@", "@%40"), _shown_host(host))


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))


def _shown_host(host: str) -> str:
    """The host as its ASCII form, so that a look-alike letter shows."""
    try:
        ascii_host = host.encode("idna").decode() if host and not host.isascii() else host
    except UnicodeError:
        ascii_host = host.encode("ascii", "backslashreplace").decode()
    return re.sub(r"[^A-Za-z0-9.\-:_]", "?", ascii_host)[:100]
