"""Patterns over the sources of labelled content (see `domain.content`): "web:*.example.org", "file:/data/**",
"mcp:tickets", "output:*"; "web:*" for all of a kind, "*" for all."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.policy.globs import Glob, SequenceGlob
from ozzie_server_ext.policy.hosts import HostPattern, canonical_host
from ozzie_server_ext.render.text import visible_label

ANY = "*"
_KINDS = ", ".join(Label)
_SAID: dict[str, str] = {
    Label.WEB: "web content",
    Label.FILE: "a file outside the project",
    Label.MCP: "what a server of tools said",
    Label.CHANNEL: "a message from a channel",
    Label.REMOTE: "what a remote agent said",
    Label.OUTPUT: "what a program printed",
}
_MOST_TOLD = 3


@dataclass(frozen=True, slots=True)
class SourcePattern:
    """`label` is empty where any source is meant; `place` is None where any of that label is."""

    label: str
    place: HostPattern | SequenceGlob | Glob | None

    @classmethod
    def of(cls, pattern: str) -> "SourcePattern":
        """Raises ValueError, whose words say what is wrong with it."""
        if pattern == ANY:
            return cls("", None)
        label, colon, place = pattern.partition(":")
        if not colon or label not in list(Label) or not place:
            raise ValueError(
                f'"{pattern}" is no source: write the kind and the place, as in "web:example.org", or "*". '
                f"Kinds are {_KINDS}"
            )
        if place == ANY:
            return cls(label, None)
        if label == Label.WEB:
            return cls(label, HostPattern.of(place))
        if label == Label.FILE:
            if not place.startswith("/"):
                raise ValueError(f'"{pattern}" is no source: a file is written from the root, as in "file:/data/**"')
            return cls(label, SequenceGlob.of(PurePosixPath(place).parts[1:]))
        return cls(label, Glob.of(place))

    def matches(self, source: str, *, sure: bool) -> bool:
        """Whether that source, as content bears it, is meant. One that nobody knows is where that has not to be
        sure."""
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


def sources_of(content: Content) -> tuple[str, ...]:
    """All that content came from."""
    return content.completed().sources


def told(content: Content) -> str:
    """Where it came from, for people: "web content (example.org, example.net, a.example and 2 more)"."""
    kinds = ", ".join(_SAID.get(label, label) for label in content.labels)
    places = [source.partition(":")[2] for source in content.sources if source.partition(":")[2]]
    if not places:
        return kinds
    shown = ", ".join(visible_label(place) for place in places[:_MOST_TOLD])
    left = len(content.sources) - min(len(places), _MOST_TOLD)
    return f"{kinds} ({shown}{f' and {left} more' if left else ''})"
