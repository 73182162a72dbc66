"""What kind of bytes came, and which text they are: by what the server says of them, and by what they are."""

import codecs
import re
from dataclasses import dataclass
from typing import Protocol

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.render.text import byte_count, without_hidden
from ozzie_server_ext.web.address import joined
from ozzie_server_ext.web.port import MAX_LINK, MAX_LINKS, MAX_TEXT, web_error

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPES = frozenset(
    {
        "application/csv",
        "application/ecmascript",
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/json5",
        "application/jsonl",
        "application/markdown",
        "application/sql",
        "application/toml",
        "application/x-javascript",
        "application/x-latex",
        "application/x-ndjson",
        "application/x-python",
        "application/x-sh",
        "application/x-tex",
        "application/x-yaml",
        "application/xhtml+xml",
        "application/xml",
        "application/yaml",
    }
)
_NAMED = {
    "application/pdf": "a PDF",
    "application/zip": "an archive",
    "application/gzip": "an archive",
    "application/x-tar": "an archive",
    "application/epub+zip": "a book (EPUB)",
    "application/msword": "a Word document",
}
_FAMILIES = {
    "image/": "an image",
    "audio/": "a sound",
    "video/": "a film",
    "font/": "a font",
    "application/vnd.": "a document of an office program or the like",
    "multipart/": "a message of several parts",
}
_BEGINNINGS = (
    (b"%PDF-", "a PDF"),
    (b"\x89PNG\r\n\x1a\n", "an image (PNG)"),
    (b"\xff\xd8\xff", "an image (JPEG)"),
    (b"GIF87a", "an image (GIF)"),
    (b"GIF89a", "an image (GIF)"),
    (b"PK\x03\x04", "an archive or a document (ZIP)"),
    (b"\x1f\x8b\x08", "an archive (gzip)"),
    (b"BZh", "an archive (bzip2)"),
    (b"\xfd7zXZ\0", "an archive (xz)"),
    (b"7z\xbc\xaf\x27\x1c", "an archive (7z)"),
    (b"\x28\xb5\x2f\xfd", "an archive (zstd)"),
    (b"\x7fELF", "a program"),
    (b"\0asm", "a program (WebAssembly)"),
    (b"SQLite format 3\0", "a database (SQLite)"),
    (b"OggS", "a sound or a film (Ogg)"),
    (b"fLaC", "a sound (FLAC)"),
    (b"ID3", "a sound (MP3)"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHARSETS = re.compile(
    r"utf-(8|16|32)(-[lb]e)?|(iso8859|windows|cp)[-_]?\d{1,4}(-\d{1,2})?|koi8-[rut]|mac-\w+|shift_jis\w*|euc_\w+"
    r"|iso2022_\w+|gb2312|gbk|gb18030|big5(hkscs)?|johab|tis-620|hz"
)
"""As Python names them. Other codecs of Python's are none of the web's, and some take for ever."""
_LATIN = frozenset({"ascii", "iso8859-1"})
_META = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-zA-Z0-9_:.-]{1,40})", re.I)
_META_WITHIN = 1024
_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")
_CHARSET = re.compile(r";\s{0,9}charset\s{0,9}=\s{0,9}[\"']?([a-zA-Z0-9_:.-]{1,40})", re.I)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
_MOST_CONTROLS = 0.02
_HTML = re.compile(rb"\s{0,200}(<!--.{0,500}?-->\s{0,200})?<(!doctype\s+html|html|head|body)\b", re.I | re.S)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\\\]\[{}|^]{1,600}", re.I)


