"""One model in full: what its name stands for, its key, what is known of it, how it fares and what it has used."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.facts import Capabilities
from ozzie_server_ext.models.failures import Place
from ozzie_server_ext.models.keys import KeyPlace
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.last_calls import LastCall, LastCalls
from ozzie_server_ext.tasks.model_knowledge import ModelKnowledge
from ozzie_server_ext.tasks.model_service import ModelService
from ozzie_server_ext.tasks.model_usage import ModelUsage, usage_of_model

WORKER_S = 40.0
"""How long a person who asks for a model waits for a worker that has to be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGlance:
    """What can be told of a model at once. `provider` is what the configuration calls it, empty for one that was named
    directly; another `name` is an alias for it. `address` is empty for the driver's usual one, and holds neither
    credentials nor path. `key_name` and `key`: what it is asked with, and where that lies. `missing` says why it can't
    be asked, if so; `health` how its last call ended, empty where it was not asked lately. `then` names those that are
    asked in this order where it can't answer, `stronger` those that are where it is not up to a request."""

    name: str
    provider: str
    driver: str
    model: str
    then: tuple[str, ...]
    stronger: tuple[str, ...]
    address: str
    is_default: bool
    tags: Mapping[str, str | int | float | bool]
    key_name: str
    key: KeyPlace
    missing: str
    health: str
    last_call: LastCall | None
    capabilities: Capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInFull:
    """`unasked` says why litellm's table could not be asked, if so."""

    glance: ModelGlance
    usage: ModelUsage
    unasked: str = ""


class ModelDetails:
    """Puts together what is known of one model."""

    def __init__(
        self, log: EventLog, clock: Clock, models: ModelService, knowledge: ModelKnowledge, last_calls: LastCalls
    ) -> None:
        self._log = log
        self._clock = clock
        self._models = models
        self._knowledge = knowledge
        self._last_calls = last_calls

    async def glance(self, name: str) -> ModelGlance:
        """What can be told at once; a worker is not started for it. Raises UnknownModel."""
        chain = await self._models.named(name)
        return await self._glance(chain, await self._knowledge.look(chain.first))

    async def show(self, name: str) -> ModelInFull:
        """Everything, also what only the model worker knows: where none runs, one is started. Raises UnknownModel."""
        chain = await self._models.named(name)
        choice, unasked = chain.first, ""
        try:
            async with asyncio.timeout(WORKER_S):
                found = await self._knowledge.find(choice)
        except Unavailable as error:
            found, unasked = await self._knowledge.look(choice), str(error)
        except TimeoutError:
            found, unasked = await self._knowledge.look(choice), "The model worker did not start in time."
        usage = await usage_of_model(self._log, self._clock, choice.provider, choice.model)
        return ModelInFull(glance=await self._glance(chain, found), usage=usage, unasked=unasked)

    async def _glance(self, chain: Chain, known: Capabilities) -> ModelGlance:
        choice, registry = chain.first, self._models.registry
        configured = registry.configured(choice)
        address, key_name, missing = "", "", ""
        key: KeyPlace = ""
        try:
            address = registry.address(choice)
            access = registry.access(choice)
            key_name, key = access.key_name, access.key_place
        except OzzieError as error:
            missing = str(error)
        await self._last_calls.refresh()
        return ModelGlance(
            name=choice.alias,
            provider=choice.provider if configured else "",
            driver=choice.driver,
            model=choice.model,
            then=tuple(other.provider for other in chain.choices[1:]),
            stronger=tuple(other.provider for other in chain.stronger),
            address=Place(address=address).shown,
            is_default=choice.alias == registry.default,
            tags=configured.tags if configured else {},
            key_name=key_name,
            key=key,
            missing=missing,
            health=self._last_calls.in_words(choice.provider, choice.model),
            last_call=self._last_calls.last_call(choice.provider, choice.model),
            capabilities=known,
        )
