"""Pictures that a message shows to a model beside its text (MD-1)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.domain.mentions import mentions_in

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
