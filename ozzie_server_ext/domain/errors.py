"""One tree of errors. The branch says who must react: the gateway maps it to a status, the kernel to a display."""


class OzzieError(Exception):
    """An expected failure.

    `str(error)` is a sentence for the user, `hint` the next step (may be empty), `code` stable and for programs.
    """

    code: str = "ozzie.error"

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class InputError(OzzieError):
    """The input is invalid: the caller must correct it."""

    code = "input.invalid"


class NotFound(InputError):
    """The named thing does not exist."""

    code = "input.not_found"


class Gone(NotFound):
    """The named thing no longer exists. The message says what became of it, when, and why."""

    code = "input.gone"


class PolicyError(OzzieError):
    """Refused by a rule; the message carries the reason."""

    code = "policy.denied"


class RetryLater(OzzieError):
    """A temporary condition: the same call may succeed later, after `after_s` seconds if that is known."""

    code = "retry.later"

    def __init__(self, message: str, *, hint: str = "", code: str | None = None, after_s: float | None = None) -> None:
        super().__init__(message, hint=hint, code=code)
        self.after_s = after_s


class Conflict(OzzieError):
    """Somebody else was first, or the current state does not allow this."""

    code = "conflict"


class VersionConflict(Conflict):
    """The stream has changed since it was read."""

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
    """A dependency does not answer."""

    code = "unavailable"


class Bug(OzzieError):
    """A broken invariant of Ozzie's own."""

    code = "bug"
