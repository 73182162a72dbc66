"""Where content came from: labels on everything from outside the user and their project.

A label is a kind of place, a source one place. Whatever is made from labelled content has the union of its labels and
sources; only a person clears them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

MOST_SOURCES = 32
"""Per content. The rest is summed up as `label:`, an unknown place of that kind, which matches no rule that names
places."""
MAX_SOURCE = 300
"""In characters."""


class Label(StrEnum):
    """The kinds of places outside. Files of the project are the user's own and have no label by themselves."""

    WEB = "web"
    FILE = "file"
    MCP = "mcp"
    PLUGIN = "plugin"
    CHANNEL = "channel"
    REMOTE = "remote"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Labels and sources. A source is "label:place", such as "web:example.org", "file:/data/a.csv", "mcp:tickets",
    "output:analysis.ipynb", or "web:" for an unknown place. Both are sorted and unique, and each label has a source.
    Unknown labels, as of a newer Ozzie, are kept."""

    labels: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @classmethod
    def of(cls, label: Label, places: Iterable[str] = ()) -> "Content":
        """Return content from places of one kind."""
        return cls(labels=(label.value,), sources=_bounded(_source(label, place) for place in places)).completed()

    @classmethod
    def from_sources(cls, sources: tuple[str, ...]) -> "Content":
        """Return content with these sources and their labels."""
        labels = tuple(sorted({source.partition(":")[0] for source in sources}))
        return cls(labels=labels, sources=tuple(sorted(set(sources)))) if sources else CLEAN

    @classmethod
    def named(cls, words: Iterable[str]) -> "Content":
        """Return content from labels ("web") and sources ("web:example.org"). Raises ValueError for other words."""
        found = CLEAN
        for word in words:
            label, _, place = word.partition(":")
            if label not in list(Label):
                raise ValueError(
                    f'"{word}" is no label and no source. Labels are {", ".join(Label)}; a source is a label and a '
                    'place, such as "web:example.org".'
                )
            found |= cls.of(Label(label), [place])
        return found

    def __or__(self, other: "Content") -> "Content":
        """Return the provenance of something made from both."""
        if other == self or not (other.labels or other.sources):
            return self
        mine, theirs = self.completed(), other.completed()
        labels = tuple(sorted({*mine.labels, *theirs.labels}))
        return Content(labels=labels, sources=_bounded((*mine.sources, *theirs.sources)))

    def completed(self) -> "Content":
        """Return the same content, with an unknown place as the source of each label that has none."""
        named = {source.partition(":")[0] for source in self.sources}
        unknown = [f"{label}:" for label in self.labels if label not in named]
        return Content(labels=self.labels, sources=tuple(sorted({*self.sources, *unknown}))) if unknown else self

    @classmethod
    def of_all(cls, contents: Iterable["Content"]) -> "Content":
        """Return the provenance of something made from all of these."""
        found = CLEAN
        for content in contents:
            found = found | content
        return found

    def __bool__(self) -> bool:
        """Whether anything of it came from outside."""
        return bool(self.labels)


CLEAN = Content()
"""Content of the user and their project alone."""


class Provenance:
    """The content that a piece of work has read so far. It only grows, so that any end of the work, even a failure, can
    be labelled with everything that it may quote."""

    def __init__(self) -> None:
        self.content = CLEAN

    def add(self, content: Content) -> None:
        """Record that this was read."""
        self.content = self.content | content


def _source(label: Label, place: str) -> str:
    """A source that is too long becomes the unknown place: a shortened name would be another place's."""
    source = f"{label}:{place}"
    return source if len(source) <= MAX_SOURCE else f"{label}:"


def _bounded(sources: Iterable[str]) -> tuple[str, ...]:
    found = sorted(set(sources))
    if len(found) <= MOST_SOURCES:
        return tuple(found)
    unknown = {f"{source.partition(':')[0]}:" for source in found}
    kept = [source for source in found if source not in unknown][: MOST_SOURCES - len(unknown)]
    return tuple(sorted({*unknown, *kept}))
