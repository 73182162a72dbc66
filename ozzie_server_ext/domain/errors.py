"""One tree of errors. The branch says who must react; the code is stable; the hint says what to do next.

The gateway maps a branch to an HTTP status and the kernel to a display, each in one table.
"""


class OzzieError(Exception):
    """Something that Ozzie foresaw went wrong.

    `str(error)` is a sentence for the user; `hint` tells what to do next (may be empty); `code` is stable
    and meant for programs.
    """

    code: str = "ozzie.error"

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class InputError(OzzieError):
    """What was given can't be taken as it is: the caller corrects it."""

    code = "input.invalid"


class NotFound(InputError):
    """The thing that was named does not exist."""

    code = "input.not_found"


class Gone(NotFound):
    """The thing that was named existed. The message says what became of it, when, and why."""

    code = "input.gone"


class PolicyError(OzzieError):
    """Refused by a rule; the message carries the reason."""

    code = "policy.denied"


class RetryLater(OzzieError):
    """A passing condition; the same call may succeed later. `after_s` is how long to wait, where known."""

    code = "retry.later"

    def __init__(self, message: str, *, hint: str = "", code: str | None = None, after_s: float | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.after_s = after_s


class Conflict(OzzieError):
    """Somebody was first, or the thing is not in a state that allows this."""

    code = "conflict"


class VersionConflict(Conflict):
    """The stream has moved on since it was read."""

    code = "conflict.version"

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(f"{stream} is at version {actual}, not {expected}.", hint="Read it again, then decide.")
        self.stream = stream
        self.expected = expected
        self.actual = actual


class IllegalTransition(Conflict):
    """The task's state does not allow this change."""

    code = "conflict.transition"

    def __init__(self, status: str, change: str) -> None:
        super().__init__(f"A task that is {status} can't take {change}.")
        self.status = status
        self.change = change


class Unavailable(OzzieError):
    """Something that Ozzie depends on does not answer."""

    code = "unavailable"


class Bug(OzzieError):
    """An invariant of our own is broken."""

    code = "bug"
