"""Tokens to HTML, by an allow-list: a token that this table does not know comes out as its escaped text."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ozzie_server_ext.render.links import safe_target
from ozzie_server_ext.render.markdown_tree import language
from ozzie_server_ext.render.text import visible_label, visible_prose

if TYPE_CHECKING:
    from markdown_it.token import Token

_PAIRS = frozenset(
    {"p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "em", "strong", "s"}
    | {"table", "thead", "tbody", "tr", "th", "td"}
)
_INLINE = frozenset({"em", "strong", "s"})


def to_html(tokens: "Sequence[Token]") -> str:
    """HTML of block tokens: no attribute comes from the text but a link's checked target."""
    out: list[str] = []
    for token in tokens:
        if token.type == "inline":
            _inline(token.children or (), out)
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
            out.append(_text(token.content))
    return "".join(out)


def code_block(code: str, lang: str = "") -> str:
    """A block of code, with the language as a class where one is known."""
    named = f' class="language-{escape(lang)}"' if lang else ""
    return f"<pre><code{named}>{_text(code)}</code></pre>\n"


def plain_block(text: str) -> str:
    """`text` as it is, for what is too long or too deep to be parsed."""
    return f'<pre class="oz-plain">{_text(text)}</pre>\n'


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


def _inline(tokens: "Sequence[Token]", out: list[str]) -> None:
    links: list[bool] = []  # of each open link, whether it was written
    for token in tokens:
        match token.type:
            case "code_inline":
                out.append(f"<code>{_text(token.content)}</code>")
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
                out.append(_text(token.content))


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
    """What stands in place of an image: it is never loaded, since loading it tells its host that it was seen."""
    target = safe_target(url)
    if target is None:
        return "Image (not loaded)"
    if target.host:
        return f"Image from {target.host} (not loaded)"
    name = visible_label(target.href.split("?")[0].split("#")[0].rsplit("/", 1)[-1])[:60]
    return f"Image {name} (not loaded)" if name else "Image (not loaded)"


def _text(text: str) -> str:
    return escape(visible_prose(text))
