"""Model text in its two inert forms: HTML for a live cell, Markdown for the saved notebook (DESIGN §2.13)."""

from collections.abc import Sequence

from ozzie_server_ext.render.markdown_html import plain_block, to_html
from ozzie_server_ext.render.markdown_source import is_inert, plain_source, to_source
from ozzie_server_ext.render.markdown_tree import MAX_CHARS, TooDeep, parse
from ozzie_server_ext.render.text import visible_prose


def inert_html(markdown: str) -> str:
    """HTML in which nothing of `markdown` can run, load, style or be mistaken for a part of the page."""
    source = visible_prose(markdown)
    if len(source) > MAX_CHARS:
        return plain_block(source)
    try:
        return to_html(parse(source))
    except TooDeep:
        return plain_block(source)


def inert_markdown(markdown: str) -> str:
    """Markdown that says the same as `markdown`, in which no reader, strict or lax, finds raw HTML of the text's own.

    Front ends don't agree on where a code span or a formula ends, and Lab does not sanitise what a cell has just
    written. So nothing is trusted to stand inside code: see `markdown_source`.
    """
    return inert_parts((markdown,))[0]


def inert_parts(texts: Sequence[str]) -> list[str]:
    """`inert_markdown` of several texts that will stand in one document."""
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
