"""The credentials of a configured provider: a key, a client or a token, by the kind of its `auth`."""

import json
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

from ozzie_server_ext.config.settings import ApiKeyAuth, Auth, ClaudeCodeAuth, NoAuth, OAuth2Auth, is_address
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.models.driver import ProviderAccess
from ozzie_server_ext.protocol.worker import ClientCredentials
from ozzie_server_ext.vault.errors import VaultLocked
from ozzie_server_ext.vault.scope import ProjectReader, Secret
from ozzie_server_ext.vault.vault import Vault

VARIABLE = "CLAUDE_CODE_OAUTH_TOKEN"
"""Holds a token made by `claude setup-token`; preferred to the file, as in Claude Code itself."""

FILE = ".credentials.json"
MAX_BYTES = 65_536
MARGIN_S = 60.0


class MissingToken(Exception):
    """No token can be used; the text says why. `ended`: there was one, but it has expired."""

    def __init__(self, reason: str, *, ended: bool = False) -> None:
        super().__init__(reason)
        self.ended = ended


def token_file(env: Mapping[str, str]) -> Path:
    """Return the file of Claude Code's token on Linux. On macOS it is in the keychain, and only the variable helps."""
    folder = env.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else Path(env.get("HOME") or Path.home()) / ".claude") / FILE


def claude_code_token(env: Mapping[str, str], *, now: Callable[[], float] = time.time) -> str:
    """Return the token of Claude Code. Raises MissingToken."""
    if token := env.get(VARIABLE, "").strip():
        return token
    file = token_file(env)
    try:
        with file.open("rb") as opened:
            found: Any = json.loads(opened.read(MAX_BYTES))
    except FileNotFoundError:
        raise MissingToken(f"there is no {file}") from None
    except (OSError, ValueError, RecursionError):
        raise MissingToken(f"{file} can't be read") from None
    login: Any = found.get("claudeAiOauth") if isinstance(found, dict) else None
    kept: dict[str, Any] = login if isinstance(login, dict) else {}
    token, ends_ms = kept.get("accessToken"), kept.get("expiresAt")
    if not isinstance(token, str) or not token:
        raise MissingToken(f"{file} holds none")
    if isinstance(ends_ms, int | float) and ends_ms / 1000 < now() + MARGIN_S:
        raise MissingToken(f"the one in {file} has ended", ended=True)
    return token


KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "litellm": ("LITELLM_PROXY_API_KEY",),
}
"""The variables with each driver's key, for a model that is named directly as `driver/model`."""

ADDRESS_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "gemini": ("GEMINI_API_BASE",),
    "deepseek": ("DEEPSEEK_API_BASE",),
    "ollama": ("OLLAMA_HOST", "OLLAMA_API_BASE"),
    "vllm": ("HOSTED_VLLM_API_BASE",),
    "litellm": ("LITELLM_PROXY_API_BASE",),
}
"""The variables with each driver's address, if none is configured."""

NOWHERE_BY_ITSELF = frozenset({"vllm", "openai-compatible", "litellm"})
"""Drivers of servers that anybody may run: without an address, calls would go to somebody else's."""

OLLAMA_PORT = 11434


def base_url_of(driver: str, env: Mapping[str, str]) -> str:
    """Return the address that the environment gives for a driver, "" for the usual one; Ollama always has one. Raise
    Unavailable for an invalid address, and if a driver needs one."""
    for variable in ADDRESS_VARIABLES.get(driver, ()):
        if value := env.get(variable, "").strip():
            address = _ollama_address(value) if variable == "OLLAMA_HOST" else value
            if not is_address(address):
                raise Unavailable(
                    f"{variable} is not the address of a server.",
                    hint=f"Set {variable} to one that begins with http:// or https://, or unset it.",
                    code="model.address",
                )
            return address
    if driver in NOWHERE_BY_ITSELF:
        variables = ADDRESS_VARIABLES.get(driver, ())
        raise Unavailable(
            f'The driver "{driver}" needs an address, and none is configured.',
            hint=" or ".join(["Give the model a base_url in the configuration", *(f"set {name}" for name in variables)])
            + ".",
            code="model.address",
        )
    return f"http://127.0.0.1:{OLLAMA_PORT}" if driver == "ollama" else ""


def _ollama_address(value: str) -> str:
    """Return OLLAMA_HOST as an address. Scheme and port may be missing; `0.0.0.0` is only where a server listens."""
    has_scheme = "://" in value
    address = value if has_scheme else f"http://{value}"
    if not has_scheme and value.startswith(":"):
        address = f"http://127.0.0.1{value}"
    try:
        parts = urlsplit(address)
        if parts.port is None and not has_scheme:
            address = f"http://{parts.netloc.rstrip(':')}:{OLLAMA_PORT}{parts.path}"
    except ValueError:
        return ""
    return address.replace("//0.0.0.0", "//127.0.0.1", 1).replace("//[::]", "//[::1]", 1).rstrip("/")


KeyPlace: TypeAlias = Literal["", "vault", "environment", "Claude Code"]
"""Where a key was found; "" if there is none."""


class Secrets(Protocol):
    """The secrets that Ozzie itself may see."""

    def find(self, name: str) -> Secret | None:
        """Return the secret, or None. Raises VaultLocked if it is in a locked vault, OzzieError if that is unknown."""
        ...


