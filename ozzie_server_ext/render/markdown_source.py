"""Write tokens back as Markdown that every reader takes the same way, without any HTML but a few tags of our own.

Lab takes formulas out of the source before it parses Markdown and puts them back afterwards; nbconvert takes them
before code; readers differ on code in lists. Each can move the border of a code span and set free what was in it. So:

- In text, `<`, `>`, `&`, the backtick, the backslash and `$` are entities: no text can open code, a formula or a tag.
- Code that could open a tag becomes a Markdown fence only at the top level, in a document in which no code contains a
  delimiter of formulas; elsewhere it is our own `<pre><code>` with entities. So is code with such a delimiter in a list
  or a quotation, where front ends would take it for a formula.
- Reference definitions are resolved, images become links, and an emphasis keeps its mark.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ozzie_server_ext.render.markdown import (
    MAX_CHARS,
    MAX_INLINE_CHARS,
    TooDeep,
    image_label,
    language,
    parse,
    parse_with_html,
    plain_block,
    safe_target,
    to_html,
)
from ozzie_server_ext.render.text import visible_prose

if TYPE_CHECKING:
    from markdown_it.token import Token

_OPENS_TAG = re.compile(r"<[A-Za-z/!?]")
_FORMULA_MARK = re.compile(r"\$|\\[()\[\]{}]|\\(?:begin|end)\b|@@\d")
_OPENS_OR_FORMULA = re.compile(f"{_OPENS_TAG.pattern}|{_FORMULA_MARK.pattern}")
_OWN_TAG = re.compile(r"</?(?:details|summary|sub|span|pre|code)>")

_TEXT_MARK = re.compile(r"[\\`*\[\]<>&$|~]|@@|:(?=//)|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|!$")
_ENTITIES = {"\\": "&#92;", "`": "&#96;", "<": "&lt;", ">": "&gt;", "&": "&amp;", "$": "&#36;", "@@": "&#64;&#64;"}
_ENTITIES[":"] = "&#58;"  # all addresses are links by now: the text must not make another one
_ENTITIES["!"] = "&#33;"  # with a link after it, it would be an image
# Begins a heading (nbconvert needs no space after it), a list, a rule, an underline, a definition, a table.
_LINE_MARK = re.compile(r"#|\+(?=\s|$)|-(?=[-:\s]|$)|=(?=[=\s]|$)|:(?=[-:\s]|$)|(?P<number>\d{1,9})(?=[.)](?:\s|$))")
_LITERAL = re.compile(r"[^\w .,()=+/'\"-]|_")
_ACTIVE = re.compile(r"<|\]\(|!\[")
_TAG_TEXT = re.compile(r"[&<>\"'$\\`@{}]")
_PLAIN_CODE = re.compile(r"[^\s`|\\](?:[^\n`|\\]*[^\s`|\\])?")
_BREAKS = re.compile(r"[\t\n]")
_CLOSING_MARKS = re.compile(r"#+$")
_BACKTICKS = re.compile(r"`{3,}")


def to_source(trees: "Sequence[list[Token] | None]") -> list[str | None]:
    """Return the Markdown of each tree of one document; None stays None."""
    fences = not any(_FORMULA_MARK.search(code) for tree in trees if tree is not None for code in _codes(tree))
    return [None if tree is None else "\n\n".join(_Writer(fences).blocks(tree, top=True)) for tree in trees]


def is_inert(source: str) -> bool:
    """Whether a reader that accepts raw HTML finds only our own bare tags in `source`, no image and no unsafe link."""
    try:
        tokens = parse_with_html(source)
    except TooDeep:
        return False
    return all(_is_inert_token(token) for token in _all(tokens))


def plain_source(text: str) -> str:
    """Return `text` as one preformatted block, if it can't be parsed."""
    return _literal_block(visible_prose(text))


def text_source(text: str) -> str:
    """Return one line of text as inline Markdown."""
    return _escape_text(visible_prose(text))


def line_source(text: str) -> str:
    """Like `text_source`, at the beginning of a line: it is no heading, list or rule."""
    return _guarded(text_source(text))


def code_source(code: str) -> str:
    """Return one line of code as inline Markdown, also for a table's cell."""
    line = _BREAKS.sub(" ", visible_prose(code))
    if _PLAIN_CODE.fullmatch(line) and not _OPENS_TAG.search(line) and not _FORMULA_MARK.search(line):
        return f"`{line}`"
    return f"<code>{literal(line)}</code>"


def literal(text: str) -> str:
    """Return `text` with entities for all that Markdown or HTML could misread."""
    return _LITERAL.sub(lambda match: f"&#{ord(match[0])};" if match[0] < "\x7f" else match[0], text)


