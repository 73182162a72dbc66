"""Model text as Markdown: one parser, allowed links and elements, inert HTML, and text that is still streaming."""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ozzie_server_ext.render.text import visible_label, visible_prose

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_SCHEMES = frozenset({"http", "https", "mailto"})
_HEAD = re.compile(r"[^/?#]*")
_REFUSED = re.compile("[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")
# Allowed unchanged in a target. All else is percent-encoded, so that no reader of Markdown or HTML finds the end of the
# target, an entity, an emphasis or a formula in it.
_KEPT = re.compile(r"[A-Za-z0-9\-._~:/?#@!&+,;=%]")
_ENTITY = re.compile(r"&(?=#|[A-Za-z][A-Za-z0-9]*;)")
MAX_LENGTH = 2048


class Target(NamedTuple):
    """A link target that may be shown. `host` is empty for mailto and relative targets."""

    href: str
    host: str

    @property
    def opens_elsewhere(self) -> bool:
        return not self.href.startswith("#")


def safe_target(url: str) -> Target | None:
    """Return the target to write for `url` (entities decoded), or None if a reply may not link there.

    `//host` becomes https. Anything before the first `/`, `?` or `#` that contains a colon is a scheme, whatever it
    looks like, so that a disguised `javascript:` never passes for a relative target.
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
    """Return the ASCII form of a host, so that a look-alike letter shows."""
    try:
        ascii_host = host.encode("idna").decode() if host and not host.isascii() else host
    except UnicodeError:
        ascii_host = host.encode("ascii", "backslashreplace").decode()
    return re.sub(r"[^A-Za-z0-9.\-:_]", "?", ascii_host)[:100]


MAX_CHARS = 128 * 1024
"""Longer texts are shown unparsed, to bound the time and the size of a cell."""

MAX_NESTING = 24
"""Levels of lists and quotations; the parser drops deeper ones, so a text that reaches it is not parsed."""

MAX_INLINE_CHARS = 8 * 1024
"""A longer paragraph is text without marks: the time to pair marks grows with the square of their number."""

_FORMULA = re.compile(
    r"\$\$[^$`]{1,2000}?\$\$"
    r"|\$(?![\s$])[^$`\n]{0,500}?(?<![\s\\])\$(?![\d$])"
    r"|\\\((?:[^`\\]|\\[^()`]){1,2000}\\\)"
    r"|\\\[(?:[^`\\]|\\[^\[\]`]){1,2000}\\\]"
    r"|\\begin\{(?P<env>[a-z]{1,20}\*?)\}[^`]{0,1500}?\\end\{(?P=env)\}"
)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\\^{}|\[\]]{1,1000}")
_AFTER_ADDRESS = ".,:;!?*_~"
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+#._-]{0,31}")


class TooDeep(ValueError):
    """The text is nested too deeply to be parsed."""


def parse(text: str, env: dict[str, Any] | None = None) -> "list[Token]":
    """Return the tokens of `text`. `env` carries reference definitions to the next block of the same text. Raise
    TooDeep."""
    try:
        tokens = _parser().parse(text, env if env is not None else {})
    except RecursionError:
        raise TooDeep from None
    if any(token.level >= MAX_NESTING - 1 for token in tokens):
        raise TooDeep
    return tokens


def parse_with_html(text: str) -> "list[Token]":
    """Return the tokens of `text` for a reader that accepts raw HTML, as front ends do: to check what we wrote. Raise
    TooDeep."""
    try:
        return _html_parser().parse(text)
    except RecursionError:
        raise TooDeep from None


def language(info: str) -> str:
    """Return the language in a fence's info string; "" if it names none that is allowed. Mermaid is left out, as
    nbconvert writes the content of such a fence into the page unescaped."""
    match = _LANGUAGE.match(info.strip())
    name = match[0] if match else ""
    return "" if name.lower().startswith("mermaid") else name


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # imported here, as it takes longer than a kernel's first cell should wait

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.core.ruler.at("inline", _parse_inline)
    parser.core.ruler.push("addresses", _addresses)
    parser.validateLink = _may_link
    return parser


@cache
def _html_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": 4 * MAX_NESTING})
    parser.core.ruler.at("inline", _parse_inline)
    return parser.enable(["table", "strikethrough"])


def _may_link(url: str) -> bool:
    return safe_target(url) is not None


def _formula(state: "StateInline", silent: bool) -> bool:
    """Take a formula as one token, so that `_`, `*` and `\\` in it reach the typesetter unchanged."""
    if state.src[state.pos] not in "$\\":
        return False
    match = _FORMULA.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("formula", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _parse_inline(state: "StateCore") -> None:
    """Run the parser's own rule, with a limit on its input."""
    for block in state.tokens:
        if block.type == "inline" and block.children is not None:
            if len(block.content) <= MAX_INLINE_CHARS:
                state.md.inline.parse(block.content, state.md, state.env, block.children)
            else:
                block.children.append(block.copy(type="text", map=None, children=None, level=0))


