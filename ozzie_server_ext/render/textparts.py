"""The text of one reply as it comes in, in pieces that may be missed or come twice."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """What one reply says. `end` is the character offset that the stream has reached; `holes` tells that some of
    what lies before it was missed, until the final text or a whole replay fills it. `cut`: it was stopped. `short`: it
    reached the limit of its length."""

    reply_id: str
    text: str = ""
    done: bool = False
    end: int = 0
    holes: bool = False
    cut: bool = False
    short: bool = False


def begun(reply_id: str, start: int, content: str) -> TextPart:
    """A reply of which this piece, at that offset, is the first that came."""
    return TextPart(reply_id=reply_id, text=content, end=start + len(content), holes=start > 0)


def grown(part: TextPart, start: int | None, content: str) -> TextPart:
    """The part with another piece, at that offset; None where it says none and follows what there is."""
    if part.done:
        return part
    start = part.end if start is None else start
    end = start + len(content)
    if start == 0 and end >= part.end:  # a late joiner is sent the whole text so far
        return replace(part, text=content, end=end, holes=False)
    if end <= part.end:
        return part
    # A gap is closed by the final text; until then the pieces stand side by side.
    fresh = content[max(part.end - start, 0) :]
    return replace(part, text=part.text + fresh, end=end, holes=part.holes or start > part.end)
