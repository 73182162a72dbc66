"""Which pictures of a conversation a request shows: the latest that fit, to a model that can see them."""

from collections.abc import Sequence
from dataclasses import replace

from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.domain.pictures import MAX_PICTURES, MAX_SHOWN_BYTES, Picture
from ozzie_server_ext.models.driver import ChatMessage

ABSENT = "does not exist"
NOT_SHOWN = "belongs to this message, and is not shown"
BEFORE = "was shown with this message, and is not shown again"
AGAIN = "belongs to this message, too, and is shown below"
UNSEEN = "belongs to this message; you can't see it"


def with_notes(text: str, paths: Sequence[str], what: str) -> str:
    """A message's text, with a line for each picture that is not beside it: a model that is not told takes it for
    seen, or guesses."""
    return "\n\n".join([text, "\n".join(f"[The picture {path} {what}.]" for path in paths)]) if paths else text


def with_latest_pictures(messages: Sequence[ChatMessage], *, sees: bool) -> tuple[ChatMessage, ...]:
    """The messages with the latest pictures, up to the first that does not fit any more; each content once."""
    room, places = MAX_SHOWN_BYTES, MAX_PICTURES if sees else 0
    shown: set[BlobRef] = set()
    found: list[ChatMessage] = []
    for message in reversed(messages):
        kept: list[Picture] = []
        notes: list[tuple[str, str]] = []
        for picture in reversed(message.pictures):
            if picture.ref in shown:
                notes.append((picture.path, AGAIN))
            elif places and picture.size <= room:
                room, places = room - picture.size, places - 1
                shown.add(picture.ref)
                kept.append(picture)
            else:
                places = 0
                notes.append((picture.path, BEFORE if sees else UNSEEN))
        for path, what in reversed(notes):
            message = replace(message, content=with_notes(message.content, [path], what))
        found.append(replace(message, pictures=tuple(reversed(kept))) if message.pictures else message)
    return tuple(reversed(found))