class Got(Protocol):
    """What `text_of` has to know of a body."""

    @property
    def type(self) -> str: ...

    @property
    def charset(self) -> str: ...

    @property
    def body(self) -> bytes: ...

    @property
    def cut(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Declared:
    """What the headers say: "" and -1 where they say nothing that can be read."""

    type: str
    charset: str
    size: int

    @classmethod
    def of(cls, content_type: str, content_length: str) -> "Declared":
        kind = content_type[:1000].partition(";")[0].strip().lower()
        charset = _CHARSET.search(content_type[:1000])
        is_number = content_length.isascii() and content_length.isdigit() and len(content_length) < 16
        return cls(
            kind if _TYPE.fullmatch(kind) else "",
            charset[1] if charset else "",
            int(content_length) if is_number else -1,
        )

    @property
    def is_text(self) -> bool:
        return (
            self.type in _TEXT_TYPES
            or (self.type.startswith("text/") and self.type != "text/rtf")
            or (self.type.startswith("application/") and self.type.endswith(("+json", "+xml")))
        )


def expect_text(declared: Declared, head: bytes | None = None) -> None:
    """Refuse what is no text: by what the server says, and, once there is a `head` of it, by its first bytes. The words
    are ours, whatever the server called it. Raises NotFetchable."""
    if head is None:
        named = _NAMED.get(declared.type) or next(
            (name for beginning, name in _FAMILIES.items() if declared.type.startswith(beginning)), ""
        )
        if named and not declared.is_text:
            raise _no_text(named, declared.size)
        return
    named = next((name for beginning, name in _BEGINNINGS if head.startswith(beginning)), "")
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        named = "an image, a sound or a film"
    if not named and head[4:8] == b"ftyp":
        named = "a film or an image"
    if named or _is_binary(head, declared.charset):
        raise _no_text(named or "a file that is no text", declared.size)


def type_of(declared: Declared, body: bytes) -> str:
    """The media type to read it as."""
    if declared.is_text:
        return declared.type
    return "text/html" if _HTML.match(body[:_META_WITHIN]) else "text/plain"


def text_of(got: Got) -> str:
    """The text of a body: in the charset of its byte-order mark, its header, or its own first lines; else in UTF-8.
    Bytes that are none in it become U+FFFD."""
    charset = _bom(got.body) or _known(got.charset)
    if not charset and (found := _META.search(got.body[:_META_WITHIN])):
        charset = _known(found[1].decode("ascii"))
        if charset.startswith(("utf-16", "utf-32")):
            charset = "utf-8"  # it could not have been read in one of these (HTML, 13.2.3.2)
    decoder = codecs.getincrementaldecoder(charset or "utf-8")("replace")
    # What was cut within a character has no half of one at its end.
    return decoder.decode(got.body, final=not got.cut).removeprefix("\ufeff")


def cleaned(text: str) -> str:
    """A text that is no HTML, without what nobody sees."""
    return without_hidden(text)


def links_in(text: str) -> tuple[str, ...]:
    """The addresses that are written out in a text."""
    found: dict[str, None] = {}
    for match in _ADDRESS.finditer(text[:MAX_TEXT]):
        written = match[0].rstrip(".,;:!?*_)")
        if joined(written, written, longest=MAX_LINK):
            found[written.split("#", 1)[0]] = None
        if len(found) == MAX_LINKS:
            break
    return tuple(found)


def _no_text(named: str, size: int) -> OzzieError:
    known = f" of {byte_count(size)}" if size >= 0 else ""
    return web_error(
        "web.type",
        f"What stands there is {named}{known}. Only text can be fetched: pages, Markdown, JSON, CSV and the like.",
        "Look for a page with the same content, or ask the user for the file.",
    )


def _is_binary(head: bytes, charset: str) -> bool:
    if _bom(head) or _known(charset).startswith(("utf-16", "utf-32")):
        return False
    if b"\0" in head:
        return True
    return len(head) - len(head.translate(None, _CONTROLS)) > _MOST_CONTROLS * len(head)


def _bom(body: bytes) -> str:
    return next((charset for mark, charset in _BOMS if body.startswith(mark)), "")


def _known(name: str) -> str:
    """Python's name of a charset of the web; "" for any other."""
    try:
        found = codecs.lookup(name.lower().removeprefix("x-")).name if name else ""
    except (LookupError, ValueError):
        return ""
    if found in _LATIN:
        return "cp1252"  # which is what is meant by both (WHATWG Encoding, 4.2)
    return found if _CHARSETS.fullmatch(found) else ""
