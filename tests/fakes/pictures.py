"""Small pictures for tests, and what providers insist on in those that they are sent."""

import base64
import binascii
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

BEGINNINGS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}


def png(width: int = 2, height: int = 1, *, colour: bytes = b"\xff\x00\x00") -> bytes:
    """A true PNG of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + colour * width) * height)
    return BEGINNINGS["image/png"] + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def seen(media_type: str, encoded: str) -> bytes:
    """The picture, checked as providers do. Raises ValueError."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"Invalid base64 data: {error}") from None
    if not content.startswith(BEGINNINGS[media_type]):
        raise ValueError("Image does not match the provided media type")
    return content


def seen_in_url(url: str) -> bytes:
    """As OpenAI's format has it: `data:image/png;base64,…`. Raises ValueError; an address would have to be fetched."""
    head, _, encoded = url.partition(";base64,")
    return seen(head.removeprefix("data:"), encoded)


def seen_in_parts(messages: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Of all messages of the user's, in OpenAI's format."""
    return [
        seen_in_url(part["image_url"]["url"])
        for message in messages
        if message["role"] == "user" and not isinstance(message["content"], str)
        for part in message["content"]
        if part["type"] == "image_url"
    ]
