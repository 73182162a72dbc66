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


def child_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The part of `ours` that is on the list of what a child may see."""
    return {name: value for name, value in ours.items() if name in _ALLOWED or name.startswith("LC_")}
