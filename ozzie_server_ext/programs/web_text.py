"""The type and text of a downloaded body, from its headers and its content."""

import codecs
import re

import msgspec

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.render.text import byte_count
from ozzie_server_ext.web.address import joined
from ozzie_server_ext.web.port import MAX_LINK, MAX_LINKS, MAX_TEXT, web_error

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPES = frozenset(
    f"application/{name}"
    for name in (
        *("csv", "ecmascript", "graphql", "javascript", "json", "json5", "jsonl", "markdown", "sql", "toml"),
        *("x-javascript", "x-latex", "x-ndjson", "x-python", "x-sh", "x-tex", "x-yaml", "xhtml+xml", "xml", "yaml"),
    )
)
_KNOWN_TYPES = {
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
_MAGIC_BYTES = (
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
"""Codecs by Python's names. Python's other codecs are not of the web, and some take forever."""
_LATIN = frozenset({"ascii", "iso8859-1"})
_META = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-zA-Z0-9_:.-]{1,40})", re.I)
_META_WITHIN = 1024
_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")
_CHARSET = re.compile(r";\s{0,9}charset\s{0,9}=\s{0,9}[\"']?([a-zA-Z0-9_:.-]{1,40})", re.I)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
_MOST_CONTROLS = 0.02
_HTML = re.compile(rb"\s{0,200}(<!--.{0,500}?-->\s{0,200})?<(!doctype\s+html|html|head|body)\b", re.I | re.S)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\\\]\[{}|^]{1,600}", re.I)


class Downloaded(msgspec.Struct, frozen=True, kw_only=True):
    """A response. `type` and `charset` come from the header and the first bytes; the rest is in `web.port.Fetched`."""

    url: str
    status: int
    hosts: tuple[str, ...]
    type: str = ""
    charset: str = ""
    body: bytes = b""
    cut: bool = False
    leads_to: str = ""


class Declared(msgspec.Struct, frozen=True):
    """The headers' claims, "" and -1 if missing or unreadable."""

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
    """Refuse non-text, by the headers or, given a `head`, by its first bytes. Raises NotFetchable in our own words."""
    if head is None:
        kind = _KNOWN_TYPES.get(declared.type) or next(
            (name for beginning, name in _FAMILIES.items() if declared.type.startswith(beginning)), ""
        )
        if kind and not declared.is_text:
            raise _not_text(kind, declared.size)
        return
    kind = next((name for beginning, name in _MAGIC_BYTES if head.startswith(beginning)), "")
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        kind = "an image, a sound or a film"
    if not kind and head[4:8] == b"ftyp":
        kind = "a film or an image"
    if kind or _is_binary(head, declared.charset):
        raise _not_text(kind or "a file that is not text", declared.size)


def type_of(declared: Declared, body: bytes) -> str:
    """Return the media type to parse it as."""
    if declared.is_text:
        return declared.type
    return "text/html" if _HTML.match(body[:_META_WITHIN]) else "text/plain"


def text_of(got: Downloaded) -> str:
    """Decode a body by its byte-order mark, header or first lines, else as UTF-8. Invalid bytes become U+FFFD."""
    charset = _bom(got.body) or _codec_of(got.charset)
    if not charset and (found := _META.search(got.body[:_META_WITHIN])):
        charset = _codec_of(found[1].decode("ascii"))
        if charset.startswith(("utf-16", "utf-32")):
            charset = "utf-8"  # else this line could not have been read (HTML, 13.2.3.2)
    decoder = codecs.getincrementaldecoder(charset or "utf-8")("replace")
    # Drop half a character at the end of a cut body.
    return decoder.decode(got.body, final=not got.cut).removeprefix("\ufeff")


def links_in(text: str) -> tuple[str, ...]:
    """Return the addresses that are written out in a text."""
    found: dict[str, None] = {}
    for match in _ADDRESS.finditer(text[:MAX_TEXT]):
        written = match[0].rstrip(".,;:!?*_)")
        if joined(written, written, longest=MAX_LINK):
            found[written.split("#", 1)[0]] = None
        if len(found) == MAX_LINKS:
            break
    return tuple(found)


def _not_text(kind: str, size: int) -> OzzieError:
    known = f" of {byte_count(size)}" if size >= 0 else ""
    return web_error(
        "web.type",
        f"The content is {kind}{known}. Only text can be fetched: pages, Markdown, JSON, CSV and the like.",
        "Look for a page with the same content, or ask the user for the file.",
    )


def _is_binary(head: bytes, charset: str) -> bool:
    if _bom(head) or _codec_of(charset).startswith(("utf-16", "utf-32")):
        return False
    if b"\0" in head:
        return True
    return len(head) - len(head.translate(None, _CONTROLS)) > _MOST_CONTROLS * len(head)


def _bom(body: bytes) -> str:
    return next((charset for mark, charset in _BOMS if body.startswith(mark)), "")


def _codec_of(name: str) -> str:
    """Return Python's name of a web charset, or "" for any other."""
    try:
        found = codecs.lookup(name.lower().removeprefix("x-")).name if name else ""
    except (LookupError, ValueError):
        return ""
    if found in _LATIN:
        return "cp1252"  # the meaning of both on the web (WHATWG Encoding, 4.2)
    return found if _CHARSETS.fullmatch(found) else ""
