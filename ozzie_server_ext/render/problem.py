"""What went wrong and what to do next, for a cell that did not become a turn (UX §2.8)."""

from ozzie_server_ext.render.columns import wrapped
from ozzie_server_ext.render.markdown import inert_markdown
from ozzie_server_ext.render.text import visible_prose


def problem_bundle(sentence: str, hint: str) -> dict[str, str]:
    """A MIME bundle: the sentence in bold, then what to do. Commands in backticks stay commands."""
    lines = [line for line in visible_prose(sentence).splitlines() if line.strip()]
    bold = "  \n".join(f"**{line.strip()}**" for line in lines)
    markdown = inert_markdown("\n\n".join(part for part in (bold, visible_prose(hint)) if part))
    return {
        "text/markdown": markdown,
        "text/plain": "\n".join(
            line for part in (sentence, hint) for told in visible_prose(part).splitlines() for line in wrapped(told)
        ),
    }
