"""The conversations that a worker keeps for its clients: in memory, as long as it runs."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from ozzie_server_ext.domain.errors import Conflict, NotFound, RetryLater
from ozzie_server_ext.models.driver import ChatMessage

MAX_SESSIONS = 1000
MAX_CHARS = 4_000_000
"""How much a session holds; what is older is forgotten."""


@dataclass(eq=False, slots=True)
class WorkerSession:
    """`system` is what the client gave as instructions; `busy` while an answer is being written."""

    session_id: str
    system: str = ""
    busy: bool = False
    _said: list[ChatMessage] = field(default_factory=list[ChatMessage])

    def messages(self, prompt: str, *, most: int) -> tuple[ChatMessage, ...]:
        """What the model reads: the instructions, at most `most` earlier messages, the prompt."""
        system = [ChatMessage(role="system", content=self.system)] if self.system else []
        # Pairs of a question and its answer, so that it begins with a question.
        earlier = self._said[-(most - most % 2) :] if most > 1 else []
        return (*system, *earlier, ChatMessage(role="user", content=prompt))

    def keep(self, prompt: str, answer: str) -> None:
        """Remember an answer that came whole; one that did not is as if never asked."""
        self._said += [ChatMessage(role="user", content=prompt), ChatMessage(role="assistant", content=answer)]
        while len(self._said) > 2 and sum(len(message.content) for message in self._said) > MAX_CHARS:
            del self._said[:2]


class WorkerSessions:
    """By their ids, which nobody can guess."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, WorkerSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def answering(self) -> int:
        return sum(session.busy for session in self._sessions.values())

    def create(self, system: str) -> WorkerSession:
        """A new one; the one that rested longest goes where there are too many. Raises RetryLater."""
        if len(self._sessions) >= MAX_SESSIONS:
            idle = next((name for name, session in self._sessions.items() if not session.busy), None)
            if idle is None:
                raise RetryLater("Every session is answering. Try again later.")
            del self._sessions[idle]
        session = WorkerSession(session_id=f"s_{secrets.token_hex(8)}", system=system)
        self._sessions[session.session_id] = session
        return session

    def get(self, session_id: str) -> WorkerSession:
        """Raises NotFound."""
        session = self._sessions.get(session_id)
        if session is None:
            raise NotFound(f'There is no session "{session_id[:80]}". Begin one with create_session.')
        self._sessions.move_to_end(session_id)
        return session

    def begin(self, session_id: str) -> WorkerSession:
        """The session, to answer in. Raises NotFound, or Conflict while it answers already."""
        session = self.get(session_id)
        if session.busy:
            raise Conflict(f'The session "{session_id}" is answering already. Wait for its end, or abort it.')
        session.busy = True
        return session

    def close(self, session_id: str) -> None:
        """Raises NotFound."""
        self.get(session_id)
        del self._sessions[session_id]
