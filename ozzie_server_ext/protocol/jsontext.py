"""Strict JSON at every boundary.

Refused: NaN and infinities, duplicate keys, more than 64 levels, text over a size limit, invalid UTF-8. A lone
surrogate breaks SQLite, UTF-8 and the hash: it is refused, or replaced by U+FFFD in text of a model, where losing the
whole answer would be worse.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NoReturn, cast

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject

MAX_DEPTH = 64
MAX_BYTES = 1 << 20

_AS_IT_IS, _SORTED = (
    json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=sort, separators=(",", ":"))
    for sort in (False, True)
)
"""Made once, as `json.dumps` makes one for each call."""


class InvalidJson(InputError):
    """The text is not JSON that Ozzie accepts; the message says why."""

    code = "input.json"


def loads(
    text: bytes | str,
    *,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
    surrogates: Literal["refuse", "repair"] = "refuse",
) -> Json:
    """Return the JSON value in `text`. Raises InvalidJson."""
    raw = text if isinstance(text, str) else _decode(text, max_bytes)
    # A character takes at least a byte: a cheap bound first, the exact one only near it.
    if len(raw) > max_bytes or (len(raw) * 4 > max_bytes and len(raw.encode("utf-8", "surrogatepass")) > max_bytes):
        raise InvalidJson(f"The JSON text is larger than {max_bytes:,} bytes.")
    try:
        value = cast(Json, _DECODER.decode(raw))
    except InvalidJson:
        raise
    except RecursionError:
        raise InvalidJson(f"The JSON text is nested deeper than {max_depth} levels.") from None
    except ValueError as error:
        # Python's error about a long integer names a setting of its own.
        why = f"Not JSON: {error}." if isinstance(error, json.JSONDecodeError) else "A number has too many digits."
        raise InvalidJson(why) from None
    if raw.count("[") + raw.count("{") > max_depth:
        _check_depth(value, max_depth)
    # Lone surrogates come as escapes; a str may also contain them.
    if "\\u" in raw or not raw.isascii():
        value = _check_surrogates(value, surrogates)
    return value


def loads_object(
    text: bytes | str, *, max_bytes: int = MAX_BYTES, surrogates: Literal["refuse", "repair"] = "refuse"
) -> JsonObject:
    """Return the JSON object in `text`. Raises InvalidJson, also for any other value."""
    value = loads(text, max_bytes=max_bytes, surrogates=surrogates)
    if not isinstance(value, dict):
        raise InvalidJson("Expected a JSON object.")
    return value


def dumps(value: Any) -> str:
    """Return compact JSON text. Raises InvalidJson for what JSON can't express: NaN, lone surrogates, other types."""
    return canonical_bytes(value, sort=False).decode()


def canonical_bytes(value: Any, *, sort: bool = True) -> bytes:
    """Return the canonical JSON of a value, which is hashed: sorted keys, no spaces, UTF-8, as few escapes as possible.
    Raises InvalidJson."""
    try:
        return (_SORTED if sort else _AS_IT_IS).encode(value).encode()
    except (ValueError, TypeError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise InvalidJson(f"Can't be written as JSON: {error}.") from None


LONG_TEXT = 512
"""From how many characters on a text is a part by itself."""


def canonical_parts(
    value: JsonObject, name: str, text: str = "", *, write: Callable[[Json], bytes] = canonical_bytes
) -> list[bytes]:
    """Return the canonical JSON of an object in parts: up to the items of its list `name`, each item, and the rest. An
    item with a long text in its field `text` is three parts (`parts_around`). `write` may write items faster than
    `canonical_bytes` does, to the same. Raises InvalidJson."""
    before = canonical_bytes({key: field for key, field in value.items() if key < name})
    after = canonical_bytes({key: field for key, field in value.items() if key > name})
    begin = before[:-1] + (b"," if len(before) > 2 else b"") + canonical_bytes(name) + b":["
    end = b"]" + (b"," + after[1:] if len(after) > 2 else b"}")
    found = value[name]
    parts = [begin]
    for index, item in enumerate(found if isinstance(found, list) else []):
        written = b"," * (index > 0) + write(item)
        parts += parts_around(written, item.get(text)) if isinstance(item, dict) else [written]
    return [*parts, end]


def parts_around(written: bytes, text: Json) -> list[bytes]:
    """Split JSON around a long text in it, so that the text is a part by itself, which other JSON can have, too. Return
    the JSON whole if the text is short, or not in it."""
    if not isinstance(text, str) or len(text) < LONG_TEXT:
        return [written]
    parts = written.partition(canonical_bytes(text))
    return [*parts] if parts[1] else [written]


def texts_in(value: Json) -> Iterator[str]:
    """Yield the texts and numbers among the values of a JSON value, in order."""
    match value:
        case dict():
            for each in value.values():
                yield from texts_in(each)
        case list():
            for each in value:
                yield from texts_in(each)
        case None | bool():
            pass
        case _:
            yield str(value)


def repair_text(text: str) -> str:
    """Return `text` with each lone surrogate replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _decode(text: bytes, max_bytes: int) -> str:
    if len(text) > max_bytes:
        raise InvalidJson(f"The JSON text is larger than {max_bytes:,} bytes.")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise InvalidJson(f"The text is not UTF-8: byte {error.start} is wrong.") from None


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidJson(f'The key "{key[:80]}" stands twice in one object.')
        found[key] = value
    return found


def _constant(name: str) -> NoReturn:
    raise InvalidJson(f"{name} is not JSON.")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise InvalidJson(f"The number {digits[:40]} is too large.")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_finite)


def _check_depth(value: Json, max_depth: int) -> None:
    level: list[Json] = [value]
    for _ in range(max_depth):
        below: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return
        level = below
    if any(isinstance(item, dict | list) for item in level):
        raise InvalidJson(f"The JSON text is nested deeper than {max_depth} levels.")


def _check_surrogates(value: Json, surrogates: Literal["refuse", "repair"]) -> Json:
    if isinstance(value, str):
        fixed = repair_text(value)
        if fixed != value and surrogates == "refuse":
            raise InvalidJson("The text contains half of a surrogate pair, which is no character.")
        return fixed
    if isinstance(value, list):
        return [_check_surrogates(item, surrogates) for item in value]
    if isinstance(value, dict):
        return {
            cast(str, _check_surrogates(key, surrogates)): _check_surrogates(item, surrogates)
            for key, item in value.items()
        }
    return value
