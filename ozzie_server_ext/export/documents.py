"""A session as one document to read: Markdown, or a page without JavaScript that loads nothing."""

from datetime import datetime
from html import escape

from ozzie_server_ext.export import texts
from ozzie_server_ext.export.session import ErasedTurn, ExportedSession, Message, Turn
from ozzie_server_ext.render.graph.output import graph_svg
from ozzie_server_ext.render.live import STYLE, LiveTurn
from ozzie_server_ext.render.markdown_source import inert_html, line_source
from ozzie_server_ext.render.page import page_markdown
from ozzie_server_ext.render.static import turn_markdown
from ozzie_server_ext.render.text import visible_prose

_PAGE_STYLE = """
body { max-width: 860px; margin: 32px auto; padding: 0 16px; font: 14px/1.6 system-ui, sans-serif; color: #212121;
  background: #fff; --jp-ui-font-color1: #212121; --jp-ui-font-color2: #616161; }
header { border-bottom: 1px solid #e0e0e0; margin-bottom: 24px; }
section { margin: 0 0 32px; }
h2 { font-size: 13px; color: #616161; margin: 0 0 4px; }
.said { background: #f5f5f5; border: 1px solid #e0e0e0; border-radius: 2px; padding: 8px 12px; margin: 0 0 8px;
  white-space: pre-wrap; overflow-wrap: anywhere; font-family: monospace; }
.graph svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) {
  body { color: #e0e0e0; background: #1e1e1e; --jp-ui-font-color1: #e0e0e0; --jp-ui-font-color2: #9e9e9e;
    --jp-content-font-color1: #e0e0e0; --jp-border-color1: #616161; }
  .said { background: #2b2b2b; border-color: #424242; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What the page may load (https://www.w3.org/TR/CSP3/): its own styles, and nothing else."""


def markdown_of(session: ExportedSession, at: datetime) -> str:
    """Return the session as Markdown without any HTML of others."""
    blocks = [f"# {line_source(texts.title_of(session.extent))}", page_markdown(texts.about(session, at))]
    for part in session.parts:
        if isinstance(part, ErasedTurn):
            blocks.append(f"*{line_source(texts.erased(part))}*")
            continue
        first, *others = part.messages
        blocks += [*_markdown_message(first), turn_markdown(part.view, part.graph).rstrip("\n")]
        for message in others:
            blocks += _markdown_message(message)
    return "\n\n".join(blocks) + "\n"


def _markdown_message(message: Message) -> list[str]:
    lines = visible_prose(message.text).rstrip("\n").split("\n")
    quoted = "\n".join(f"> {line_source(line)}\\" if line else ">" for line in lines).removesuffix("\\")
    return [f"## {line_source(texts.heading(message))}", quoted]


def html_of(session: ExportedSession, at: datetime) -> str:
    """Return the session as a page."""
    title = escape(texts.title_of(session.extent))
    return "".join(
        [
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width">',
            f"<style>{_PAGE_STYLE}</style>{STYLE}</head><body><header><h1>{title}</h1>",
            f"{inert_html(page_markdown(texts.about(session, at)))}</header>\n",
            *(_section(part) for part in session.parts),
            "</body></html>\n",
        ]
    )


def _section(part: Turn | ErasedTurn) -> str:
    if isinstance(part, ErasedTurn):
        return f"<section><p><em>{escape(texts.erased(part))}</em></p></section>\n"
    first, *others = part.messages
    drawn = LiveTurn().html(part.view).replace(STYLE, "")
    graph = "" if part.graph is None else f'<div class="graph">{graph_svg(part.graph)}</div>'
    return f"<section>{_html_message(first)}{drawn}{graph}{''.join(map(_html_message, others))}</section>\n"


def _html_message(message: Message) -> str:
    return f'<h2>{escape(texts.heading(message))}</h2><div class="said">{escape(visible_prose(message.text))}</div>'
