"""Markdown as a token stream: one parser for both emitters, with raw HTML off and formulas kept whole."""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from ozzie_server_ext.render.links import safe_target

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

MAX_CHARS = 128 * 1024
"""Longer texts are shown as they are, unparsed: a bound on time and on the size of a cell."""

MAX_NESTING = 24
"""Levels of lists and quotations; the parser drops what lies deeper, so a text that reaches it is not parsed."""

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
    """The text is nested beyond what is parsed."""


def parse(text: str, env: dict[str, Any] | None = None) -> "list[Token]":
    """The tokens of `text`. `env` carries reference definitions on to the next block of the same text.

    Raises TooDeep.
    """
    try:
        tokens = _parser().parse(text, env if env is not None else {})
    except RecursionError:
        raise TooDeep from None
    if any(token.level >= MAX_NESTING - 1 for token in tokens):
        raise TooDeep
    return tokens


def parse_with_html(text: str) -> "list[Token]":
    """The tokens of `text` for a reader that takes raw HTML, as front ends do: for checking what we wrote.

    Raises TooDeep.
    """
    try:
        return _html_parser().parse(text)
    except RecursionError:
        raise TooDeep from None


def language(info: str) -> str:
    """The language named by a fence's info string, or "" where it names none that may be passed on.

    Mermaid is left out: nbconvert writes the content of such a fence into the page unescaped.
    """
    match = _LANGUAGE.match(info.strip())
    name = match[0] if match else ""
    return "" if name.lower().startswith("mermaid") else name


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # here, because it takes longer to import than a kernel's first cell should wait

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.core.ruler.at("inline", _inline)
    parser.core.ruler.push("addresses", _addresses)
    parser.validateLink = _may_link
    return parser


@cache
def _html_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": 4 * MAX_NESTING})
    parser.core.ruler.at("inline", _inline)
    return parser.enable(["table", "strikethrough"])


def _may_link(url: str) -> bool:
    return safe_target(url) is not None


def _formula(state: "StateInline", silent: bool) -> bool:
    """Takes a formula as one token, so that `_`, `*` and `\\` in it reach the typesetter as they are."""
    if state.src[state.pos] not in "$\\":
        return False
    match = _FORMULA.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.push("formula", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _inline(state: "StateCore") -> None:
    """The parser's own rule, with a bound on what it is given."""
    for block in state.tokens:
        if block.type == "inline" and block.children is not None:
            if len(block.content) <= MAX_INLINE_CHARS:
                state.md.inline.parse(block.content, state.md, state.env, block.children)
            else:
                block.children.append(block.copy(type="text", map=None, children=None, level=0))


def _addresses(state: "StateCore") -> None:
    """Makes links of the plain addresses in a text: some readers would, others not, and each finds another end."""
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
