"""Resolve names of models: configured providers and aliases, `driver/model` named directly, and what is found here."""

from collections.abc import Iterable, Mapping
from os.path import expanduser
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.config.settings import CHEAP, FALLBACK, ModelsSettings, ProviderSettings, is_address
from ozzie_server_ext.domain.budget import TokenPrices
from ozzie_server_ext.domain.errors import InputError, Unavailable
from ozzie_server_ext.models.chain import Chain, RetryPolicy
from ozzie_server_ext.models.credentials import KEY_VARIABLES, CredentialStore, KeyPlace, Secrets, base_url_of
from ozzie_server_ext.models.driver import ModelChoice, ProviderAccess
from ozzie_server_ext.models.rates import RateLimits
from ozzie_server_ext.models.selector import ModelSelector, Resolution, Tags
from ozzie_server_ext.models.selector import resolve as weigh
from ozzie_server_ext.protocol.worker import DEFAULT_SOCKET

OFFLINE = ModelChoice(
    alias="offline",
    provider="offline",
    driver="offline",
    model="script",
    sees=False,
    prices=TokenPrices(read=0, written=0),
)

SUGGESTIONS: Mapping[str, str] = {
    "anthropic": "anthropic/claude-sonnet-4-6",
    "openai": "openai/gpt-4o-mini",
    "gemini": "gemini/gemini-2.5-flash",
    "deepseek": "deepseek/deepseek-chat",
}
WORKER = "worker"
"""The driver of NDJSON workers."""

KEYLESS = frozenset({"ollama", "vllm"})

_WITH_ADDRESS = "%model openai/gpt-4o-mini http://localhost:8000/v1"


class UnknownModel(InputError):
    """No configured model and no `driver/model` has this name."""

    code = "model.unknown"


class BadAddress(InputError):
    """The address beside a model's name is invalid, or the name has its own."""

    code = "model.address"


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be chosen: its name, what it stands for, its tags, and why it can't be used right now, if so.
    `key` is where its key was found, "" if it needs or has none."""

    name: str
    driver: str
    model: str
    key: KeyPlace = ""
    missing: str = ""
    is_default: bool = False
    tags: Tags = msgspec.field(default_factory=dict[str, str | int | float | bool])


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Something found on this machine, in words, and the name that uses it."""

    found: str
    choose: str


