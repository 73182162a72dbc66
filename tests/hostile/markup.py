"""What stands in a piece of HTML that should not: read by an HTML parser, held against an allow-list."""

import re
from collections.abc import Mapping
from html.parser import HTMLParser

_CODE_CLASS = r"language-[A-Za-z0-9+#._-]+"

INERT: Mapping[str, Mapping[str, str]] = {
    **{tag: {} for tag in ("p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "li", "em", "strong", "s")},
    **{tag: {} for tag in ("table", "thead", "tbody", "tr", "hr", "br")},
    "ol": {"start": r"\d+"},
    "th": {"class": "oz-right|oz-center"},
    "td": {"class": "oz-right|oz-center"},
    "pre": {"class": "oz-plain"},
    "code": {"class": _CODE_CLASS},
    "a": {"href": r"(?s).*", "title": r"[A-Za-z0-9.:_?-]+", "target": "_blank", "rel": "noopener noreferrer nofollow"},
}
"""What `inert_html` may write: tag -> attribute -> what its value must match."""

SAVED: Mapping[str, Mapping[str, str]] = {
    **INERT,
    **{tag: {} for tag in ("details", "summary", "sub", "span", "del")},
    "ol": {"start": r"\d+"},
    "th": {"style": r"text-align: ?(left|center|right);?"},
    "td": {"style": r"text-align: ?(left|center|right);?"},
    "pre": {},
    "a": {"href": r"(?s).*"},
}
"""What a reader of Markdown that takes raw HTML may make of saved Markdown."""

NBCONVERT: Mapping[str, Mapping[str, str]] = {
    **SAVED,
    **{f"h{level}": {"id": r"[^\s]*"} for level in range(1, 7)},
    "div": {"class": "highlight"},
    "span": {"class": r"[a-z0-9]*"},
    "a": {"href": r"(?s).*", "class": "anchor-link"},
}
"""The same for nbconvert, which adds highlighting and anchors of its own."""

_SCHEMES = ("http", "https", "mailto")


class _Reader(HTMLParser):
    def __init__(self, allowed: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__(convert_charrefs=False)
        self._allowed = allowed
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        rules = self._allowed.get(tag)
        if rules is None:
            self.found.append(f"element <{tag}>")
            return
        for name, value in attrs:
            if name not in rules or not re.fullmatch(rules[name], value or ""):
                self.found.append(f"attribute {name}={value!r} of <{tag}>")
            elif name == "href":
                self._href(value or "")

    def _href(self, value: str) -> None:
        # As browsers read it: control characters and spaces go before the scheme is looked for.
        stripped = re.sub(r"[\x00-\x20\x7f]", "", value)
        scheme, colon, _ = re.split(r"[/?#]", stripped, maxsplit=1)[0].partition(":")
        if (colon and scheme.lower() not in _SCHEMES) or stripped.startswith(("//", "\\")):
            self.found.append(f"link to {value!r}")

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._allowed:
            self.found.append(f"end of <{tag}>")

    def handle_data(self, data: str) -> None:
        if re.search(r"<[A-Za-z/!?]", data):
            self.found.append(f"an unfinished tag in {data!r}")

    def handle_comment(self, data: str) -> None:
        self.found.append(f"comment {data!r}")

    def handle_decl(self, decl: str) -> None:
        self.found.append(f"declaration {decl!r}")

    def unknown_decl(self, data: str) -> None:
        self.found.append(f"section {data!r}")

    def handle_pi(self, data: str) -> None:
        self.found.append(f"instruction {data!r}")


def intruders(html: str, allowed: Mapping[str, Mapping[str, str]] = INERT) -> list[str]:
    """Everything in `html` that `allowed` does not name, in words; empty where it is inert."""
    reader = _Reader(allowed)
    reader.feed(html)
    reader.close()
    return reader.found
