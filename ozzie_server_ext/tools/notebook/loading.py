"""What a cell of Markdown would load from elsewhere as soon as somebody looks at it (THREATS 2).

Whoever shows a picture from another host tells that host so, with whatever stands in the address. This errs towards
finding something: who writes the cell can say it otherwise, and what is missed is asked for behind everybody's back.
Readers of Markdown differ, so it looks at the text and not at what one of them makes of it.
"""

import re

_REMOTE = r"(?:[a-z][a-z0-9+.\-]*+:|[/\\]|\.\.?+[/\\]\.\.)"
"""An address that is none beside the notebook: with a protocol, from the root of a server, or upwards."""
_PICTURE = re.compile(r"!\[")
# Nothing here goes back over what it has passed: a text can be made for that (THREATS 15).
_TARGET = re.compile(rf"\]\s*+\(\s*+<?+\s*+(?!data:image/(?:png|jpeg|gif|webp);base64,|attachment:){_REMOTE}", re.I)
_DEFINED = re.compile(rf"^[ \t>]*+\[[^\]\n]{{1,999}}+\]:\s*+<?+\s*+(?!attachment:){_REMOTE}", re.I | re.M)
_TAG = re.compile(r"<[a-z!/?]", re.I)
_LOADING_TAG = re.compile(
    r"<\s*+/?+\s*+(img|image|picture|source|video|audio|track|iframe|frame|embed|object|applet|link|style|base|meta"
    r"|script|svg|math|input|form|portal|template|bgsound)\b",
    re.I,
)
_LOADING_ATTRIBUTE = re.compile(
    rf"[\s\"'/](?:(?:src|srcset|poster|formaction|xlink:href|ping)\s*+=|background\s*+=\s*+[\"']?+\s*+{_REMOTE})"
    r"|url\s*+\(",
    re.I,
)
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_MOST = 100_000
"""In characters, of what is looked through; a longer text counts as one that loads."""


def what_loads(markdown: str) -> str:
    """What it is, in a few words; empty where nothing was found."""
    if len(markdown) > _MOST:
        return "perhaps something: it is too long to be sure"
    if found := _LOADING_TAG.search(markdown):
        return f"something by HTML ({found[1].lower()})"
    if _TAG.search(markdown) and _LOADING_ATTRIBUTE.search(markdown):
        return "something by an attribute of HTML"
    paragraphs = [part for part in _PARAGRAPHS.split(markdown) if _PICTURE.search(part)]
    # A definition may stand anywhere, and any picture may use it.
    if paragraphs and (_DEFINED.search(markdown) or any(_TARGET.search(part) for part in paragraphs)):
        return "a picture from elsewhere"
    return ""
