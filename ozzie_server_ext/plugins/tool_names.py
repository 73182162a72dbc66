"""The ids of other people's tools, and their names for models."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

MAX_NAME = 64
_MODEL_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NO_WORD = re.compile(r"[^a-z0-9]+")


def slug_of(name: str) -> str:
    """Return the part of a tool's id that stands for its owner or for the tool: small letters, digits and '_'."""
    plain = _NO_WORD.sub("_", name.lower()).strip("_") or "x"
    return plain if plain[0].isalpha() else f"n{plain}"


def slugs_of(names: Iterable[str]) -> dict[str, str]:
    """Return the slugs of one owner's tools. Those that are too alike get a hash, each of them: a new tool must not
    take over the rules for an old one."""
    named = sorted(names)
    counts = Counter(map(slug_of, named))
    slugs = {name: slug_of(name) for name in named}
    return {name: slug if counts[slug] == 1 else f"{slug}_{_hash(name)}" for name, slug in slugs.items()}


def tool_name(owner: str, tool: str) -> str:
    """Return the name of a tool for models: its owner's slug and its own name, with two '_' between, which no other
    owner's and no built-in tool's name has there. A name that providers don't take, or that is too long, gets a
    hash."""
    plain = _MODEL_NAME.sub("_", tool)
    name = f"{owner}__{plain}"
    if plain == tool and len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 9]}_{_hash(tool)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
