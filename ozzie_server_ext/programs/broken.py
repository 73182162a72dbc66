"""The error message of a program whose installation is broken."""

HINT = "Install jupyter-ozzie again."


def can_not_be_loaded(program: str, error: Exception) -> str:
    """Return the error and a hint, one line each (see `gateway_server.message_of`)."""
    missing = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    return f"{program}: Ozzie can't be loaded: {' '.join(missing.split())}.\n{HINT}"