def _addresses(state: "StateCore") -> None:
    """Link the plain addresses in a text: readers disagree whether to, and where an address ends."""
    for block in state.tokens:
        if block.type == "inline" and block.children and "://" in block.content:
            block.children = _linked(block.children)


def _linked(tokens: "list[Token]") -> "list[Token]":
    out: list[Token] = []
    depth = 0
    for token in tokens:
        depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
        if depth or token.type != "text":
            out.append(token)
            continue
        start = 0
        for match in _ADDRESS.finditer(token.content):
            address = match[0].rstrip(_AFTER_ADDRESS)
            if address.endswith(")") and address.count("(") < address.count(")"):
                address = address.removesuffix(")").rstrip(_AFTER_ADDRESS)
            if safe_target(address) is None:
                continue
            out += [*_text(token, token.content[start : match.start()]), *_link(token, address)]
            start = match.start() + len(address)
        out += _text(token, token.content[start:])
    return out


def _text(token: "Token", content: str) -> "list[Token]":
    return [token.copy(content=content)] if content else []


def _link(token: "Token", address: str) -> "list[Token]":
    opening = token.copy(type="link_open", tag="a", nesting=1, attrs={"href": address}, content="")
    closing = token.copy(type="link_close", tag="a", nesting=-1, attrs={}, content="")
    return [opening, token.copy(content=address), closing]


