"""Ids as distinct types. All are ULIDs; a session's has the prefix `sess_`."""

import os
import re
import threading
from functools import lru_cache
from typing import Final, NewType

GATEWAY: Final = "kernel"
"""The gateway as an actor, by the specification's word."""

_BUFFER_SIZE = 4096


class RandomBytes:
    """Buffered random bytes of the system. Each byte is given out once, also after a fork."""

    def __init__(self) -> None:
        self._clear()
        os.register_at_fork(after_in_child=self._clear)

    def take(self, count: int) -> bytes:
        """Return `count` random bytes."""
        with self._lock:
            if len(self._buffer) - self._at < count:
                self._buffer, self._at = os.urandom(max(_BUFFER_SIZE, count)), 0
            self._at += count
            return self._buffer[self._at - count : self._at]

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._buffer, self._at = b"", 0


RANDOM_BYTES = RandomBytes()

SessionId = NewType("SessionId", str)
TaskId = NewType("TaskId", str)
EventId = NewType("EventId", str)
ReplyId = NewType("ReplyId", str)
CallId = NewType("CallId", str)
MessageId = NewType("MessageId", str)
PromptId = NewType("PromptId", str)
ArtifactId = NewType("ArtifactId", str)
ApprovalId = NewType("ApprovalId", str)
BlobRef = NewType("BlobRef", str)
"""Content address: `sha256:` and 64 hexadecimal digits."""

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_SHIFTS = range(110, -1, -10)


def is_ulid(text: str) -> bool:
    """Whether `text` is a ULID in canonical form: 26 characters of Crockford's base 32, upper case."""
    return _ULID.fullmatch(text) is not None


def ulid_text(value: int) -> str:
    """Return the canonical form of a ULID's 128 bits: its time in milliseconds, then 80 random bits."""
    return _all_but_two(value >> 10) + _PAIRS[value & 1023]


@lru_cache(maxsize=4)  # ids are made several at a time, and count up within a millisecond
def _all_but_two(value: int) -> str:
    return "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


def is_session_id(text: str) -> bool:
    return text.startswith("sess_") and is_ulid(text[5:])


def session_stream(session_id: SessionId) -> str:
    """Return the name of a session's own stream."""
    return f"session:{session_id}"


def task_stream(task_id: TaskId) -> str:
    """Return the name of the stream with all events of a task."""
    return f"task:{task_id}"


APPROVALS_STREAM = "approvals"
"""The stream of refused answers to approvals."""

ARTIFACTS_STREAM = "artifacts"
"""The stream of erasures of artifacts."""


def worker_stream(plane: str) -> str:
    """Return the name of the stream about the processes of a plane."""
    return f"worker:{plane}"
