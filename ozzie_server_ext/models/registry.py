"""From names to models: configured providers and aliases, `driver/model` said directly, and what is found here."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os.path import expanduser
from urllib.parse import urlsplit

from ozzie_server_ext.config.address import is_address
from ozzie_server_ext.config.settings import ApiKeyAuth, ModelsSettings, NoAuth, ProviderSettings
from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
from ozzie_server_ext.models.driver import ModelChoice, ProviderAccess
from ozzie_server_ext.models.environment import KEY_VARIABLES, base_url_of
from ozzie_server_ext.models.keys import Key, KeyPlace, Keys, NoSecrets, Secrets
from ozzie_server_ext.models.selector import ModelSelector, Resolution
from ozzie_server_ext.models.selector import resolve as weigh
from ozzie_server_ext.protocol.worker import DEFAULT_SOCKET
from ozzie_server_ext.vault.errors import VaultLocked

OFFLINE = ModelChoice(alias="offline", provider="offline", driver="offline", model="script")

SUGGESTIONS: Mapping[str, str] = {
    "anthropic": "anthropic/claude-sonnet-4-6",
    "openai": "openai/gpt-4o-mini",
    "gemini": "gemini/gemini-2.5-flash",
    "deepseek": "deepseek/deepseek-chat",
}
WORKER = "worker"
"""The driver of workers that speak S2 §1 (MD-6)."""

KEYLESS = frozenset({"ollama", "vllm"})

_WITH_ADDRESS = "%model openai/gpt-4o-mini http://localhost:8000/v1"
_UNSENDABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode's categories that no key has: control characters, what was no UTF-8 in the environment, line breaks."""


class UnknownModel(InputError):
    """No configured model and no `driver/model` has this name."""

    code = "model.unknown"


class BadAddress(InputError):
    """The address beside a model's name is none, or the name has its own."""

    code = "model.address"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A model that can be chosen: its name, what it stands for, and why it can't be used right now, if so. `key` is
    where its key was found, empty where it needs none or there is none."""

    name: str
    driver: str
    model: str
    key: KeyPlace = ""
    missing: str = ""
    is_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something found on this machine, in words, and the name to choose to use it."""

    found: str
    choose: str


