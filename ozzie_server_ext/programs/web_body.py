"""Bodies as they come, unpacked piece by piece: never more at once than is wanted of them (THREATS 16)."""

import zlib
from collections.abc import Iterator

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.web.port import web_error

_PIECE = 64 * 1024
MAX_RATIO = 100
_FREE = 1 << 20
"""In bytes: what is no larger unpacked is no bomb, however well it was packed."""


class BadPacking(Exception):
    """The body is not packed as its header says."""


class Unpacking:
    """Undoes one Content-Encoding. `is_whole` says whether what came had an end."""

    def __init__(self, encoding: str) -> None:
        """Raises NotFetchable for an encoding that was not asked for."""
        self._kind = _KINDS.get(encoding.strip().lower())
        if self._kind is None:
            raise web_error(
                "web.type", "It is packed in a way that was not asked for.", "Look for the same on another page."
            )
        self._unpack = zlib.decompressobj(self._kind) if self._kind else None
        self._took = self._gave = 0
        self._members = 0
        self.is_whole = self._unpack is None

    def feed(self, raw: bytes) -> Iterator[bytes]:
        """What more is known now. Raises BadPacking, and NotFetchable for what becomes far more than it is."""
        if self._unpack is None:
            yield raw
            return
        more = bool(raw)
        while more:
            piece, left = self._step(raw)
            self._took += len(raw) - len(left)
            raw = left
            more = bool(raw) or len(piece) == _PIECE  # then some of it may be held back
            self._gave += len(piece)
            if self._gave > _FREE and self._gave > MAX_RATIO * self._took:
                raise bomb()
            if piece:
                yield piece

    def _step(self, raw: bytes) -> tuple[bytes, bytes]:
        """A piece, and what of `raw` is left behind it."""
        assert self._unpack is not None
        try:
            piece = self._unpack.decompress(raw, _PIECE)
        except zlib.error:
            if self._kind == zlib.MAX_WBITS and not self._gave:
                # Some servers send "deflate" without the frame that RFC 9110, section 8.4.1.2, wants around it.
                self._kind = -zlib.MAX_WBITS
                self._unpack = zlib.decompressobj(self._kind)
                return b"", raw
            if self._members:
                return b"", b""  # something stands behind the end; browsers pass over it too
            raise BadPacking from None
        left = self._unpack.unconsumed_tail
        self.is_whole = self._unpack.eof
        if self._unpack.eof:
            left = self._unpack.unused_data
            self._members += 1
            assert self._kind is not None
            self._unpack = zlib.decompressobj(self._kind)
        return piece, left


_KINDS = {
    "": 0,
    "identity": 0,
    "gzip": 16 + zlib.MAX_WBITS,
    "x-gzip": 16 + zlib.MAX_WBITS,
    "deflate": zlib.MAX_WBITS,
}


def bomb() -> OzzieError:
    """What is said of it."""
    return web_error(
        "web.too_large",
        f"It unpacks to more than {MAX_RATIO} times its size, as what is made to do harm does.",
        "Leave that page alone.",
    )
