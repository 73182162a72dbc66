"""Which pictures of a conversation a request shows: the latest that fit, to a model that can see them."""

from collections.abc import Sequence
from dataclasses import replace

from ozzie_server_ext.domain.pictures import MAX_SHOWN_BYTES, Picture
from ozzie_server_ext.models.driver import ChatMessage


def with_latest_pictures(messages: Sequence[ChatMessage], *, sees: bool) -> tuple[ChatMessage, ...]:
    """The messages, where a picture that is not shown is named instead: a model that is not told takes it for read."""
    room = MAX_SHOWN_BYTES if sees else 0
    found: list[ChatMessage] = []
    for message in reversed(messages):
        kept: list[Picture] = []
        left: list[str] = []
        for picture in message.pictures:
            if picture.size <= room:
                room -= picture.size
                kept.append(picture)
            else:
                left.append(picture.path)
        if left:
            why = "was shown with this message, and is not shown again" if sees else "belongs here; you can't see it"
            notes = "\n".join(f"[The picture {path} {why}.]" for path in left)
            message = replace(message, content=f"{message.content}\n\n{notes}", pictures=tuple(kept))
        found.append(message)
    return tuple(reversed(found))