class ModelRegistry:
    """The models of one configuration. `env` is the process's environment and `$OZZIE_PATH/.env` together; `secrets`
    is the vault, which goes before it."""

    def __init__(self, settings: ModelsSettings, env: Mapping[str, str], secrets: Secrets | None = None) -> None:
        self._settings = settings
        self._env = env
        self._keys = Keys(env, secrets or NoSecrets())

    @property
    def default(self) -> str:
        """The name that is used where none is asked for: the configured one, the only one, or the offline script."""
        if self._settings.default is not None:
            return self._settings.default
        return next(iter(self._settings.providers)) if len(self._settings.providers) == 1 else "offline"

    def resolve(self, name: str = "", *, base_url: str = "") -> ModelChoice:
        """The model that `name` stands for: an alias, a provider, `offline`, or `driver/model`.

        Only `driver/model` may have a `base_url`. Raises UnknownModel, BadAddress.
        """
        name = name or self.default
        provider = name if name == "offline" else self._settings.aliases.get(name, name)
        if provider == "offline":
            _refuse_address(name, base_url)
            return OFFLINE
        if found := self._settings.providers.get(provider):
            _refuse_address(name, base_url)
            return ModelChoice(
                alias=name,
                provider=provider,
                driver=found.driver,
                model=found.model,
                max_tokens=found.max_tokens,
                # S2's generate has one text and nothing else.
                takes_tools=found.driver != WORKER,
            )
        driver, _, model = name.partition("/")
        if model and (driver in KEY_VARIABLES or driver in KEYLESS):
            _check_address(base_url)
            label = f"{driver}@{base_url}" if base_url else driver
            return ModelChoice(alias=name, provider=label, driver=driver, model=model)
        names = ", ".join(["offline", *self._settings.aliases, *self._settings.providers])
        raise UnknownModel(
            f'There is no model "{name}". There are: {names}.',
            hint="Choose one with %model, or name one directly, for example %model openai/gpt-4o-mini.",
        )

    def select(self, selector: ModelSelector) -> Resolution:
        """How a selector weighs the configured providers; neither aliases nor what only was found here take part."""
        return weigh(selector, {name: provider.tags for name, provider in self._settings.providers.items()})

    def access(self, choice: ModelChoice) -> ProviderAccess:
        """How the choice's provider is reached, with its key.

        Raises Unavailable where the key is missing or can't be one, or its kind of authentication is not supported,
        UnknownModel for a provider that has gone from the configuration.
        """
        if choice.driver == OFFLINE.driver:
            return ProviderAccess(driver=choice.driver)
        configured = self._settings.providers.get(choice.provider)
        if configured is None:
            if choice.provider.partition("@")[0] != choice.driver:
                # It was there when the turn began. Its name says nothing of where to go now.
                raise UnknownModel(
                    f'There is no model "{choice.alias}" in the configuration any more.',
                    hint="Choose another model with %model. Your message is kept.",
                )
            return self._direct(choice)
        variable, header = _key_variable(configured)
        key = self._key(choice.alias, variable) if variable else None
        value = key.value.reveal() if key else ""
        is_worker = configured.driver == WORKER
        return ProviderAccess(
            driver=configured.driver,
            base_url=configured.base_url or base_url_of(configured.driver, self._env),
            socket=expanduser(configured.socket or DEFAULT_SOCKET) if is_worker else "",
            api_key="" if header else value,
            key_name=variable,
            key_place=key.place if key else "",
            headers=((header, value),) if header else (),
            first_s=configured.timeout_s,
            next_s=configured.timeout_s,
        )

    def listed(self) -> tuple[Listed, ...]:
        """Every model that has a name here, the offline script last."""
        found: list[Listed] = []
        for name, provider in self._settings.providers.items():
            place: KeyPlace = ""
            missing = ""
            try:
                variable, _ = _key_variable(provider)
                if variable:
                    place, missing = self._keys.look(variable)
            except Unavailable as error:
                missing = str(error)
            found.append(
                Listed(
                    name=name,
                    driver=provider.driver,
                    model=provider.model,
                    key=place,
                    missing=missing,
                    is_default=name == self.default,
                )
            )
        for alias, target in self._settings.aliases.items():
            found.append(Listed(name=alias, driver="alias", model=target, is_default=alias == self.default))
        offline = Listed(name="offline", driver="offline", model="script", is_default=self.default == "offline")
        return (*found, offline)

    def offers(self, ollama: Iterable[str] = ()) -> tuple[Offer, ...]:
        """What was found here: offered, never silently used (MD-7). `ollama`: the models that an Ollama here has."""
        keys = [
            Offer(found=f"{variable} is {'in the vault' if place == 'vault' else 'set'}", choose=SUGGESTIONS[driver])
            for driver, variables in KEY_VARIABLES.items()
            for variable in variables
            if (place := self._keys.look(variable)[0])
        ]
        return (*keys, *(Offer(found=f"Ollama has {name}", choose=f"ollama/{name}") for name in ollama))

    @property
    def ollama_address(self) -> str:
        """Where an Ollama would answer; empty where the environment names no address."""
        try:
            return base_url_of("ollama", self._env)
        except Unavailable:
            return ""

    def _direct(self, choice: ModelChoice) -> ProviderAccess:
        _, _, typed = choice.provider.partition("@")
        base_url = typed or base_url_of(choice.driver, self._env)
        if typed or choice.driver in KEYLESS:
            # An address that was typed in gets no key: a key belongs to the address that it was configured with.
            return ProviderAccess(driver=choice.driver, base_url=base_url)
        variables = KEY_VARIABLES[choice.driver]
        there = [variable for variable in variables if self._keys.look(variable)[0]]
        key = self._key(choice.alias, there[0] if there else variables[0])
        return ProviderAccess(
            driver=choice.driver,
            base_url=base_url,
            api_key=key.value.reveal(),
            key_name=key.name,
            key_place=key.place,
        )

    def _key(self, alias: str, name: str) -> Key:
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
            raise _no_key(alias, name)
        _check_key(alias, key)
        return key


def _key_variable(provider: ProviderSettings) -> tuple[str, str]:
    """The name of a provider's key and the header that carries it (empty: the provider's usual one)."""
    match provider.auth:
        case ApiKeyAuth(header=header) as auth:
            return auth.name, header or ""
        case NoAuth():
            return "", ""
        case _:
            raise Unavailable(
                f"Authentication of the type {provider.auth.type} is not supported yet.",
                hint="Use an API key, or choose another model with %model.",
                code="provider.auth_type",
            )


def _no_key(alias: str, variable: str) -> Unavailable:
    return Unavailable(
        f'There is no key for "{alias}": {variable} is not set.',
        hint=f"Set it with ozzie secrets set {variable}, or choose another model with %model.",
        code="provider.no_key",
    )


def _check_key(alias: str, key: Key) -> None:
    """Raises Unavailable, naming the key and never what is in it."""
    if any(unicodedata.category(character) in _UNSENDABLE for character in key.value.reveal()):
        raise Unavailable(
            f'The key for "{alias}" can\'t be sent: {key.name} contains a line break, a control character or a byte '
            "that is not UTF-8.",
            hint=f"Set {key.name} again, copied anew from the provider, or choose another model with %model.",
            code="provider.bad_key",
        )


def _refuse_address(name: str, base_url: str) -> None:
    if base_url:
        raise BadAddress(
            f'"{name}" is reached as it is configured, and takes no other address.',
            hint=f"Choose it with %model {name}, or name a model directly for an address, for example {_WITH_ADDRESS}.",
        )


def _check_address(base_url: str) -> None:
    if base_url and not is_address(base_url):
        # It is not repeated: it may be a key in the wrong place.
        raise BadAddress(
            "What follows the model's name is not the address of a server.",
            hint=f"An address begins with http:// or https:// and has no spaces, for example {_WITH_ADDRESS}.",
        )
    parts = urlsplit(base_url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        # The address is recorded with the session and shown in cells, where no password may stand.
        raise BadAddress(
            "An address in a cell can't carry a name, a password or a query.",
            hint="Give it to a provider in the configuration, as its base_url (the README shows one).",
        )
