"""The text of every reply that is still being written: all of it for those who join late (DESIGN §2.2), and what has
not been handed over yet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from ozzie_server_ext.domain.errors import Bug
from ozzie_server_ext.domain.events import Event, MessageCompleted, TaskCancelled, TaskFailed, TaskSucceeded, Transient
from ozzie_server_ext.domain.ids import ReplyId, SessionId, TaskId


@dataclass(slots=True)
class OpenReply:
    """A reply between its first delta and its `message.completed`. Offsets count characters of its whole text."""

    reply_id: ReplyId
    session_id: SessionId | None
    task_id: TaskId | None
    length: int = 0
    phase: str = ""
    was_reset: bool = False
    _pieces: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def add(self, offset: int, phase: str, content: str) -> None:
        """Take a delta; one that overlaps what is known replaces it from its offset on."""
        if offset < self.length:
            self._pieces = [self.text[:offset]]
        self._pieces.append(content)
        self.length = offset + len(content)
        self.phase = phase

    def reset(self) -> None:
        self._pieces.clear()
        self.length = 0
        self.was_reset = True

    def so_far(self) -> Iterator[Transient]:
        """What brings somebody up to date who may have seen nothing of the reply, or some of it."""
        if self.was_reset:
            yield Transient(
                type="reply.reset",
                session_id=self.session_id,
                task_id=self.task_id,
                payload={"reply_id": self.reply_id},
            )
        if self.length:
            yield Transient(
                type="reply.delta",
                session_id=self.session_id,
                task_id=self.task_id,
                payload={"reply_id": self.reply_id, "offset": 0, "phase": self.phase, "content": self.text},
            )


class OpenReplies:
    """Follows deltas and facts, and so knows the replies that are being written."""

    def __init__(self) -> None:
        self._open: dict[ReplyId, OpenReply] = {}

    def __iter__(self) -> Iterator[OpenReply]:
        return iter(self._open.values())

    def heard(self, transient: Transient) -> None:
        """Take a delta or a reset; other transients have no memory.

        Raises Bug for a delta that leaves a gap: whoever sends it lost text.
        """
        if transient.type not in {"reply.delta", "reply.reset"}:
            return
        payload = transient.payload
        reply_id = ReplyId(cast(str, payload["reply_id"]))
        reply = self._open.get(reply_id) or OpenReply(reply_id, transient.session_id, transient.task_id)
        if transient.type == "reply.reset":
            reply.reset()
        else:
            offset = cast(int, payload["offset"])
            if not 0 <= offset <= reply.length:
                raise Bug(f"A delta of reply {reply_id} starts at {offset}; {reply.length} characters are known.")
            reply.add(offset, cast(str, payload["phase"]), cast(str, payload["content"]))
        self._open[reply_id] = reply

    def recorded(self, events: Sequence[Event]) -> None:
        """Let go of the replies that these facts end: their own completion, or the end of their task."""
        for event in events:
            match event.body:
                case MessageCompleted(reply_id=reply_id):
                    self._open.pop(reply_id, None)
                case TaskSucceeded() | TaskFailed() | TaskCancelled():
                    over = [reply.reply_id for reply in self if reply.task_id == event.task_id]
                    for reply_id in over:
                        del self._open[reply_id]
                case _:
                    pass


class HeldText:
    """Deltas that wait to be handed over, those of one reply joined."""

    def __init__(self) -> None:
        self._first: dict[str, Transient] = {}
        self._contents: dict[str, list[str]] = {}
        self._ends: dict[str, int] = {}

    def add(self, delta: Transient) -> bool:
        """Put `delta` behind what is held of its reply; False where it does not go on there, and is not taken."""
        payload = delta.payload
        reply_id, offset = cast(str, payload["reply_id"]), cast(int, payload["offset"])
        content = cast(str, payload["content"])
        if reply_id not in self._first:
            self._first[reply_id] = delta
            self._contents[reply_id] = []
        elif offset != self._ends[reply_id]:
            return False
        self._contents[reply_id].append(content)
        self._ends[reply_id] = offset + len(content)
        return True

    def take(self) -> tuple[Transient, ...]:
        """One delta for each reply; nothing is held afterwards."""
        found = tuple(
            replace(first, payload={**first.payload, "content": "".join(self._contents[reply_id])})
            for reply_id, first in self._first.items()
        )
        self._first.clear()
        self._contents.clear()
        self._ends.clear()
        return found
