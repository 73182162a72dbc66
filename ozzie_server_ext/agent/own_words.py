"""What a person's own words name, task by task, folded from a session's events (docs/policy.md, Your own words).

A message says what to do with what was named before it. So a task has no words of its own while one of its messages may
be anybody's, and what was named before a message counts on only if all of that message was typed.
"""

from msgspec.structs import replace

from ozzie_server_ext.domain.events import (
    Erased,
    Event,
    MessageConfirmed,
    MessageReceived,
    PromptAnswered,
    PromptRequested,
    SessionForked,
    TaskUpdated,
)
from ozzie_server_ext.domain.ids import MessageId, PromptId, TaskId
from ozzie_server_ext.domain.messages import DELEGATED
from ozzie_server_ext.policy.decision import NO_WORDS, Reading, Words

MOST_TEXTS = 20
"""Of a person's messages that count: older ones are forgotten, and what they say costs a question."""


class OwnWords:
    """The fold. `before` holds for the first task: what a snapshot kept of those before it."""

    def __init__(self, before: Words = NO_WORDS) -> None:
        self._words: dict[TaskId | None, Words] = {None: before}
        """What the confirmed messages of a task say, with what held when it came."""
        self._own: dict[TaskId | None, Words] = {}
        """What they say alone."""
        self._unconfirmed: dict[TaskId | None, dict[MessageId | None, str]] = {}
        """The messages of a task that may be anybody's, with their texts; None is one that can't be confirmed."""
        self._last: TaskId | None = None
        self._of_servers: set[PromptId] = set()

    @property
    def now(self) -> Words:
        """What holds for the next task."""
        return self.of(self._last)

    @property
    def last_message(self) -> Words:
        """What the last task's messages say."""
        return self.message_of(self._last)

    def of(self, task_id: TaskId | None) -> Words:
        """Return what a person said for a task, and before it."""
        return NO_WORDS if self._unconfirmed.get(task_id) else self._words.get(task_id, NO_WORDS)

    def message_of(self, task_id: TaskId | None) -> Words:
        """Return what a person said for a task."""
        return NO_WORDS if self._unconfirmed.get(task_id) else self._own.get(task_id, NO_WORDS)

    def into(self, reading: Reading, task_id: TaskId | None) -> Reading:
        """Return what a call of the task is made from, with the person's own words."""
        return replace(reading, words=self.of(task_id), message=self.message_of(task_id))

    def apply(self, event: Event) -> None:
        match event.body:
            case MessageReceived(message_id=message_id, text=text, origin=origin):
                self._words[event.task_id] = self.now
                self._hear(event, message_id if origin.channel != DELEGATED else None, text)
            case TaskUpdated(message_id=message_id, text=text):
                self._hear(event, message_id, text)
            case PromptRequested(kind="server", prompt_id=prompt_id):
                self._of_servers.add(prompt_id)
            case PromptAnswered(prompt_id=prompt_id) if prompt_id in self._of_servers:
                pass  # it was said to a server, which chose the question
            case PromptAnswered(message_id=message_id, text=text) if text:
                self._hear(event, message_id, text)
            case MessageConfirmed():
                self._confirm(event.task_id, event.body)
            case SessionForked() | Erased():  # an erased message may have been anybody's
                self._words, self._own, self._unconfirmed, self._last = {}, {}, {}, None
            case _:
                pass

    def _hear(self, event: Event, message_id: MessageId | None, text: str) -> None:
        self._unconfirmed.setdefault(event.task_id, {})[None if event.labels else message_id] = text
        self._last = event.task_id

    def _confirm(self, task_id: TaskId | None, confirmed: MessageConfirmed) -> None:
        text = self._unconfirmed.get(task_id, {}).pop(confirmed.message_id, None)
        if text is None:
            return
        before = self._words.get(task_id, NO_WORDS), self._own.get(task_id, NO_WORDS)
        kept = before if confirmed.all_typed else (NO_WORDS, NO_WORDS)
        said = [text] if confirmed.all_typed else []
        self._words[task_id], self._own[task_id] = (
            Words(words.named.union(confirmed.names), (*words.texts, *said)[-MOST_TEXTS:]) for words in kept
        )
