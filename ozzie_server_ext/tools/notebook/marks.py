"""What a cell was made from, noted in the cell itself: until a person runs it or takes the mark off (THREATS 7).

The file has a mark of its own (TL-8); this one says which cell it is, and goes with the cell where it is copied to.
"""

from collections.abc import Mapping

from ozzie_server_ext.domain.content import CLEAN, MAX_SOURCE, MOST_SOURCES, Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.jupyter.cells import Cell

OZZIE, MADE_FROM = "ozzie", "made_from"
"""The key of the cell's metadata, and the one in it that holds the sources."""


def marked(metadata: Mapping[str, Json], sources: tuple[str, ...]) -> JsonObject:
    """The metadata of a cell with these sources among those that it has."""
    if not sources:
        return dict(metadata)
    own = metadata.get(OZZIE)
    known = dict(own) if isinstance(own, dict) else {}
    both = sorted({*_sources(known.get(MADE_FROM)), *sources})[:MOST_SOURCES]
    return {**metadata, OZZIE: {**known, MADE_FROM: [*both]}}


def content_of(cell: Cell) -> Content:
    """What the cell says that it was made from. Whoever writes into it can only say more than is so."""
    metadata = cell.whole.get("metadata")
    own = metadata.get(OZZIE) if isinstance(metadata, dict) else None
    found = CLEAN
    for source in _sources(own.get(MADE_FROM) if isinstance(own, dict) else None):
        label, _, place = source.partition(":")
        found = found | Content.of(Label(label), [place])
    return found


def _sources(said: Json) -> list[str]:
    labels = {str(label) for label in Label}
    return [
        each
        for each in (said[:MOST_SOURCES] if isinstance(said, list) else ())
        if isinstance(each, str) and len(each) <= MAX_SOURCE and each.partition(":")[0] in labels
    ]
