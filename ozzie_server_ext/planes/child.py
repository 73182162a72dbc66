"""The first steps of a child process: tie its life to its parent, and limit its resources."""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Mapping

_ALLOWED = frozenset(
    {
        "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR",
        # Certificates and proxies.
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
        # What Python needs to find itself.
        "PYTHONHOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "LD_LIBRARY_PATH",
    }
)  # fmt: skip

_USER_VARIABLES = frozenset(
    {
        "USER", "LOGNAME", "SHELL",
        # Where a person's programs keep their settings.
        "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
        # The active environment, and the agent that signs pushes: its address, not a key.
        "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "SSH_AUTH_SOCK",
    }
)  # fmt: skip


def child_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a child may see."""
    return {name: value for name, value in ours.items() if name in _ALLOWED or name.startswith("LC_")}


def host_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for one of the user's own programs: a child's, and the user's identity and folders."""
    theirs = {name: value for name, value in ours.items() if name in _USER_VARIABLES}
    return {**child_environment(ours), **theirs, "TERM": "dumb"}


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_child(parent: int, *, nice: int) -> None:
    """Set up this child process. Call it in the child itself, not between fork and exec, where a process with threads
    may not run Python.

    `parent` is the process that should have started us. Exits if it is gone already. The end of file on the channel
    ends the child too; the signal is for a child whose loop is stuck. It fires when the parent's *thread* that started
    us ends, so a child is started from the loop's thread.
    """
    tie_to(parent)
    os.nice(nice)
    # A terminal's Ctrl-C is for the parent, which then stops us gracefully.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def tie_to(parent: int, *, sends: signal.Signals = signal.SIGKILL) -> None:
    """Have the system signal us when `parent`, or its thread that started us, ends. Exits if it is gone already."""
    _prctl(_PR_SET_PDEATHSIG, sends)
    if os.getppid() != parent:
        raise SystemExit("The process that started this one is gone.")


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends, so that they can be waited for."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def limit_child(*, cpu_s: int, memory: int, nice: int, wall_s: int = 0) -> None:
    """Limit this child process: niceness, CPU time, and `memory`, the address space in bytes, of which Python itself
    takes some. `wall_s` ends a process that waits for others even if its parent is gone; 0 sets no such limit."""
    import resource  # missing on Windows, which has no such limits

    os.nice(nice)
    signal.alarm(wall_s)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # macOS refuses this one
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
