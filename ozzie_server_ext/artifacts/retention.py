"""Which contents of artifacts go first, and when (ADR 28): rules alone, nothing is erased here."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from ozzie_server_ext.domain.artifacts import REPLACED_BY, Artifact
from ozzie_server_ext.domain.ids import ArtifactId


class Worth(IntEnum):
    """How much is lost with a content, the least first."""

    OLD = 1
    """There is a newer version."""
    RESULT = 2
    """What a call gave back at length, or what was shown to somebody who was asked: its beginning stands in the log."""
    OLDER_UNDO = 3
    """What a call replaced, and a later call too: an earlier state of a file."""
    CURRENT = 4
    """The newest version of all else, such as the state of a file before its last change."""


def worth_of(artifact: Artifact) -> Worth:
    """Superseded before current ones, and what undoes a change behind what can be made again."""
    is_old = artifact.superseded_by is not None
    if REPLACED_BY in artifact.meta:
        return Worth.OLDER_UNDO if is_old else Worth.CURRENT
    if is_old:
        return Worth.OLD
    return Worth.RESULT if artifact.call_id is not None and artifact.kind in ("log", "json") else Worth.CURRENT


def is_too_old(artifact: Artifact, now: datetime, days: int) -> bool:
    """Whether a content goes for its age. One that undoes a change of a file never does, nor the newest version of
    anything but a result; an old version is kept for `days` from when it was replaced. Notes stay in all versions: an
    old one may be the newest of a session that was forked then."""
    if worth_of(artifact) > Worth.RESULT or artifact.kind == "markdown":
        return False
    return now - (artifact.superseded_at or artifact.ts) > timedelta(days=days)


@dataclass(frozen=True, slots=True)
class Content:
    """One content, with the artifacts that have it: their ids, and whether all of them may be erased now."""

    size: int
    artifacts: tuple[ArtifactId, ...]
    order: tuple[Worth, int]
    may_go: bool


class Contents:
    """All contents that are there, noted artifact by artifact. What several artifacts have is there once."""

    def __init__(self) -> None:
        self._by_hash: dict[str, Content] = {}

    def note(self, artifact: Artifact, *, may_go: bool) -> None:
        there = self._by_hash.get(artifact.hash)
        order = (worth_of(artifact), artifact.position)
        self._by_hash[artifact.hash] = Content(
            size=artifact.size,
            artifacts=(*(there.artifacts if there else ()), artifact.artifact_id),
            order=max(there.order, order) if there else order,
            may_go=may_go and (there is None or there.may_go),
        )

    def beyond(self, most_bytes: int) -> Iterable[tuple[ArtifactId, ...]]:
        """The artifacts of each content that has to go, so that there are at most `most_bytes` together."""
        too_many = sum(content.size for content in self._by_hash.values()) - most_bytes
        for content in sorted(self._by_hash.values(), key=lambda content: content.order):
            if too_many <= 0:
                return
            if content.may_go and content.size:
                too_many -= content.size
                yield content.artifacts
