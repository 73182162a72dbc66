"""What counts as the address of a server, in the configuration, the environment and a cell alike."""

from urllib.parse import urlsplit


def is_address(text: str) -> bool:
    """Whether `text` is an http or https address with a host."""
    # First, because urlsplit drops line breaks and tabs without a word.
    if " " in text or not text.isprintable():
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
