"""What a provider says, without our secrets: some repeat the key that they refuse, whole or in part, or what came with
it in another spelling."""

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus, unquote, urlsplit

from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.worker import Provider

MAX_DETAIL_CHARS = 600
PIECE = 8
"""So many characters of a secret in a row are part of it; fewer, such as the last four by which providers name a key,
are not."""

_MAX_READ_CHARS = 1 << 14
_MASK = "[key]"
_KEY_LIKE = re.compile(r"\b(?:sk-|pk-|AIza|gsk_|xai-)[\w-]{6,}|(?<=Bearer )[^\s,;\"']+")


def redacted(text: str, provider: Provider) -> str:
    """`text` without the provider's secrets and header values, and without what looks like a key; bounded."""
    text = text[:_MAX_READ_CHARS]
    secrets = [provider.api_key, *provider.headers.values(), unquote(urlsplit(provider.base_url).password or "")]
    if provider.oauth2 is not None:
        secrets += [provider.oauth2.client_secret, provider.oauth2.client_id]
    text = _masked(text, [spelling for secret in secrets for spelling in _spellings(secret)])
    return repair_text(_KEY_LIKE.sub(_MASK, text))[:MAX_DETAIL_CHARS]


def _spellings(secret: str) -> Iterator[str]:
    if len(secret) < 4:  # it would be found in ordinary words
        return
    yield secret
    raw = secret.encode("utf-8", "surrogatepass")
    further = [quote(raw, safe=""), quote_plus(raw), json.dumps(secret)[1:-1], html.escape(secret), raw.hex()]
    # Three ways to cut it, by what stands before; the ends depend on the neighbours.
    coded = [base64.b64encode(b"\0" * shift + raw)[4:-4].decode() for shift in range(3)]
    further += [*coded, *(text.replace("+", "-").replace("/", "_") for text in coded)]
    yield from (text for text in further if len(text) >= PIECE)


def _masked(text: str, secrets: list[str]) -> str:
    """`text` with a mask over every run of characters that stands in a secret too."""
    pieces = {secret[start : start + PIECE] for secret in secrets for start in range(max(1, len(secret) - PIECE + 1))}
    hidden = bytearray(len(text))
    for length in {len(piece) for piece in pieces}:
        for start in range(len(text) - length + 1):
            if text[start : start + length] in pieces:
                hidden[start : start + length] = b"\1" * length
    return "".join(_shown(text, hidden))


def _shown(text: str, hidden: bytearray) -> Iterator[str]:
    for run in re.finditer(rb"\x00+|\x01+", bytes(hidden)):
        yield _MASK if hidden[run.start()] else text[run.start() : run.end()]
