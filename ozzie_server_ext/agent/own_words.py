"""What a person's own words name, task by task, folded from a session's events (docs/policy.md, Your own words).

A message says what to do with what was named before it. So a task has no words of its own while one of its messages may
be anybody's, and what was named before a message counts on only if all of that message was typed.
"""

from collections.abc import Iterable

from ozzie_server_ext.domain.events import (
    Erased,
    Event,
    MessageConfirmed,
    MessageReceived,
    PromptAnswered,
    SessionForked,
    TaskUpdated,
)
from ozzie_server_ext.domain.ids import MessageId, TaskId
from ozzie_server_ext.domain.messages import DELEGATED
from ozzie_server_ext.domain.toolmeta import Said


class OwnWords:
    """The fold. `said` holds for the first task: what a snapshot kept of those before it."""

    def __init__(self, said: Iterable[Said] = ()) -> None:
        self._named: dict[TaskId | None, frozenset[Said]] = {None: frozenset(said)}
        """What the confirmed messages of a task name, with what held when it came."""
        self._unconfirmed: dict[TaskId | None, set[MessageId | None]] = {}
        """The messages of a task that may be anybody's; None is one that can't be confirmed."""
        self._last: TaskId | None = None

    @property
    def said(self) -> frozenset[Said]:
        """What holds for the next task."""
        return self.of(self._last)

    def of(self, task_id: TaskId | None) -> frozenset[Said]:
        """Return what a person named for a task."""
        return frozenset() if self._unconfirmed.get(task_id) else self._named.get(task_id, frozenset())

    def apply(self, event: Event) -> None:
        match event.body:
            case MessageReceived(message_id=message_id, origin=origin):
                self._named[event.task_id] = self.said
                self._hear(event, message_id if origin.channel != DELEGATED else None)
            case TaskUpdated(message_id=message_id):
                self._hear(event, message_id)
            case PromptAnswered(message_id=message_id, text=text) if text:
                self._hear(event, message_id)
            case MessageConfirmed():
                self._confirm(event.task_id, event.body)
            case SessionForked() | Erased():  # an erased message may have been anybody's
                self._named, self._unconfirmed, self._last = {}, {}, None
            case _:
                pass

    def _hear(self, event: Event, message_id: MessageId | None) -> None:
        self._unconfirmed.setdefault(event.task_id, set()).add(None if event.labels else message_id)
        self._last = event.task_id

    def _confirm(self, task_id: TaskId | None, confirmed: MessageConfirmed) -> None:
        unconfirmed = self._unconfirmed.get(task_id, set())
        if confirmed.message_id in unconfirmed:
            unconfirmed.remove(confirmed.message_id)
            before = self._named[task_id] if confirmed.all_typed else frozenset[Said]()
            self._named[task_id] = before.union(confirmed.names)