def tag_text(text: str) -> str:
    """Return one line of text between two tags of ours, where Markdown is not parsed."""
    return _TAG_TEXT.sub(lambda match: f"&#{ord(match[0])};", _BREAKS.sub(" ", visible_prose(text)))


class _Writer:
    """Writes one tree. Lists of blocks are returned as texts, to be joined by their parent."""

    def __init__(self, fences: bool) -> None:
        self._fences = fences

    def blocks(self, tokens: "Sequence[Token]", *, top: bool = False) -> list[str]:
        out: list[str] = []
        previous, alternate = "", False
        index = 0
        while index < len(tokens):
            token = tokens[index]
            end = _end(tokens, index)
            # A list directly after one of its kind takes the other mark, or both would become one list.
            alternate = token.type == previous and not alternate
            previous = token.type
            out.append(self._block(token, tokens[index + 1 : end], top=top, alternate=alternate))
            index = end + 1
        return [text for text in out if text]

    def _block(self, token: "Token", inner: "Sequence[Token]", *, top: bool, alternate: bool) -> str:
        match token.type:
            case "paragraph_open":
                return self._inline(inner)
            case "heading_open":
                text = _CLOSING_MARKS.sub(r"\\\g<0>", self._inline(inner, breaks=False))
                return f"{'#' * int(token.tag[1])} {text}".rstrip()
            case "blockquote_open":
                return _prefixed("\n\n".join(self.blocks(inner)), "> ", "> ") or ">"
            case "bullet_list_open":
                return self._list(inner, ["* " if alternate else "- "] * len(inner))
            case "ordered_list_open":
                mark = ")" if alternate else "."
                start = token.attrs.get("start", 1)
                first = start if isinstance(start, int) else 1
                return self._list(inner, [f"{first + number}{mark} " for number in range(len(inner))])
            case "fence" | "code_block":
                return self._code(token.content, language(token.info), top=top)
            case "hr":
                return "___"
            case "table_open":
                return self._table(inner)
            case "inline":
                return self._inline((token,))
            case _:
                return text_source(token.content)

    def _list(self, tokens: "Sequence[Token]", marks: Sequence[str]) -> str:
        items: list[list[str]] = []
        loose = False
        index = 0
        while index < len(tokens):
            end = _end(tokens, index)
            inner = tokens[index + 1 : end]
            items.append(self.blocks(inner))
            loose = loose or any(
                token.type == "paragraph_open" and not token.hidden and token.level == inner[0].level for token in inner
            )
            # A table or a block of HTML needs the blank line, so all items get it.
            loose = loose or any(block.startswith(("<", "|")) for block in items[-1])
            index = end + 1
        gap = "\n\n" if loose else "\n"
        return gap.join(
            _prefixed(gap.join(blocks), mark, " " * len(mark)) or mark.rstrip()
            for blocks, mark in zip(items, marks, strict=False)
        )

    def _code(self, code: str, lang: str, *, top: bool) -> str:
        code = visible_prose(code).removesuffix("\n")
        # Lab spares the dollars of a fence only if it starts a line.
        risky = _OPENS_TAG.search(code) and not self._fences if top else _OPENS_OR_FORMULA.search(code)
        if risky:
            return _literal_block(code)
        fence = "`" * max((len(run) + 1 for run in _BACKTICKS.findall(code)), default=3)
        return f"{fence}{lang}\n{code}\n{fence}"

    def _table(self, tokens: "Sequence[Token]") -> str:
        rows: list[list[str]] = []
        sides: list[str] = []
        for index, token in enumerate(tokens):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                rows[-1].append(self._inline(tokens[index + 1 : index + 2], breaks=False))
                if token.type == "th_open":
                    sides.append(_RULES.get(str(token.attrs.get("style", "")), "---"))
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        lines.insert(1, "| " + " | ".join(sides) + " |")
        return "\n".join(lines)

    def _inline(self, tokens: "Sequence[Token]", *, breaks: bool = True) -> str:
        children = [child for token in tokens for child in token.children or ()]
        dollars = _spare_dollars(children)
        out: list[str] = []
        fresh = breaks  # at the start of a line of its own
        links: list[str] = []
        depth = 0
        for child in children:
            match child.type:
                case "text" | "text_special":
                    text = text_source(child.content)
                    if dollars:
                        text = text.replace("&#36;", "<span>&#36;</span>")
                    out.append(_guarded(text.lstrip(" ")) if fresh else text)
                    fresh = fresh and not text.strip(" ")
                    continue
                case "formula":
                    out.append(_guarded(text_source(child.content)) if fresh else text_source(child.content))
                case "code_inline":
                    out.append(code_source(child.content))
                case "softbreak":
                    out.append("\n" if breaks else " ")
                    fresh = breaks
                    continue
                case "hardbreak":
                    out.append("\\\n" if breaks else " ")
                    fresh = breaks
                    continue
                case "em_open" | "em_close" | "strong_open" | "strong_close":
                    out.append(child.markup)
                case "s_open" | "s_close":
                    # Only the outermost pair: several marks at the start of a line would open a fence.
                    depth += 1 if child.type == "s_open" else -1
                    if depth == (1 if child.type == "s_open" else 0):
                        out.append(child.markup)
                case "link_open":
                    target = safe_target(str(child.attrs.get("href", "")))
                    links.append(f"]({target.href})" if target else "")
                    out.append("[" if target else "")
                case "link_close":
                    out.append(links.pop())
                case "image":
                    out.append(_image(child, inside_link=bool(links)))
                case _:
                    out.append(text_source(child.content))
            fresh = False
        return "".join(out).strip(" \n")


