"""What a message may carry beside its text: its channel, mentions of files, and pictures."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.ids import BlobRef


class Channel(StrEnum):
    """`notebook`: a cell; `cli`: `ozzie ask`, or another program with the gateway's own token; `page`: a view in the
    browser; `rest`: a request over HTTP.

    Logs of earlier versions have `local` and `user` for `cli` and `page`.
    """

    NOTEBOOK = "notebook"
    CLI = "cli"
    PAGE = "page"
    REST = "rest"


DELEGATED = "skill"
"""The channel of a message that one task hands over to another. No rule names it: whoever asked for the whole is its
caller."""


MAX_PATH_CHARS = 1024
"""As much of a line is looked at around the cursor; the tools take no longer path either."""

_BEFORE = r"(?<![\w@/.])@"  # an address of mail, a decorator's path and a second @ are none
_TYPED = re.compile(_BEFORE + r'(?:"(?P<quoted>[^"]*)|(?P<plain>[^\s"@][^\s"]*)?)\Z')
_WHOLE = re.compile(_BEFORE + r'(?:"(?P<quoted>[^"]+)"|(?P<plain>[^\s"@]\S*))')
_CLOSING = ".,;:!?)]}'\"`"
"""What ends a sentence or a bracket, and not a path: the offline script and most models drop it, too."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A path and where it stands, from its `@` on; in characters of the text, as Jupyter counts them."""

    start: int
    end: int
    path: str


def typed_mention(text: str, cursor: int) -> Mention | None:
    """The mention that is being written at the cursor; None where none is. Its path may be empty."""
    start, line = _line_before(text, cursor)
    match = _TYPED.search(line)
    if match is None:
        return None
    closed = match["quoted"] is not None and text[cursor : cursor + 1] == '"'
    return Mention(start + match.start(), cursor + closed, match["quoted"] or match["plain"] or "")


def mention_at(text: str, cursor: int) -> Mention | None:
    """The whole mention in which the cursor stands, or behind which."""
    start, before = _line_before(text, cursor)
    line = before + text[cursor : cursor + MAX_PATH_CHARS].split("\n", 1)[0]
    for match in _WHOLE.finditer(line):
        if match.start() <= cursor - start <= match.end():
            path = match["quoted"] or match["plain"].rstrip(_CLOSING)
            return Mention(start + match.start(), start + match.end(), path) if path else None
    return None


def mentions_in(text: str) -> Iterator[Mention]:
    """All mentions of a message, in their order."""
    start = 0
    for line in text.split("\n"):
        for match in _WHOLE.finditer(line):
            path = match["quoted"] or match["plain"].rstrip(_CLOSING)
            if 0 < len(path) <= MAX_PATH_CHARS:
                yield Mention(start + match.start(), start + match.end(), path)
        start += len(line) + 1


def write_mention(path: str) -> str | None:
    """How a message names `path`; None where it can't. A folder ends with a slash, and its quotes stay open."""
    if '"' in path or "\n" in path or not path:
        return None
    if not re.search(r"\s", path) and path[-1] not in _CLOSING and path[0] != "@":
        return f"@{path}"
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'


def _line_before(text: str, cursor: int) -> tuple[int, str]:
    """Where the part of the cursor's line that is looked at begins, and that part up to the cursor."""
    start = max(text.rfind("\n", 0, cursor) + 1, cursor - MAX_PATH_CHARS)
    return start, text[start:cursor]


MAX_PICTURES = 20
"""In one request. With more of them, Anthropic bounds their edges to 2,000 pixels."""
MAX_PICTURE_BYTES = 3_750_000
"""Of one picture: its base64 stays below 5 MB, which Anthropic long took at the most."""
MAX_SHOWN_BYTES = 8_000_000
"""Of all pictures in one request. Google takes requests of 20 MB; and encoding them holds up other answers."""
PICTURE_TOKENS = 3000
"""What one is taken for before anybody has counted it. Anthropic tells of 1,600 at the most for most of its models,
OpenAI of about 1,100 for a square. A few count much more (gpt-4o-mini: 25,000 for that), and say so afterwards."""

_NAMED = re.compile(r"[^*?<>|:\\]+?\.(?:png|jpe?g|gif|webp)(?![A-Za-z0-9_./-])", re.IGNORECASE)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """`path` as the message names it, below the project; `ref` what was in the file then; `size` in bytes."""

    path: str
    ref: BlobRef
    media_type: str
    size: int


@dataclass(frozen=True, slots=True)
class Named:
    """What a message names: the pictures that are there, the paths at which there is nothing, and what the pictures'
    files were made from."""

    pictures: tuple[Picture, ...] = ()
    absent: tuple[str, ...] = ()
    content: Content = CLEAN


def named_pictures(text: str) -> Iterator[str]:
    """The paths below the project that a message mentions and whose names are those of pictures, each once. What stands
    in code is none: `import logo from '@/logo.png'` is not about a file of the project."""
    seen: set[str] = set()
    for mention in mentions_in(_CODE.sub(_blank, text)):
        path = picture_name(mention.path)
        if path and path not in seen:
            seen.add(path)
            yield path


def picture_name(mentioned: str) -> str:
    """The path in a mention, where it is one of a picture: without what a sentence goes on with behind it, as in
    "@plot.png's axis"; empty for every other."""
    found = _NAMED.match(mentioned)
    return found[0] if found and not mentioned.startswith(("/", "~")) else ""


def media_type_of(content: bytes) -> str | None:
    """What a picture's first bytes say that it is: one of the kinds that all providers take, which GIF is not; None for
    all else.

    The name of a file is nobody's word for it: a provider refuses one that is something else.
    """
    for beginning, media_type in _BEGINNINGS:
        if content.startswith(beginning):
            return media_type
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


def _blank(code: re.Match[str]) -> str:
    return re.sub(r"\S", " ", code[0])
