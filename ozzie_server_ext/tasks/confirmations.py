"""Which messages a person is known to have sent: the page saw them run the cell, and what of it they typed.

A cell's message comes from its kernel, and its confirmation from the page: two ways, of which either may be
first. They belong together if both name the same request to a kernel, by Jupyter's id, and the same text.
What waits for the other is in memory only: if the gateway ends between the two, the message stays without a
confirmation, and a call made from it asks.
"""

import asyncio
import hashlib
from contextlib import suppress
from typing import TypeVar

import msgspec

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import Gone
from ozzie_server_ext.domain.events import (
    EventBody,
    MessageReceived,
    PromptAnswered,
    TaskCancelled,
    TaskFailed,
    TaskSucceeded,
    TaskUpdated,
)
from ozzie_server_ext.domain.ids import MessageId, task_stream
from ozzie_server_ext.policy.words import Confirmation
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.rows import user_recorder
from ozzie_server_ext.tasks.service import Submitted

T = TypeVar("T")

CONFIRMATION_KEPT_S = 3600.0
"""How long the page's confirmation waits for the message: cells are run one after the other, and a kernel may have to
start."""
MESSAGE_KEPT_S = 30.0
"""How long a message waits for the page's confirmation, which is sent at the same moment as the request to the
kernel."""
ARRIVES_S = 1.0
"""How long a message waits for it before it is recorded, if it makes calls at once that depend on it."""
MOST_WAITING = 100
"""Of messages, and of confirmations. The oldest is forgotten."""
MOST_PARTS = 200
"""Of one text, typed and not typed. A text with more is as one that nobody typed."""


class Execution(msgspec.Struct, frozen=True):
    """A request to a kernel to run a cell, by Jupyter's `msg_id`, and the text that it ran. `digest` is the text's
    SHA-256."""

    msg_id: str
    digest: bytes

    @classmethod
    def of(cls, msg_id: str, text: str) -> "Execution":
        return cls(msg_id, _digest(text))


class Confirmations:
    """Brings the messages of cells together with what the page says of them. Each counts once."""

    def __init__(self, log: EventLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._confirmed: dict[Execution, tuple[float, Confirmation]] = {}
        self._sent: dict[Execution, tuple[float, Submitted]] = {}
        self._expected: dict[Execution, asyncio.Event] = {}

    async def confirm(self, execution: Execution, confirmation: Confirmation) -> None:
        """Record the page's confirmation that a person ran this text just now, or keep it until the message comes."""
        if (sent := self._take(self._sent, execution, MESSAGE_KEPT_S)) is not None:
            await self._record(execution, sent, confirmation)
        else:
            self._keep(self._confirmed, execution, confirmation)
            if (expected := self._expected.get(execution)) is not None:
                expected.set()

    def confirmation_of(self, execution: Execution) -> Confirmation | None:
        """Return what the page said of a message that comes now, to be recorded with it. It counts once."""
        return self._take(self._confirmed, execution, CONFIRMATION_KEPT_S)

    async def arrival(self, execution: Execution) -> Confirmation | None:
        """Return what the page says of a message before it is recorded, or None if it says nothing in time."""
        if (confirmation := self.confirmation_of(execution)) is not None:
            return confirmation
        arrived = self._expected.setdefault(execution, asyncio.Event())
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(ARRIVES_S):
                    await arrived.wait()
        finally:
            self._expected.pop(execution, None)
        return self.confirmation_of(execution)

    async def await_confirmation(self, execution: Execution, sent: Submitted) -> None:
        """Keep a message of which the page had said nothing when it came, until it does."""
        if (confirmation := self.confirmation_of(execution)) is not None:
            await self._record(execution, sent, confirmation)
        else:
            self._keep(self._sent, execution, sent)

    async def _record(self, execution: Execution, sent: Submitted, confirmation: Confirmation) -> None:
        """Record the page's confirmation, if the message that was recorded is this text, and its task has not ended: a
        task's last event is its end. A late one for the answer to a delegated task's question finds no message in the
        task above it, and counts for nothing."""
        events = await self._log.read_stream(task_stream(sent.task_id))
        bodies = [event.body for event in events]
        if any(isinstance(body, TaskSucceeded | TaskFailed | TaskCancelled) for body in bodies):
            return
        if any(_says(body, sent.message_id, execution) for body in bodies):
            with suppress(Gone):  # it is erased at this moment
                await user_recorder(self._log, sent.session_id, sent.task_id).append(confirmation.fact(sent.message_id))

    def _take(self, waiting: dict[Execution, tuple[float, T]], execution: Execution, kept_s: float) -> T | None:
        since, found = waiting.pop(execution, (0.0, None))
        return found if self._clock.monotonic() - since <= kept_s else None

    def _keep(self, waiting: dict[Execution, tuple[float, T]], execution: Execution, found: T) -> None:
        waiting[execution] = self._clock.monotonic(), found
        while len(waiting) > MOST_WAITING:
            del waiting[next(iter(waiting))]


def _says(body: EventBody, message_id: MessageId, execution: Execution) -> bool:
    """Whether it is the message, with the text that was run. A kernel may have sent another text
    under the same message id before."""
    match body:
        case MessageReceived() | TaskUpdated() | PromptAnswered():
            return body.message_id == message_id and _digest(body.text) == execution.digest
        case _:
            return False


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.strip().encode()).digest()
