"""What a program says whose installation lacks something that it loads."""

HINT = "Install jupyter-ozzie again."


def can_not_be_loaded(program: str, error: Exception) -> str:
    """A sentence and what to do next, a line each (see `terminal.told`)."""
    missing = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    return f"{program}: Ozzie can't be loaded: {' '.join(missing.split())}.\n{HINT}"
