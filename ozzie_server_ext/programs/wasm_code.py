"""Makes the code of a plugin safe to be started (WebAssembly Core Specification 2.0, section 5.5, Binary Format).

Extism runs what a module does at its start before a call can be stopped, and does not limit its tables. So what would
run by itself becomes an export that is called like any other, and each table gets a limit. Of Extism's own functions a
plugin gets those for its memory, input and output: others read memory by lengths that a plugin may have forged.
"""

from collections.abc import Iterator
from io import BytesIO

ERROR_SET = "ozzie_error_set"
"""The host function that takes the place of Extism's `error_set`."""
_HEADER = b"\0asm\1\0\0\0"
_IMPORTS, _TABLES, _EXPORTS, _START = 2, 4, 7, 8
_FUNCTION = 0
_MOST_TABLES = 16
_MOST_ELEMENTS = 100_000
"""Of a table; each takes 8 bytes."""
_PREFIX = b"ozzie:"
_BY_ITSELF = (b"_initialize", b"__wasm_call_ctors", b"hs_init")
"""Exports that Extism calls by itself."""
_OF_EXTISM = b"extism:host/env"
_OURS = b"extism:host/user"
_OFFERED = frozenset(
    {
        *(b"alloc", b"free", b"length", b"length_unsafe", b"load_u8", b"load_u64", b"store_u8", b"store_u64", b"reset"),
        *(b"input_length", b"input_offset", b"input_load_u8", b"input_load_u64", b"output_set", b"error_set"),
    }
)
_REFERENCES = (0x6F, 0x70)
"""The types `externref` and `funcref`."""


class BadCode(ValueError):
    """The code is no module that a plugin may have; the text is for its author."""


def prepared(code: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return a module in a form that does nothing by itself, and the exports that have to be called first, in order.
    Raises BadCode."""
    if not code.startswith(_HEADER):
        raise BadCode("it is no module of WebAssembly 1.")
    sections = [*_sections(code)]
    first: list[bytes] = []
    start = next((payload for kind, payload in sections if kind == _START), None)
    exports = next((_exports(payload) for kind, payload in sections if kind == _EXPORTS), [])
    if any(name.startswith(_PREFIX) for name, _, _ in exports):
        raise BadCode('no function of a plugin has a name that begins with "ozzie:".')
    renamed = [(_PREFIX + name if name in _BY_ITSELF else name, kind, index) for name, kind, index in exports]
    if start is not None:
        renamed.append((_PREFIX + b"start", _FUNCTION, _Reader(start).number()))
        first.append(_PREFIX + b"start")
    first += [_PREFIX + name for name in _BY_ITSELF if any(name == each for each, _, _ in exports)]
    out = BytesIO()
    out.write(_HEADER)
    has_exports = any(kind == _EXPORTS for kind, _ in sections)
    for kind, payload in sections:
        if kind == _IMPORTS:
            payload = _imported(payload)
        if kind == _TABLES:
            payload = _limited(payload)
        if kind == _EXPORTS:
            payload = _exported(renamed)
        if kind == _START:
            if has_exports:
                continue
            kind, payload = _EXPORTS, _exported(renamed)  # the place of exports is right before that of the start
        out.write(bytes([kind]) + _leb(len(payload)) + payload)
    return out.getvalue(), tuple(name.decode() for name in first)


class _Reader:
    """Reads numbers and bytes of the binary format, and finds out if they end too early."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    @property
    def is_done(self) -> bool:
        return self.at >= len(self._content)

    def byte(self) -> int:
        (found,) = self.bytes(1)
        return found

    def bytes(self, count: int) -> bytes:
        found = self._content[self.at : self.at + count]
        if len(found) < count:
            raise BadCode("it ends too early.")
        self.at += count
        return found

    def number(self) -> int:
        """Read an unsigned number in LEB128, of at most 64 bits."""
        found = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return found
        raise BadCode("a number in it is too long.")


def _sections(code: bytes) -> Iterator[tuple[int, bytes]]:
    reader = _Reader(code)
    reader.bytes(len(_HEADER))
    seen: set[int] = set()
    while not reader.is_done:
        kind, size = reader.byte(), reader.number()
        if kind and kind in seen:
            raise BadCode("a section of it comes twice.")
        seen.add(kind)
        yield kind, reader.bytes(size)


def _imported(payload: bytes) -> bytes:
    """Return the section of imports without those of Extism's functions that are not offered. Raises BadCode for them,
    and for whatever is no function: nothing else can be had."""
    reader = _Reader(payload)
    count = reader.number()
    out = bytearray(_leb(count))
    for _ in range(count):
        module, name, kind = reader.bytes(reader.number()), reader.bytes(reader.number()), reader.byte()
        if kind != _FUNCTION:
            raise BadCode("it imports something else than functions.")
        if module == _OF_EXTISM and name not in _OFFERED:
            raise BadCode(f"it imports {name.decode(errors='replace')[:50]} of Extism, which Ozzie does not offer.")
        if (module, name) == (_OF_EXTISM, b"error_set"):
            module, name = _OURS, ERROR_SET.encode()
        out += _leb(len(module)) + module + _leb(len(name)) + name + bytes([kind]) + _leb(reader.number())
    return bytes(out)


def _exports(payload: bytes) -> list[tuple[bytes, int, int]]:
    reader = _Reader(payload)
    return [(reader.bytes(reader.number()), reader.byte(), reader.number()) for _ in range(reader.number())]


def _exported(exports: list[tuple[bytes, int, int]]) -> bytes:
    entries = (_leb(len(name)) + name + bytes([kind]) + _leb(index) for name, kind, index in exports)
    return _leb(len(exports)) + b"".join(entries)


def _limited(payload: bytes) -> bytes:
    """Return the section of tables with a limit for each. Raises BadCode for a table that is larger from the start, and
    for one in a form of later versions."""
    reader = _Reader(payload)
    count = reader.number()
    if count > _MOST_TABLES:
        raise BadCode(f"it has more than {_MOST_TABLES} tables.")
    out = _leb(count)
    for _ in range(count):
        reference, flags = reader.byte(), reader.byte()
        if reference not in _REFERENCES or flags > 1:
            raise BadCode("it has a table in a form that Ozzie does not know.")
        least = reader.number()
        most = reader.number() if flags else _MOST_ELEMENTS
        if least > _MOST_ELEMENTS:
            raise BadCode(f"it has a table of more than {_MOST_ELEMENTS:,} elements.")
        out += bytes([reference, 1]) + _leb(least) + _leb(min(most, _MOST_ELEMENTS))
    return out


def _leb(number: int) -> bytes:
    """Write an unsigned number in LEB128."""
    out = bytearray()
    while True:
        byte, number = number & 0x7F, number >> 7
        out.append(byte | (0x80 if number else 0))
        if not number:
            return bytes(out)
