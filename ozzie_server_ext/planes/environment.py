"""What a child process may see of our environment: never a provider's key (THREATS 8)."""

from collections.abc import Mapping

_ALLOWED = frozenset(
    {
        "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR",
        # Where trust and the way out come from.
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
        # What a Python needs to find itself.
        "PYTHONHOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "LD_LIBRARY_PATH",
    }
)  # fmt: skip

_OF_A_PERSON = frozenset(
    {
        "USER", "LOGNAME", "SHELL",
        # Where a person's programs keep their settings.
        "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
        # Which packages are meant, and who signs for a push: the agent's address, not a key.
        "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "SSH_AUTH_SOCK",
    }
)  # fmt: skip


def child_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The part of `ours` that is on the list of what a child may see."""
    return {name: value for name, value in ours.items() if name in _ALLOWED or name.startswith("LC_")}


def host_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """What a program of the user's own sees that runs on this machine in their name: what a child may see, and what
    says who they are and where they keep things. No terminal is there that it could draw on."""
    theirs = {name: value for name, value in ours.items() if name in _OF_A_PERSON}
    return {**child_environment(ours), **theirs, "TERM": "dumb"}