_PAIRS = frozenset(
    {"p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "em", "strong", "s"}
    | {"table", "thead", "tbody", "tr", "th", "td"}
)
_INLINE = frozenset({"em", "strong", "s"})


def to_html(tokens: "Sequence[Token]") -> str:
    """Return the HTML of block tokens. The only attributes from the text are the checked targets of links."""
    out: list[str] = []
    for token in tokens:
        if token.type == "inline":
            _write_inline(token.children or (), out)
        elif token.hidden:
            if token.nesting == -1:
                out.append("\n")
        elif token.type in ("fence", "code_block"):
            out.append(code_block(token.content, language(token.info)))
        elif token.type == "hr":
            out.append("<hr>\n")
        elif token.tag in _PAIRS:
            out.append(_pair(token))
        else:
            out.append(_write_text(token.content))
    return "".join(out)


def code_block(code: str, lang: str = "") -> str:
    """Return a block of code, with its language as a class if it is known."""
    named = f' class="language-{escape(lang)}"' if lang else ""
    return f"<pre><code{named}>{_write_text(code)}</code></pre>\n"


def plain_block(text: str) -> str:
    """Return `text` unparsed, if it is too long or too deep."""
    return f'<pre class="oz-plain">{_write_text(text)}</pre>\n'


def _pair(token: "Token") -> str:
    if token.nesting == -1:
        return f"</{token.tag}>" if token.tag in _INLINE else f"</{token.tag}>\n"
    attributes = ""
    if token.tag == "ol" and isinstance(start := token.attrs.get("start"), int):
        attributes = f' start="{start}"'
    elif token.tag in ("th", "td") and (side := _side(token)):
        attributes = f' class="oz-{side}"'
    return f"<{token.tag}{attributes}>"


def _side(token: "Token") -> str:
    style = str(token.attrs.get("style", ""))
    return next((side for side in ("center", "right") if style == f"text-align:{side}"), "")


def _write_inline(tokens: "Sequence[Token]", out: list[str]) -> None:
    links: list[bool] = []  # for each open link, whether it was written
    for token in tokens:
        match token.type:
            case "code_inline":
                out.append(f"<code>{_write_text(token.content)}</code>")
            case "softbreak":
                out.append("\n")
            case "hardbreak":
                out.append("<br>\n")
            case "link_open":
                opened = _link_open(str(token.attrs.get("href", "")))
                links.append(bool(opened))
                out.append(opened)
            case "link_close":
                out.append("</a>" if links.pop() else "")
            case "image":
                out.append(_image(token, inside_link=any(links)))
            case _ if token.tag in _INLINE:
                out.append(_pair(token))
            case _:
                out.append(_write_text(token.content))


def _link_open(url: str) -> str:
    target = safe_target(url)
    if target is None:
        return ""
    title = f' title="{escape(target.host)}"' if target.host else ""
    apart = ' target="_blank" rel="noopener noreferrer nofollow"' if target.opens_elsewhere else ""
    return f'<a href="{escape(target.href)}"{title}{apart}>'


def _image(token: "Token", *, inside_link: bool) -> str:
    url = str(token.attrs.get("src", ""))
    label = escape(image_label(url))
    opened = "" if inside_link else _link_open(url)
    return f"{opened}{label}</a>" if opened else label


def image_label(url: str) -> str:
    """Return the text in place of an image, which is never loaded: that would tell its host that it was seen."""
    target = safe_target(url)
    if target is None:
        return "Image (not loaded)"
    if target.host:
        return f"Image from {target.host} (not loaded)"
    name = visible_label(target.href.split("?")[0].split("#")[0].rsplit("/", 1)[-1])[:60]
    return f"Image {name} (not loaded)" if name else "Image (not loaded)"


def _write_text(text: str) -> str:
    return escape(visible_prose(text))


CARET = '<span class="oz-caret" aria-hidden="true"></span>'
MAX_OPEN_CHARS = 16 * 1024
"""A longer open block is shown unparsed until it closes, as every update would parse it again."""

MAX_SHOWN = 192 * 1024
"""Characters of HTML shown of one reply while it streams; the end of the turn shows all."""

_RETRY_GROWTH = 1.25  # a long open block is parsed again once it has grown by this factor: linear in all

_CLOSERS = re.compile(r"(?:\s*</[a-z0-9]+>)*\s*\Z")
_CLOSERS_WIDTH = 400


class StreamingMarkdown:
    """The HTML of one growing text. Give it the whole text each time; it parses only what is new. A text that does not
    continue the one before (a reply that was reset) starts over."""

    def __init__(self) -> None:
        self._start_over()

    def html(self, text: str, *, caret: bool = True) -> str:
        """Return inert HTML of `text`, by default with a caret at its live end."""
        source = visible_prose(text)
        if not source.startswith(self._closed_source):
            self._start_over()
        opened = self._advance(source[len(self._closed_source) :])
        shown = self._shown_closed() + opened
        return _with_caret(shown) if caret else shown

    def _start_over(self) -> None:
        self._closed: list[str] = []
        self._closed_source = ""
        self._references: dict[str, Any] = {}
        self._look_again_at = 0

    def _advance(self, tail: str) -> str:
        """Keep the closed blocks of `tail`; return the HTML of the rest."""
        if len(tail) > MAX_CHARS or MAX_OPEN_CHARS < len(tail) < self._look_again_at:
            return plain_block(tail)
        try:
            tokens = parse(tail, self._references)
            index, line = _open_from(tokens, complete_lines=tail.count("\n"))
            if line:
                self._closed.append(to_html(tokens[:index]))
                kept = "".join(tail.splitlines(keepends=True)[:line])
                self._closed_source += kept
                tail = tail[len(kept) :]
            if len(tail) > MAX_OPEN_CHARS:
                self._look_again_at = int(len(tail) * _RETRY_GROWTH)
                return plain_block(tail)
            return _open_html(tokens[index:], tail)
        except TooDeep:
            return plain_block(tail)

    def _shown_closed(self) -> str:
        size = 0
        for index in range(len(self._closed) - 1, -1, -1):
            size += len(self._closed[index])
            if size > MAX_SHOWN:
                note = '<p class="oz-note">The text above this is shown when the turn ends.</p>\n'
                return note + "".join(self._closed[index + 1 :])
        return "".join(self._closed)


def _open_from(tokens: "Sequence[Token]", *, complete_lines: int) -> tuple[int, int]:
    """Return token and line where the part begins that may still change: the last block, or the one before it while the
    first line of the last one is incomplete ("1" may become "1. item" or continue the paragraph)."""
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        if token.level == 0 and token.nesting >= 0 and token.map and token.map[0] < complete_lines:
            return index, token.map[0]
    return 0, 0


def _open_html(tokens: "Sequence[Token]", source: str) -> str:
    """Return the HTML of the open part; a table is text until it has a row below its head."""
    starts = [index for index, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0]
    if not starts or tokens[starts[-1]].type != "table_open":
        return to_html(tokens)
    table = tokens[starts[-1] :]
    if any(token.type == "tbody_open" for token in table):
        return to_html(tokens)
    lines = source.rstrip("\n").split("\n")[-2:]
    return to_html(tokens[: starts[-1]]) + f"<p>{'<br>'.join(escape(line) for line in lines)}</p>\n"


def _with_caret(html: str) -> str:
    head, end = html[:-_CLOSERS_WIDTH], html[-_CLOSERS_WIDTH:]
    match = _CLOSERS.search(end)
    at = match.start() if match else len(end)
    return head + end[:at] + CARET + end[at:]
