"""Pictures that a message shows to a model beside its text (MD-1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.domain.mentions import mentions_in

MAX_PICTURES = 20
"""In one message; Anthropic takes as many without bounding their edges more tightly."""
MAX_PICTURE_BYTES = 5 << 20
"""Of one picture: Anthropic takes no larger one, the others do."""
MAX_SHOWN_BYTES = 12 << 20
"""Of all pictures in one request. Google takes requests of 20 MB, and base64 makes four bytes of three."""
PICTURE_TOKENS = 2000
"""What one is taken for before anybody has counted it. Anthropic tells of 1,600 at the most for most of its models
and OpenAI of about 1,100 for a square; what it really was, the usage says."""

_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_BEGINNINGS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """`path` as the message names it, below the project; `ref` what was in the file then; `size` in bytes."""

    path: str
    ref: BlobRef
    media_type: str
    size: int


def named_pictures(text: str) -> Iterator[str]:
    """The paths that a message mentions and whose names are those of pictures, each once."""
    seen: set[str] = set()
    for mention in mentions_in(text):
        if PurePosixPath(mention.path).suffix.lower() in _SUFFIXES and mention.path not in seen:
            seen.add(mention.path)
            yield mention.path


def media_type_of(content: bytes) -> str | None:
    """What a picture's first bytes say that it is: one of the four kinds that the providers take; None for all else.

    The name of a file is nobody's word for it: a provider refuses one that is something else.
    """
    for beginning, media_type in _BEGINNINGS:
        if content.startswith(beginning):
            return media_type
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None
