"""The secrets that calls of models were made with, so that they are found wherever they turn up."""

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from ozzie_server_ext.models.driver import ProviderAccess

_MAX = 64
_WORDS = re.compile(r"(?:[A-Z]?[a-z]{1,15}|[A-Z]{1,16})(?:[-_. ](?:[A-Z]?[a-z]{1,15}|[A-Z]{1,16}))*")
_SCHEME = re.compile(r"[A-Za-z]+ +(?=[^ ]+$)")


class KnownSecrets:
    """What passed through the gateway on its way to a provider, from wherever it came: nothing is asked of the vault
    for this. The latest are kept, in memory, until `forget`."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}

    def note(self, access: ProviderAccess) -> None:
        """Remember all that is secret in how a provider is reached."""
        values = [value for value in _of_requests(access) if not _WORDS.fullmatch(value)]
        values.append(unquote(urlsplit(access.base_url).password or ""))
        if access.oauth2 is not None:
            values.append(access.oauth2.client_secret)
        for value in filter(None, values):
            self._values.pop(value, None)
            self._values[value] = None
        while len(self._values) > _MAX:
            self._values.pop(next(iter(self._values)))

    def values(self) -> tuple[str, ...]:
        return tuple(self._values)

    def forget(self) -> None:
        """The vault was locked."""
        self._values.clear()


def _of_requests(access: ProviderAccess) -> Iterator[str]:
    """Key and headers, also without the scheme before it. A local server takes any word for a key, `lm-studio` by
    custom; that is no secret, and stands in ordinary text."""
    yield access.api_key
    for _, value in access.headers:
        yield value
        yield _SCHEME.sub("", value)
