"""The parts of a message beside its text: its channel, mentions of files, and pictures."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.ids import BlobRef


class Channel(StrEnum):
    """`notebook`: a cell; `cli`: `ozzie ask`, or another program with the gateway's own token; `page`: a view in the
    browser; `rest`: a request over HTTP; `mcp`: another agent, which uses Ozzie as an MCP server.

    Logs of earlier versions have `local` and `user` for `cli` and `page`.
    """

    NOTEBOOK = "notebook"
    CLI = "cli"
    PAGE = "page"
    REST = "rest"
    MCP = "mcp"


DELEGATED = "skill"
"""The channel of a message from one task to another. Rules don't name it: they see the channel of the first request."""


MAX_PATH_CHARS = 1024
"""How much of a line is read around the cursor. The tools take no longer path either."""

_BEFORE = r"(?<![\w@/.])@"  # not in an email address, behind a path, or behind another @
_TYPED = re.compile(_BEFORE + r'(?:"(?P<quoted>[^"]*)|(?P<plain>[^\s"@][^\s"]*)?)\Z')
_WHOLE = re.compile(_BEFORE + r'(?:"(?P<quoted>[^"]+)"|(?P<plain>[^\s"@]\S*))')
_CLOSING = ".,;:!?)]}'\"`"
"""Ends of sentences and brackets, not of paths. The offline script and most models drop them, too."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A path and its range in the text, from its `@` on, in characters as Jupyter counts them."""

    start: int
    end: int
    path: str


def typed_mention(text: str, cursor: int) -> Mention | None:
    """Return the mention that is being typed at the cursor, or None. Its path may be empty."""
    start, line = _line_before(text, cursor)
    match = _TYPED.search(line)
    if match is None:
        return None
    closed = match["quoted"] is not None and text[cursor : cursor + 1] == '"'
    return Mention(start + match.start(), cursor + closed, match["quoted"] or match["plain"] or "")


def mention_at(text: str, cursor: int) -> Mention | None:
    """Return the whole mention at or just before the cursor, or None."""
    start, before = _line_before(text, cursor)
    line = before + text[cursor : cursor + MAX_PATH_CHARS].split("\n", 1)[0]
    for match in _WHOLE.finditer(line):
        if match.start() <= cursor - start <= match.end():
            path = match["quoted"] or match["plain"].rstrip(_CLOSING)
            return Mention(start + match.start(), start + match.end(), path) if path else None
    return None


def mentions_in(text: str) -> Iterator[Mention]:
    """Yield all mentions of a message in order."""
    start = 0
    for line in text.split("\n"):
        for match in _WHOLE.finditer(line):
            path = match["quoted"] or match["plain"].rstrip(_CLOSING)
            if 0 < len(path) <= MAX_PATH_CHARS:
                yield Mention(start + match.start(), start + match.end(), path)
        start += len(line) + 1


@dataclass(frozen=True, slots=True)
class ServerMention:
    """A resource of an MCP server, as a message names it: `@notes:file:///a.md`. `server` is what stands before the
    first colon, and may be no server's name."""

    path: str
    server: str
    uri: str


def server_mentions(text: str) -> Iterator[ServerMention]:
    """Yield what a message may mention of servers, each once. Code is left out, as for pictures."""
    seen: set[str] = set()
    for line in _CODE.sub(_blank, text).split("\n"):
        for match in _WHOLE.finditer(line):
            path = match["quoted"] or match["plain"].rstrip(_CLOSING)
            server, _, uri = path.partition(":")
            if server and uri and path not in seen:
                seen.add(path)
                yield ServerMention(path, server, uri)


def write_mention(path: str) -> str | None:
    """Return `path` as a mention, or None if it can't be written. A folder ends with a slash; its quotes stay open."""
    if '"' in path or "\n" in path or not path:
        return None
    if not re.search(r"\s", path) and path[-1] not in _CLOSING and path[0] != "@":
        return f"@{path}"
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'


def _line_before(text: str, cursor: int) -> tuple[int, str]:
    """Return the part of the cursor's line before the cursor that is read, preceded by where it begins."""
    start = max(text.rfind("\n", 0, cursor) + 1, cursor - MAX_PATH_CHARS)
    return start, text[start:cursor]


MAX_PICTURES = 20
"""Per request. With more, Anthropic limits their edges to 2,000 pixels."""
MAX_PICTURE_BYTES = 3_750_000
"""Per picture. Its base64 stays below 5 MB, which was Anthropic's limit for long."""
MAX_SHOWN_BYTES = 8_000_000
"""Of all pictures in a request. Google accepts requests of 20 MB; and encoding them delays other answers."""
PICTURE_TOKENS = 3000
"""The estimate for a picture before a provider has counted it. Anthropic states at most 1,600 for most of its models,
OpenAI about 1,100 for a square. A few count much more (gpt-4o-mini: 25,000), and report it afterwards."""

_NAMED = re.compile(r"[^*?<>|:\\]+?\.(?:png|jpe?g|gif|webp)(?![A-Za-z0-9_./-])", re.IGNORECASE)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_SIGNATURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """`path` is relative to the project, or the name of one that came with its message; `ref` is its content at that
    time, `size` in bytes."""

    path: str
    ref: BlobRef
    media_type: str
    size: int


@dataclass(frozen=True, slots=True)
class GivenPicture:
    """A picture that comes with a message: a figure of a notebook, say, which is no file."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class MentionedPictures:
    """The pictures that come with a message or that it mentions, the paths without a file, and the provenance of the
    pictures' files."""

    pictures: tuple[Picture, ...] = ()
    absent: tuple[str, ...] = ()
    content: Content = CLEAN


def mentioned_pictures(text: str) -> Iterator[str]:
    """Yield the paths of pictures below the project that a message mentions, each once. Code is left out: the path in
    `import logo from '@/logo.png'` is not below the project."""
    seen: set[str] = set()
    for mention in mentions_in(_CODE.sub(_blank, text)):
        path = picture_name(mention.path)
        if path and path not in seen:
            seen.add(path)
            yield path


def picture_name(mentioned: str) -> str:
    """Return the path of a picture in a mention, without the rest of the word as in "@plot.png's axis"; else ""."""
    found = _NAMED.match(mentioned)
    return found[0] if found and not mentioned.startswith(("/", "~")) else ""


def media_type_of(content: bytes) -> str | None:
    """Return the media type of a picture by its first bytes, or None. GIF is left out: not all providers take it.

    The file's name is not trusted: a provider refuses a picture of another type.
    """
    for signature, media_type in _SIGNATURES:
        if content.startswith(signature):
            return media_type
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


def _blank(code: re.Match[str]) -> str:
    return re.sub(r"\S", " ", code[0])
