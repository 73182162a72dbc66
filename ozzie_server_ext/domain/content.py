"""Where content came from: labels on all that neither the user nor their project said.

A label is the kind of place, a source the place itself. What is made from labelled content bears the union of its
labels and sources; only a person clears them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

MOST_SOURCES = 32
"""On one thing. Of more, each kind's `label:` stands for the rest: a place of that kind that nobody knows, which no
rule that names places takes for one of them."""
MAX_SOURCE = 300
"""In characters."""


class Label(StrEnum):
    """The kinds of places outside. What stands in the project is the user's own, and bears none by itself."""

    WEB = "web"
    FILE = "file"
    MCP = "mcp"
    CHANNEL = "channel"
    REMOTE = "remote"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What something is made from: labels, and sources as "label:place", such as "web:example.org", "file:/data/a.csv",
    "mcp:tickets", "output:analysis.ipynb"; "web:" for a place that nobody knows. Both are sorted, each once, and each
    label has a source. Labels that a newer Ozzie wrote stay as they are."""

    labels: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @classmethod
    def of(cls, label: Label, places: Iterable[str] = ()) -> "Content":
        """Content from these places of that kind."""
        return cls(labels=(label.value,), sources=_bounded(_source(label, place) for place in places)).completed()

    @classmethod
    def from_sources(cls, sources: tuple[str, ...]) -> "Content":
        """Content from sources as content bears them."""
        labels = tuple(sorted({source.partition(":")[0] for source in sources}))
        return cls(labels=labels, sources=tuple(sorted(set(sources)))) if sources else CLEAN

    @classmethod
    def named(cls, words: Iterable[str]) -> "Content":
        """Content from what these words name, labels ("web") or sources ("web:example.org").

        Raises ValueError for a word that is neither.
        """
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
        """What is made from both."""
        if other == self or not (other.labels or other.sources):
            return self
        mine, theirs = self.completed(), other.completed()
        labels = tuple(sorted({*mine.labels, *theirs.labels}))
        return Content(labels=labels, sources=_bounded((*mine.sources, *theirs.sources)))

    def completed(self) -> "Content":
        """The same, where a label without a source has that of a place that nobody knows."""
        named = {source.partition(":")[0] for source in self.sources}
        unknown = [f"{label}:" for label in self.labels if label not in named]
        return Content(labels=self.labels, sources=tuple(sorted({*self.sources, *unknown}))) if unknown else self

    @classmethod
    def of_all(cls, contents: Iterable["Content"]) -> "Content":
        """What is made from all of these."""
        found = CLEAN
        for content in contents:
            found = found | content
        return found

    def __bool__(self) -> bool:
        """Whether anything of it came from outside."""
        return bool(self.labels)


CLEAN = Content()
"""What nobody but the user and their project said."""


class Provenance:
    """The content that one piece of work has read so far. It only grows, so that whatever the work comes to, a result,
    a failure or no end at all, can be given the labels of what it may quote."""

    def __init__(self) -> None:
        self.content = CLEAN

    def add(self, content: Content) -> None:
        """Note that this was read."""
        self.content = self.content | content


def _source(label: Label, place: str) -> str:
    """One that is too long is told as one of that kind that nobody knows: a cut name is another place's."""
    source = f"{label}:{place}"
    return source if len(source) <= MAX_SOURCE else f"{label}:"


def _bounded(sources: Iterable[str]) -> tuple[str, ...]:
    found = sorted(set(sources))
    if len(found) <= MOST_SOURCES:
        return tuple(found)
    unknown = {f"{source.partition(':')[0]}:" for source in found}
    kept = [source for source in found if source not in unknown][: MOST_SOURCES - len(unknown)]
    return tuple(sorted({*unknown, *kept}))
