"""The Ozzie kernel: a thin client that turns a cell's text into an agent turn at the gateway. In a Python notebook,
`%load_ext ozzie_kernel` gives `%ozzie` and `%%ozzie`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """Add the magics: what IPython calls for `%load_ext ozzie_kernel`. Raises UsageError where they can't work."""
    from ozzie_kernel.ipython import load

    load(shell)