_RULES = {"text-align:left": ":---", "text-align:center": ":---:", "text-align:right": "---:"}


def _image(token: "Token", *, inside_link: bool) -> str:
    url = str(token.attrs.get("src", ""))
    target = safe_target(url)
    label = text_source(image_label(url))
    return label if inside_link or target is None else f"[{label}]({target.href})"


def _spare_dollars(tokens: "Sequence[Token]") -> bool:
    """Whether a typesetter that looks at the page could take two dollar signs of plain text for a formula."""
    signs = sum(token.content.count("$") for token in tokens if token.type in ("text", "text_special"))
    return signs > 1 or (signs == 1 and any(token.type == "formula" for token in tokens))


def _escape_text(text: str) -> str:
    return _TEXT_MARK.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), _BREAKS.sub(" ", text))


def _guarded(line: str) -> str:
    """Return `line` so that it does not begin a heading, a list, a rule or a definition."""
    match = _LINE_MARK.match(line)
    if match is None:
        return line
    end = match.end("number") if match["number"] else 0
    return f"{line[:end]}\\{line[end:]}"


def _literal_block(code: str) -> str:
    """Return code as one line of HTML, without blank lines and indentation, which could end it."""
    return f"<pre><code>{literal(code)}</code></pre>"


def _prefixed(text: str, first: str, rest: str) -> str:
    if not text:
        return ""
    lines = text.split("\n")
    return "\n".join(((rest if number else first) + line).rstrip(" ") for number, line in enumerate(lines))


def _end(tokens: "Sequence[Token]", index: int) -> int:
    """Return the index at which the block that opens at `index` closes: `index` itself if it has no inside."""
    opening = tokens[index]
    if opening.nesting != 1:
        return index
    for end in range(index + 1, len(tokens)):
        if tokens[end].nesting == -1 and tokens[end].level == opening.level:
            return end
    return len(tokens)


def _all(tokens: "Sequence[Token]") -> "list[Token]":
    return [each for token in tokens for each in (token, *(token.children or ()))]


def _codes(tokens: "Sequence[Token]") -> list[str]:
    return [token.content for token in _all(tokens) if token.type in ("fence", "code_block", "code_inline")]


def _is_inert_token(token: "Token") -> bool:
    match token.type:
        case "html_block" | "html_inline":
            return "<" not in _OWN_TAG.sub("", token.content)
        case "image":
            return False
        case "inline" if len(token.content) > MAX_INLINE_CHARS:  # it was not parsed
            return not _ACTIVE.search(_OWN_TAG.sub("", token.content))
        case "link_open":
            return safe_target(str(token.attrs.get("href", ""))) is not None
        case _:
            return True


def inert_html(markdown: str) -> str:
    """Return HTML in which nothing of `markdown` can run, load, style or pass for a part of the page."""
    source = visible_prose(markdown)
    tree = _tree(source)
    return plain_block(source) if tree is None else to_html(tree)


def inert_markdown(markdown: str) -> str:
    """Return Markdown with the same meaning, in which no reader, strict or lax, finds raw HTML of the text's own.

    Front ends disagree on where a code span or a formula ends, and Lab does not sanitise what a cell has just written.
    So nothing is trusted to be inside code: see the module's docstring.
    """
    return inert_parts((markdown,))[0]


def inert_parts(texts: Sequence[str]) -> list[str]:
    """Like `inert_markdown`, for several texts of one document."""
    sources = [visible_prose(text) for text in texts]
    trees = [_tree(source) for source in sources]
    written = to_source(trees)
    return [
        found if found is not None and is_inert(found) else plain_source(source)
        for found, source in zip(written, sources, strict=True)
    ]


def _tree(source: str) -> list | None:
    if len(source) > MAX_CHARS:
        return None
    try:
        return parse(source)
    except TooDeep:
        return None