class VaultSecrets:
    """The vault, as Ozzie sees it in one project."""

    def __init__(self, vault: Vault, reader: ProjectReader) -> None:
        self._vault = vault
        self._reader = reader

    def find(self, name: str) -> Secret | None:
        return self._vault.reveal(name, self._reader) if self._vault.holds(name, self._reader) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key, and where it was found."""

    name: str
    value: Secret = field(repr=False)
    place: KeyPlace


_UNSENDABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that no key contains: control characters, undecodable bytes of the environment, line breaks."""

CLAUDE_CODE = "the token of Claude Code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a call carries: a key in the provider's usual place, or in a header, or a client that gets tokens. `name` is
    what a person checks if they are refused."""

    api_key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    oauth2: ClientCredentials | None = None
    name: str = ""
    place: KeyPlace = ""


class CredentialStore:
    """Finds credentials in the vault, in the environment, or where an installed program keeps them. `env` is the
    process's environment together with `$OZZIE_PATH/.env`."""

    def __init__(self, env: Mapping[str, str], secrets: Secrets | None = None) -> None:
        self._env = env
        self._secrets = secrets

    def of(self, alias: str, auth: Auth) -> Credentials:
        """Return the credentials for `auth`, of the model called `alias`. Raises Unavailable."""
        match auth:
            case NoAuth():
                return Credentials()
            case ApiKeyAuth(name=name, header=header):
                return self._key(alias, name, header or "")
            case OAuth2Auth():
                client_id, secret = self._expect(alias, auth.client_id_env), self._expect(alias, auth.client_secret_env)
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
        """Return the first of these keys that exists. Raises Unavailable, naming the first."""
        return self._key(alias, next((name for name in names if self.look_for(name)[0]), names[0]), "")

    def look(self, auth: Auth) -> tuple[KeyPlace, str]:
        """Return where the credentials were found, and why they can't be used, if so."""
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
        """Like `look`, for one name."""
        try:
            key = self._find(name)
        except VaultLocked:
            return "vault", f"{name} is in the vault, which is locked"
        except OzzieError as error:
            return "", f"{name} is not set, and the vault can't be used: {error}"
        return (key.place, "") if key else ("", f"{name} is not set")

    def _find(self, name: str) -> Key | None:
        """Return the key of this name. Raises VaultLocked if it is in a locked vault: another key of that name must not
        stand in for it. Raise the error of a vault that can't be used, unless the environment has the key."""
        secret: Secret | None = None
        try:
            secret = None if self._secrets is None else self._secrets.find(name)
        except VaultLocked:
            raise
        except OzzieError:
            if not self._env.get(name):
                raise
        if secret is not None:
            return Key(name=name, value=secret, place="vault")
        value = self._env.get(name, "")
        return Key(name=name, value=Secret(value), place="environment") if value else None

    def _key(self, alias: str, name: str, header: str) -> Credentials:
        key = self._expect(alias, name)
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

    def _expect(self, alias: str, name: str) -> Key:
        """Return the key. Raises Unavailable if there is none, or none that can be used."""
        try:
            key = self._find(name)
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
    """Raise Unavailable if a value can't be sent; the error names the key and never its value."""
    if any(unicodedata.category(character) in _UNSENDABLE for character in value):
        raise Unavailable(
            f'The key for "{alias}" can\'t be sent: {name} contains a line break, a control character or a byte '
            "that is not UTF-8.",
            hint=f"Set {name} again, copied from the provider, or choose another model with %model.",
            code="provider.bad_key",
        )


_MAX = 64
_WORDS = re.compile(r"(?:[A-Z]?[a-z]{1,15}|[A-Z]{1,16})(?:[-_. ](?:[A-Z]?[a-z]{1,15}|[A-Z]{1,16}))*")
_SCHEME = re.compile(r"[A-Za-z]+ +(?=[^ ]+$)")


class KnownSecrets:
    """The secrets that passed through the gateway to providers, whatever their source; the vault is not asked for this.
    The latest are kept, in memory, until `forget`."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}

    def note(self, access: ProviderAccess) -> None:
        """Remember all secrets in how a provider is reached."""
        values = [value for value in _of_requests(access) if not _WORDS.fullmatch(value)]
        values.append(unquote(urlsplit(access.base_url).password or ""))
        if access.oauth2 is not None:
            values.append(access.oauth2.client_secret)
        for value in values:
            self.note_value(value)

    def note_value(self, value: str) -> None:
        """Remember a secret; an empty one is none."""
        if not value:
            return
        self._values.pop(value, None)
        self._values[value] = None
        while len(self._values) > _MAX:
            self._values.pop(next(iter(self._values)))

    def values(self) -> tuple[str, ...]:
        return tuple(self._values)

    def forget(self) -> None:
        """Forget all of them: the vault was locked."""
        self._values.clear()


def _of_requests(access: ProviderAccess) -> Iterator[str]:
    """Yield key and headers, the latter also without their scheme. A local server accepts any word as a key, such as
    `lm-studio`; that is no secret, and occurs in ordinary text."""
    yield access.api_key
    for _, value in access.headers:
        yield value
        yield _SCHEME.sub("", value)
