"""Models as clients see them: which one answers in a session, and the worker made ready for it."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ozzie_server_ext.config.settings import CHEAP
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ModelChoice, ProviderAccess
from ozzie_server_ext.models.health import Health
from ozzie_server_ext.models.keys import Secrets
from ozzie_server_ext.models.ollama import installed_models
from ozzie_server_ext.models.registry import OFFLINE, ModelRegistry, UnknownModel
from ozzie_server_ext.models.router import answers_in_worker
from ozzie_server_ext.models.selector import NoCandidate, parse_selector
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.tasks.configuration import Configuration
from ozzie_server_ext.tasks.last_calls import LastCalls
from ozzie_server_ext.tasks.sessions import SessionInfo, Sessions

log = logger(__name__)


class ModelService:
    """Resolves names under the settings of the moment. `warm` begins to start the model worker; `last_calls` tell how
    models fare, `health` who has just failed, until the settings change; `secrets` are those that Ozzie itself may
    see."""

    def __init__(
        self,
        configuration: Configuration,
        sessions: Sessions,
        *,
        warm: Callable[[], None],
        last_calls: LastCalls,
        config_file: Path,
        health: Health,
        secrets: Secrets | None = None,
    ) -> None:
        self._configuration = configuration
        self._sessions = sessions
        self._warm = warm
        self._last_calls = last_calls
        self._config_file = config_file
        self.health = health
        self._secrets = secrets
        self._version = ""

    @property
    def registry(self) -> ModelRegistry:
        config = self._configuration.current
        return ModelRegistry(config.settings.models, config.env, self._secrets)

    @property
    def default(self) -> str:
        """The name of the model that answers where nobody chose one."""
        return self.registry.default

    async def listing(self) -> JsonObject:
        """What `%model` shows: every model, the default, what was found here, and what is wrong with the settings."""
        config = await self._configuration.refresh()
        registry = self.registry
        address = registry.ollama_address
        # In a thread: it waits for whatever is or is not at that address.
        ollama = await asyncio.to_thread(installed_models, address) if address else ()
        await self._last_calls.refresh()
        return {
            "default": registry.default,
            "models": [
                {**encode(model), "health": self._last_calls.in_words(model.name, model.model)}
                for model in registry.listed()
            ],
            "offers": [encode(offer) for offer in registry.offers(ollama)],
            "config_file": str(self._config_file),
            "config_error": self._configuration.error,
            "ignored_config": list(config.ignored),
        }

    async def named(self, name: str) -> Chain:
        """What a name stands for now, whether it can be asked or not; an empty one for the default.

        Raises UnknownModel.
        """
        await self._configuration.refresh()
        return self.registry.chain(name)

    async def resolve(self, raw: Json) -> JsonObject:
        """What a selector chooses, and how every model fared; `reason` says why none was chosen, if so.

        Raises InvalidSelector.
        """
        selector = parse_selector(raw)
        await self._configuration.refresh()
        found = self.registry.select(selector)
        reason = ""
        try:
            found.expect()
        except NoCandidate as error:
            reason = str(error)
        models = {listed.name: f"{listed.driver}/{listed.model}" for listed in self.registry.listed()}
        return {
            "chosen": found.chosen,
            "model": models.get(found.chosen or "", ""),
            "reason": reason,
            "wishes": found.wishes,
            "weighed": [
                {**encode(each), "fits": each.fits, "score": each.score, "model": models[each.name]}
                for each in found.weighed
            ],
        }

    async def choose(self, session_id: SessionId, name: str, base_url: str, *, by: str = "") -> JsonObject:
        """Fix what answers in a session from now on; says what it stands for, and `then` who answers where it can't.

        Raises NotFound, UnknownModel, BadAddress, or Unavailable where its key is missing.
        """
        await self._configuration.refresh()
        chain = self._reachable(self.registry.chain(name, base_url=base_url))
        self._make_ready(chain.first)
        await self._sessions.choose_model(session_id, name, base_url, by=by)
        then: list[Json] = [choice.provider for choice in chain.choices[1:]]
        return {**encode(chain.first), "then": then}

    async def warm_up(self, session: SessionInfo) -> None:
        """Begin to start what the session's model needs: the worker's imports take seconds (DESIGN §2.15)."""
        try:
            self._make_ready(self._reachable(self.registry.chain(session.model, base_url=session.base_url)).first)
        except OzzieError as error:
            log.warning("the model worker was not started: %s", error)

    async def for_turn(self, session: SessionInfo, asked: str) -> Chain:
        """Who answers a turn of the session; `asked` is the turn's own wish. Left out are those that can't be asked as
        things are, without a key for one, while any other can. Raises as `choose` does.
        """
        name = asked or session.model
        self._expect_settings(name)
        if self._version != (version := self._configuration.version):
            self._version = version
            self.health.forget()
        return self._reachable(self.registry.chain(name, base_url=session.base_url if name == session.model else ""))

    def _expect_settings(self, name: str) -> None:
        """Nothing that may cost is asked under settings that nobody could read: who knows which budgets they set.
        Raises Unavailable."""
        if not self._configuration.error or self._configuration.version:
            return
        with contextlib.suppress(UnknownModel):  # a name of the configuration, as it may be
            if self.registry.chain(name).first == OFFLINE:
                return
        raise Unavailable(
            "The configuration was refused, so what a model may cost is not known.",
            hint=f"{self._configuration.error} Mend it and run the cell again. Your message is kept.",
            code="config.refused",
        )

    def cheaper(self) -> Chain | None:
        """Who is named for turns whose budget has no room for their own model, and can be asked; None for nobody."""
        if not self.registry.has_alias(CHEAP):
            return None
        chain = self.registry.chain(CHEAP)
        return self._reachable(chain) if any(self._can_be_asked(choice) for choice in chain.choices) else None

    def checker(self, own: Chain) -> Chain | None:
        """Who looks at calls that a rule has checked, for a turn that `own` answers; None where nobody can be asked.
        Where nothing has the usual name it is the turn's own model, asked for itself. A script is no second model."""
        settings = self._configuration.current.settings
        name = settings.approvals.checker
        chain = self.registry.chain(name) if settings.models.providers_of(name) else own
        if chain.first == OFFLINE or not any(self._can_be_asked(choice) for choice in chain.choices):
            return None
        return self._reachable(chain)

    def _reachable(self, chain: Chain) -> Chain:
        """Of a chain those that can be asked. Raises Unavailable where none can."""
        reachable = tuple(choice for choice in chain.choices if self._can_be_asked(choice))
        if not reachable:
            self.access(chain.first)  # says what the first one lacks
            reachable = (chain.first,)
        stronger = tuple(choice for choice in chain.stronger if self._can_be_asked(choice))
        return replace(chain, choices=reachable, stronger=stronger)

    def _can_be_asked(self, choice: ModelChoice) -> bool:
        try:
            self.access(choice)
        except OzzieError:
            return False
        return True

    def access(self, choice: ModelChoice) -> ProviderAccess:
        """How the choice's provider is reached under the settings of the moment. Raises Unavailable."""
        return self.registry.access(choice)

    def _make_ready(self, choice: ModelChoice) -> None:
        if answers_in_worker(choice):
            self._warm()
