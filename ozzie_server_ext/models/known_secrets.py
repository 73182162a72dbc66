"""The secrets that calls of models were made with, so that they are found wherever they turn up."""

from urllib.parse import unquote, urlsplit

from ozzie_server_ext.models.driver import ProviderAccess

_MAX = 64


class KnownSecrets:
    """What passed through the gateway on its way to a provider, from wherever it came: nothing is asked of the vault
    for this. The latest are kept, in memory, until `forget`."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}

    def note(self, access: ProviderAccess) -> None:
        """Remember all that is secret in how a provider is reached."""
        values = [access.api_key, *(value for _, value in access.headers)]
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
        """The vault was changed or locked."""
        self._values.clear()
