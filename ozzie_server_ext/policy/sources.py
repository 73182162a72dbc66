"""Sources of content from outside: patterns for them in rules, and their names for people."""

from pathlib import PurePosixPath

import msgspec

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.policy.patterns import Glob, HostPattern, SequenceGlob, canonical_host
from ozzie_server_ext.render.text import visible_label

ANY = "*"
_KINDS = ", ".join(Label)
_LABEL_NAMES: dict[str, str] = {
    Label.WEB: "web content",
    Label.FILE: "a file outside the project",
    Label.MCP: "what a server of tools said",
    Label.PLUGIN: "what a plugin said",
    Label.CHANNEL: "a message from a channel",
    Label.REMOTE: "what a remote agent said",
    Label.OUTPUT: "what a program printed",
}
_MOST_PLACES = 3


class SourcePattern(msgspec.Struct, frozen=True):
    """A pattern for sources of content. An empty `label` means any source, `place` None any place of that label."""

    label: str
    place: HostPattern | SequenceGlob | Glob | None

    @classmethod
    def of(cls, pattern: str) -> "SourcePattern":
        """Raises ValueError with a message for the author of the pattern."""
        if pattern == ANY:
            return cls("", None)
        label, colon, place = pattern.partition(":")
        if not colon or label not in list(Label) or not place:
            raise ValueError(
                f'"{pattern}" is not a source: write the kind and the place, as in "web:example.org", or "*". '
                f"Kinds are {_KINDS}"
            )
        if place == ANY:
            return cls(label, None)
        if label == Label.WEB:
            return cls(label, HostPattern.of(place))
        if label == Label.FILE:
            if not place.startswith("/"):
                raise ValueError(f'"{pattern}" is not a source: a file is written from the root, as in "file:/data/**"')
            return cls(label, SequenceGlob.of(PurePosixPath(place).parts[1:]))
        return cls(label, Glob.of(place))

    def matches(self, source: str, *, sure: bool) -> bool:
        """Whether a source matches. An unknown place matches unless `sure` is set."""
        if not self.label:
            return True
        label, _, place = source.partition(":")
        if label != self.label:
            return False
        match self.place:
            case None:
                return True
            case HostPattern():
                host = canonical_host(place)
                return not sure if host is None else self.place.matches(host)
            case SequenceGlob():
                parts = path_parts(place.removeprefix("/")) if place.startswith("/") else None
                return not sure if parts is None else self.place.matches(parts)
            case Glob():
                return self.place.matches(place) if place else not sure


def origin_text(content: Content) -> str:
    """Return the origin of content, for people: "web content (example.org, example.net, a.example and 2 more)"."""
    kinds = ", ".join(_LABEL_NAMES.get(label, label) for label in content.labels)
    places = [source.partition(":")[2] for source in content.sources if source.partition(":")[2]]
    if not places:
        return kinds
    shown = ", ".join(visible_label(place) for place in places[:_MOST_PLACES])
    left = len(content.sources) - min(len(places), _MOST_PLACES)
    return f"{kinds} ({shown}{f' and {left} more' if left else ''})"
