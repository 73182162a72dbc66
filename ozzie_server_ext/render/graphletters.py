"""How much room text takes in a picture whose font nobody knows beforehand, and text cut to the room there is."""

import re
import unicodedata

from ozzie_server_ext.render.columns import cut_columns
from ozzie_server_ext.render.text import visible_label

SMALL, PLAIN = 11, 13
"""Sizes in px: of figures and labels, of names."""
# In hundredths of the size, as wide as in the widest font that a viewer is likely to fall back to.
_WIDE = {
    **dict.fromkeys("ijl.,:;'|!()[] ·", 33),
    **dict.fromkeys('ftrI/\\-"', 43),
    **dict.fromkeys("abdeghnopqu0123456789$_–", 63),
    **dict.fromkeys("cksvxyz?", 58),
    **dict.fromkeys("mMwW%@…—", 100),
}
_OTHER, _IDEOGRAPH, _NARROWEST = 80, 105, 0.33
# No character of XML 1.0 at all: one of these, and no viewer shows anything of the picture.
_NOT_XML = re.compile("[\ufffe\uffff]")


def shown(text: str) -> str:
    """`text` on one line with nothing invisible in it, and nothing that XML can't hold."""
    return _NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", visible_label(text))


def text_width(text: str, size: int) -> float:
    """About how many px a line takes, rather more than less."""
    return sum(map(_wide, text)) * size / 100


def fitted(text: str, room: float, size: int, *, most: int = 200, end: str = "") -> str:
    """`text` made visible and cut to `most` columns and to `room` px; `end` follows it whole."""
    line = shown(text[: 4 * most])  # no more of a text is looked at than could be shown
    most = min(most, int(room / size / _NARROWEST) + 1)
    for columns in range(most - len(end), 0, -1):
        cut = cut_columns(line, columns) + end
        if text_width(cut, size) <= room:
            return cut
    return end.strip() or "…"


def _wide(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    if unicodedata.east_asian_width(char) in "WF":
        return _IDEOGRAPH
    return _WIDE.get(char, _OTHER)
