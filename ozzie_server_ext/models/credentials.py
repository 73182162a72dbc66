"""With what a configured provider is asked: key, client or token, by the kind of its `auth` (S0 §6.4, MD-3)."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ozzie_server_ext.config.settings import ApiKeyAuth, Auth, ClaudeCodeAuth, NoAuth, OAuth2Auth
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.models.claude_code import MissingToken, claude_code_token
from ozzie_server_ext.models.keys import Key, KeyPlace, Keys, NoSecrets, Secrets
from ozzie_server_ext.protocol.worker import ClientCredentials
from ozzie_server_ext.vault.errors import VaultLocked

_UNSENDABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode's categories that no key has: control characters, what was no UTF-8 in the environment, line breaks."""

CLAUDE_CODE = "the token of Claude Code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a call carries: a key in the provider's usual place, or in a header, or a client that gets tokens. `name` is
    what a person checks when they are refused."""

    api_key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    oauth2: ClientCredentials | None = None
    name: str = ""
    place: KeyPlace = ""


class CredentialStore:
    """The credentials that can be found: in the vault, in the environment, where an installed program keeps them.
    `env` is the process's environment and `$OZZIE_PATH/.env` together."""

    def __init__(self, env: Mapping[str, str], secrets: Secrets | None = None) -> None:
        self._env = env
        self._keys = Keys(env, secrets or NoSecrets())

    def of(self, alias: str, auth: Auth) -> Credentials:
        """What `auth` stands for, for the model that is called `alias`. Raises Unavailable."""
        match auth:
            case NoAuth():
                return Credentials()
            case ApiKeyAuth(name=name, header=header):
                return self._key(alias, name, header or "")
            case OAuth2Auth():
                client_id, secret = self._find(alias, auth.client_id_env), self._find(alias, auth.client_secret_env)
                client = ClientCredentials(
                    token_url=auth.token_url,
                    client_id=client_id.value.reveal(),
                    client_secret=secret.value.reveal(),
                    scopes=auth.scopes,
                )
                return Credentials(oauth2=client, name=secret.name, place=secret.place)
            case ClaudeCodeAuth():
                return Credentials(api_key=self._claude_code_token(alias), name=CLAUDE_CODE, place="Claude Code")

    def first_of(self, alias: str, names: Sequence[str]) -> Credentials:
        """The key of the first of these names that there is. Raises Unavailable, naming the first."""
        return self._key(alias, next((name for name in names if self.look_for(name)[0]), names[0]), "")

    def look(self, auth: Auth) -> tuple[KeyPlace, str]:
        """Where the credentials lie, and why they can't be used, if so."""
        match auth:
            case NoAuth():
                return "", ""
            case ApiKeyAuth(name=name):
                return self.look_for(name)
            case OAuth2Auth():
                _, missing = self.look_for(auth.client_id_env)
                return ("", missing) if missing else self.look_for(auth.client_secret_env)
            case ClaudeCodeAuth():
                try:
                    claude_code_token(self._env)
                except MissingToken as error:
                    return "", f"no token of Claude Code: {error}"
                return "Claude Code", ""

    def look_for(self, name: str) -> tuple[KeyPlace, str]:
        """As `look`, for one name."""
        return self._keys.look(name)

    def _key(self, alias: str, name: str, header: str) -> Credentials:
        key = self._find(alias, name)
        value = key.value.reveal()
        if header:
            return Credentials(headers=((header, value),), name=key.name, place=key.place)
        return Credentials(api_key=value, name=key.name, place=key.place)

    def _claude_code_token(self, alias: str) -> str:
        try:
            token = claude_code_token(self._env)
        except MissingToken as error:
            first = "Start `claude` once, which renews it" if error.ended else "Log in with `claude`"
            raise Unavailable(
                f'There is no token of Claude Code for "{alias}": {error}.',
                hint=f"{first}, or choose another model with %model. Your message is kept.",
                code="provider.no_key",
            ) from None
        _check_sendable(alias, CLAUDE_CODE, token)
        return token

    def _find(self, alias: str, name: str) -> Key:
        """Raises Unavailable where there is none, or none that can be used."""
        try:
            key = self._keys.find(name)
        except VaultLocked as error:
            raise Unavailable(
                f'The key for "{alias}" ({name}) is in the vault, which is locked.',
                hint=f"{error.hint.rstrip('.')}, or choose another model with %model. Your message is kept.",
                code=error.code,
            ) from None
        except OzzieError as error:
            raise Unavailable(
                f'There is no key for "{alias}": {name} is not set, and the vault can\'t be used. {error}',
                hint=error.hint,
                code=error.code,
            ) from None
        if key is None:
            raise Unavailable(
                f'There is no key for "{alias}": {name} is not set.',
                hint=f"Set it with ozzie secrets set {name}, or choose another model with %model.",
                code="provider.no_key",
            )
        _check_sendable(alias, key.name, key.value.reveal())
        return key


def _check_sendable(alias: str, name: str, value: str) -> None:
    """Raises Unavailable, naming the key and never what is in it."""
    if any(unicodedata.category(character) in _UNSENDABLE for character in value):
        raise Unavailable(
            f'The key for "{alias}" can\'t be sent: {name} contains a line break, a control character or a byte '
            "that is not UTF-8.",
            hint=f"Set {name} again, copied anew from the provider, or choose another model with %model.",
            code="provider.bad_key",
        )