class ModelRegistry:
    """The models of one configuration. `env` is the process's environment together with `$OZZIE_PATH/.env`; `secrets`
    is the vault, which takes precedence."""

    def __init__(self, settings: ModelsSettings, env: Mapping[str, str], secrets: Secrets | None = None) -> None:
        self._settings = settings
        self._env = env
        self._credentials = CredentialStore(env, secrets)

    def has_alias(self, name: str) -> bool:
        return name in self._settings.aliases

    @property
    def default(self) -> str:
        """The name to use if none is given: the configured default, the only provider, or the offline script."""
        if self._settings.default is not None:
            return self._settings.default
        return next(iter(self._settings.providers)) if len(self._settings.providers) == 1 else "offline"

    def resolve(self, name: str = "", *, base_url: str = "") -> ModelChoice:
        """Return the first model that `name` stands for: an alias, a provider, `offline`, or `driver/model`. Only
        `driver/model` may have a `base_url`. Raises UnknownModel, BadAddress."""
        return self.chain(name, base_url=base_url).first

    def chain(self, name: str = "", *, base_url: str = "") -> Chain:
        """Return all models that may answer for `name`, in order. A provider that is requested by its own name is
        replaced only by the one that the configuration's `upgrade` gives for it. Raises like `resolve`."""
        requested, name = name, name or self.default
        providers = self._settings.providers_of(name)
        if not providers:
            return Chain((self._named_directly(name, base_url),))
        _refuse_address(name, base_url)
        if providers == (OFFLINE.provider,):
            return Chain((replace(OFFLINE, alias=name),))
        if name in self._settings.aliases or not requested:
            providers = tuple(dict.fromkeys((*providers, *self._settings.providers_of(FALLBACK))))
        stronger = self._settings.providers_of(self._settings.upgrade.get(name, ""))
        in_chain = len({*providers, *stronger}) > 1
        return Chain(
            tuple(self._configured(name, provider, in_chain=in_chain) for provider in providers),
            tuple(self._configured(name, provider, in_chain=in_chain) for provider in stronger),
            wanted=providers[0],
        )

    def limits(self, choice: ModelChoice) -> RateLimits:
        """Return the rate limits of the choice's provider, shared by all turns."""
        configured = self._settings.providers.get(choice.provider)
        return RateLimits(**configured.limits.model_dump()) if configured else RateLimits()

    @property
    def retry(self) -> RetryPolicy:
        retry = self._settings.retry
        return RetryPolicy(
            max_attempts=retry.max_attempts, backoff_s=retry.backoff_ms / 1000, cool_down_s=self._settings.cool_down_s
        )

    def _configured(self, name: str, provider: str, *, in_chain: bool) -> ModelChoice:
        found = self._settings.providers[provider]
        return ModelChoice(
            alias=name,
            provider=provider,
            driver=found.driver,
            model=found.model,
            max_tokens=found.max_tokens,
            # S2's generate takes one text and nothing else.
            takes_tools=found.driver != WORKER and found.capabilities.tools is not False,
            sees=found.driver != WORKER and found.capabilities.images is not False,
            in_chain=in_chain,
        )

    def _named_directly(self, name: str, base_url: str) -> ModelChoice:
        """Resolve `driver/model`. Raises UnknownModel, BadAddress."""
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

    def stronger(self, name: str) -> str:
        """Return the model to call if `name` was not up to a request: the configuration's `upgrade` of it, the default
        for the cheap one, else itself."""
        upgraded = self._settings.upgrade.get(name, "")
        return upgraded or ("" if name == CHEAP else name)

    def select(self, selector: ModelSelector) -> Resolution:
        """Weigh the configured providers by a selector; aliases and models that were only found take no part."""
        return weigh(selector, {name: provider.tags for name, provider in self._settings.providers.items()})

    def access(self, choice: ModelChoice) -> ProviderAccess:
        """Return how the choice's provider is reached, with its key. Raises Unavailable if the key is missing or
        invalid, UnknownModel for a provider that is no longer configured."""
        if choice.driver == OFFLINE.driver:
            return ProviderAccess(driver=choice.driver)
        configured = self._settings.providers.get(choice.provider)
        if configured is None:
            if choice.provider.partition("@")[0] != choice.driver:
                # It was configured when the turn began. Its name does not say where to go now.
                raise UnknownModel(
                    f'There is no model "{choice.alias}" in the configuration any more.',
                    hint="Choose another model with %model. Your message is kept.",
                )
            return self._direct(choice)
        found = self._credentials.of(choice.label, configured.auth)
        is_worker = configured.driver == WORKER
        return ProviderAccess(
            driver=configured.driver,
            base_url=configured.base_url or base_url_of(configured.driver, self._env),
            socket=expanduser(configured.socket or DEFAULT_SOCKET) if is_worker else "",
            api_key=found.api_key,
            key_name=found.name,
            key_place=found.place,
            headers=found.headers,
            oauth2=found.oauth2,
            first_s=configured.timeout_s,
            next_s=configured.timeout_s,
            prices=configured.capabilities.prices,
        )

    def configured(self, choice: ModelChoice) -> ProviderSettings | None:
        """Return the configuration of exactly this model; None for `offline` and one that was named directly."""
        found = self._settings.providers.get(choice.provider)
        # A provider called "openai" may be another model than "openai/gpt-4o-mini".
        return found if found and (found.driver, found.model) == (choice.driver, choice.model) else None

    def address(self, choice: ModelChoice) -> str:
        """Return the address of the choice's provider; "" for the driver's usual one, a path for a worker's socket.
        Raises Unavailable if there is none."""
        found = self._settings.providers.get(choice.provider)
        if choice.driver == WORKER:
            return expanduser((found.socket if found else None) or DEFAULT_SOCKET)
        _, _, typed = choice.provider.partition("@")
        given = found.base_url if found else typed
        return given or base_url_of(choice.driver, self._env)

    def listed(self) -> tuple[Listed, ...]:
        """Return every model that has a name here, the offline script last."""
        found: list[Listed] = []
        for name, provider in self._settings.providers.items():
            place, missing = self._credentials.look(provider.auth)
            if not missing:
                missing = self._no_address(provider)
            found.append(
                Listed(
                    name=name,
                    driver=provider.driver,
                    model=provider.model,
                    key=place,
                    missing=missing,
                    is_default=name == self.default,
                    tags=provider.tags,
                )
            )
        for alias in self._settings.aliases:
            target = ", ".join(self._settings.targets(alias))
            found.append(Listed(name=alias, driver="alias", model=target, is_default=alias == self.default))
        offline = Listed(name="offline", driver="offline", model="script", is_default=self.default == "offline")
        return (*found, offline)

    def offers(self, ollama: Iterable[str] = ()) -> tuple[Offer, ...]:
        """Return what was found here: offered, never silently used. `ollama`: the models of an Ollama here."""
        keys = [
            Offer(found=f"{variable} is {'in the vault' if place == 'vault' else 'set'}", choose=SUGGESTIONS[driver])
            for driver in SUGGESTIONS
            for variable in KEY_VARIABLES[driver]
            if (place := self._credentials.look_for(variable)[0])
        ]
        return (*keys, *(Offer(found=f"Ollama has {name}", choose=f"ollama/{name}") for name in ollama))

    @property
    def ollama_address(self) -> str:
        """Where an Ollama would answer; "" if the environment's address is invalid."""
        try:
            return base_url_of("ollama", self._env)
        except Unavailable:
            return ""

    def _no_address(self, provider: ProviderSettings) -> str:
        """Return why the provider's address is unusable; "" if it is not."""
        try:
            _ = provider.base_url or base_url_of(provider.driver, self._env)
        except Unavailable as error:
            return str(error)
        return ""

    def _direct(self, choice: ModelChoice) -> ProviderAccess:
        _, _, typed = choice.provider.partition("@")
        base_url = typed or base_url_of(choice.driver, self._env)
        if typed or choice.driver in KEYLESS:
            # A typed address gets no key: a key belongs to the address that it was configured with.
            return ProviderAccess(driver=choice.driver, base_url=base_url)
        found = self._credentials.first_of(choice.alias, KEY_VARIABLES[choice.driver])
        return ProviderAccess(
            driver=choice.driver, base_url=base_url, api_key=found.api_key, key_name=found.name, key_place=found.place
        )


def _refuse_address(name: str, base_url: str) -> None:
    if base_url:
        raise BadAddress(
            f'"{name}" is reached as it is configured, and takes no other address.',
            hint=f"Choose it with %model {name}, or name a model directly for an address, for example {_WITH_ADDRESS}.",
        )


def _check_address(base_url: str) -> None:
    if base_url and not is_address(base_url):
        # It is not repeated: it may be a misplaced key.
        raise BadAddress(
            "What follows the model's name is not the address of a server.",
            hint=f"An address begins with http:// or https:// and has no spaces, for example {_WITH_ADDRESS}.",
        )
    parts = urlsplit(base_url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        # The address is recorded with the session and shown in cells, so it must not contain a password.
        raise BadAddress(
            "An address in a cell can't carry a name, a password or a query.",
            hint="Give it to a provider in the configuration, as its base_url (the README shows one).",
        )
