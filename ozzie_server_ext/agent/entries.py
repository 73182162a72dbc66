"""What a conversation consists of, and how a model reads it: messages of the user, rounds, pictures, updates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from zlib import crc32

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.events import SessionForked
from ozzie_server_ext.domain.ids import BlobRef, TaskId
from ozzie_server_ext.domain.messages import MAX_PICTURES, MAX_SHOWN_BYTES, Picture
from ozzie_server_ext.models.driver import ChatMessage

ABSENT = "does not exist"
NOT_SHOWN = "belongs to this message, and is not shown"
BEFORE = "was shown with this message, and is not shown again"
AGAIN = "belongs to this message, too, and is shown below"
UNSEEN = "belongs to this message; you can't see it"


def with_notes(text: str, paths: Sequence[str], what: str) -> str:
    """Return a message's text with a line for each picture that is not shown: otherwise a model takes it for seen, or
    guesses."""
    return "\n\n".join([text, "\n".join(f"[The picture {path} {what}.]" for path in paths)]) if paths else text


def note_of(fork: SessionForked) -> str:
    """Return what the model of a fork has to know that its history does not tell: what stays done. Empty if nothing.

    Names and numbers only: what was said in turns that are no part of the fork may have labels that it does not.
    """
    if not fork.done:
        return ""
    where = f"after its turn {fork.turn}" if fork.turn else "at an earlier point"
    calls = ", ".join(each.tool if each.calls == 1 else f"{each.tool} {each.calls} times" for each in fork.done)
    return (
        f"[This session was forked from another one {where}. The calls that were made there afterwards are not undone: "
        f"{calls}. Files are as they are now, so read them again before you rely on what you have read.]"
    )


def with_latest_pictures(messages: Sequence[ChatMessage], *, sees: bool) -> tuple[ChatMessage, ...]:
    """Return the messages with the latest pictures, each content once, as many as fit."""
    room, count = MAX_SHOWN_BYTES, MAX_PICTURES if sees else 0
    shown: set[BlobRef] = set()
    found: list[ChatMessage] = []
    for message in reversed(messages):
        kept: list[Picture] = []
        notes: list[tuple[str, str]] = []
        for picture in reversed(message.pictures):
            if picture.ref in shown:
                notes.append((picture.path, AGAIN))
            elif count and picture.size <= room:
                room, count = room - picture.size, count - 1
                shown.add(picture.ref)
                kept.append(picture)
            else:
                count = 0
                notes.append((picture.path, BEFORE if sees else UNSEEN))
        for path, what in reversed(notes):
            message = replace(message, content=with_notes(message.content, [path], what))
        found.append(replace(message, pictures=tuple(reversed(kept))) if message.pictures else message)
    return tuple(reversed(found))


class UserMessage(msgspec.Struct, frozen=True):
    """A message of the user's. `is_update`: it came while its turn was running. `note`: what models read before it.
    `sources`: the outside ones that it was made from."""

    task_id: TaskId | None
    text: str
    pictures: tuple[Picture, ...] = ()
    is_update: bool = False
    note: str = ""
    sources: tuple[str, ...] = ()


def first_of(begins: Mapping[int, TaskId | None], count: int, most: int) -> int:
    """Return the index of the first of `count` messages to send, at most `most`: one with which a turn begins. `begins`
    are those, with their tasks.

    It may be one in the first quarter of those that fit, chosen by its task: then the next turns choose the same one,
    and their requests begin as this one did, of which providers keep the beginning (prompt caching), as our store does.
    A turn that is longer than `most` is sent whole.
    """
    fitting = [begin for begin in begins if begin >= count - most]
    if count <= most or not fitting:
        return fitting[0] if fitting else max(begins, default=0)
    early = [begin for begin in fitting if begin <= count - most + most // 4]
    return min(early or fitting[:1], key=lambda begin: crc32(str(begins[begin]).encode()))


class History(msgspec.Struct, frozen=True):
    """The messages that a model reads. `lacks_beginning`: earlier ones were left out."""

    messages: tuple[ChatMessage, ...]
    lacks_beginning: bool


class EarlierTurn(msgspec.Struct, frozen=True):
    """A turn before the running one, as models read it."""

    task_id: TaskId
    messages: tuple[ChatMessage, ...]


class Updates:
    """The updates of all tasks: those that a model request has included, and those still pending."""

    def __init__(self) -> None:
        self._pending: dict[TaskId | None, list[UserMessage]] = {}
        self._included: Counter[TaskId | None] = Counter()

    def add(self, message: UserMessage) -> None:
        self._pending.setdefault(message.task_id, []).append(message)

    def take(self, task_id: TaskId | None, count: int) -> list[UserMessage]:
        """Return the updates that a request with the first `count` of them includes for the first time."""
        pending = self._pending.get(task_id, [])
        fresh = pending[: max(count - self._included[task_id], 0)]
        del pending[: len(fresh)]
        self._included[task_id] += len(fresh)
        return fresh

    def pending(self, task_id: TaskId | None) -> tuple[UserMessage, ...]:
        return tuple(self._pending.get(task_id, ()))

    def count(self, task_id: TaskId | None) -> int:
        return self._included[task_id] + len(self._pending.get(task_id, ()))


def append_user_text(messages: list[ChatMessage], text: str) -> None:
    """Append to the last message if it is the user's, since some providers refuse two in a row; else add a message."""
    last = messages[-1] if messages else None
    if last is not None and last.role == "user":
        messages[-1] = replace(last, content=f"{last.content}\n\n{text}")
    else:
        messages.append(ChatMessage(role="user", content=text))
