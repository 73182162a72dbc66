"""Models for clients: which one answers, and each one's capabilities, health and usage."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import cast

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.config.settings import CHEAP, SUMMARIZER, CapabilitySettings
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import ERASURE_TYPES, INTERRUPTED, Event, ModelCallCompleted, ModelCallFailed
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.chain import Chain, Health
from ozzie_server_ext.models.credentials import KeyPlace, Secrets
from ozzie_server_ext.models.driver import ModelChoice, ProviderAccess, answers_in_worker
from ozzie_server_ext.models.facts import (
    Capabilities,
    FactBook,
    abilities,
    capabilities,
    installed_models,
    is_own_address,
)
from ozzie_server_ext.models.failures import ErrorContext
from ozzie_server_ext.models.registry import OFFLINE, ModelRegistry, UnknownModel
from ozzie_server_ext.models.selector import NoCandidate, parse_selector
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.worker import ModelFacts, ModelName
from ozzie_server_ext.render.models import call_end
from ozzie_server_ext.render.text import elapsed
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.budgets import DayUsage, today
from ozzie_server_ext.tasks.configuration import Configuration
from ozzie_server_ext.tasks.sessions import SessionInfo, Sessions

LOOKED_AT = 500
"""The number of recent calls that are read at first."""

_PAGE = 500
_ENDS = frozenset({ModelCallCompleted.type, ModelCallFailed.type})
_NOT_THE_MODELS = frozenset({"cancelled", INTERRUPTED})
"""Ends that say nothing about the model."""


class LastCall(msgspec.Struct, frozen=True, kw_only=True):
    """How a model's last call ended: `code` is that of `model.call.failed`, or empty after an answer; `finish` is the
    answer's."""

    ended_at: str
    code: str = ""
    finish: str = ""


class LastModelCalls:
    """The last call of each model, updated from the log by `refresh`. `cooling_s` returns for how many seconds a
    provider is avoided."""

    def __init__(
        self, log: EventLog, clock: Clock, *, cooling_s: Callable[[str], float] = lambda provider: 0.0
    ) -> None:
        self._log = log
        self._clock = clock
        self._cooling_s = cooling_s
        self._last: dict[tuple[str, str], LastCall] = {}
        self._position: int | None = None
        self._asking = asyncio.Lock()

    async def refresh(self) -> None:
        """Read new events. The other methods use what was read."""
        async with self._asking:
            if self._position is None:
                newest = await self._log.read(types=_ENDS, newest_first=True, limit=LOOKED_AT)
                await self._take(newest[::-1])
                self._position = newest[0].position if newest else 0
            while page := await self._log.read(after=self._position, types=_ENDS, limit=_PAGE):
                await self._take(page)
                self._position = page[-1].position

    def last_call(self, provider: str, model: str) -> LastCall | None:
        """Return the last call, or None if there was none lately."""
        return self._last.get((provider, model))

    def in_words(self, provider: str, model: str) -> str:
        """Return "answered 3 min ago" or "was busy just now, spared for 25 s"; empty if there was no call lately."""
        last = self.last_call(provider, model)
        if last is None:
            return ""
        ago = self._clock.now() - datetime.fromisoformat(last.ended_at)
        words = call_end(last.code, last.finish, ago.total_seconds())
        cooling = self._cooling_s(provider)
        return f"{words}, spared for {elapsed(cooling)}" if cooling >= 1 else words

    async def _take(self, ends: Sequence[Event]) -> None:
        ids = [event.body.call_id for event in ends if isinstance(event.body, ModelCallCompleted | ModelCallFailed)]
        rows = {row["call_id"]: row for row in await self._log.rows("model_calls", where={"call_id": list(ids)})}
        for row in filter(None, map(rows.get, ids)):
            code = str(row["error_code"])
            if code not in _NOT_THE_MODELS:
                ended = LastCall(ended_at=str(row["ended_at"]), code=code, finish=str(row["finish"]))
                self._last[str(row["provider"]), str(row["model"])] = ended


_TAKES_PICTURES = frozenset({"openai", "openai-compatible", "vllm", "litellm", "anthropic", "gemini", "ollama"})
"""Drivers that send pictures to any model."""


class ModelKnowledge:
    """The capabilities and prices of models. `registry` returns the current one; `is_ready`: a model worker runs."""

    def __init__(
        self, registry: Callable[[], ModelRegistry], book: FactBook, *, is_ready: Callable[[], bool] = lambda: False
    ) -> None:
        self._registry = registry
        self._book = book
        self.is_ready = is_ready

    async def find(self, choice: ModelChoice) -> Capabilities:
        """Return all capabilities, if necessary after starting a model worker. Raises Unavailable if that fails."""
        if name := self._listed(choice):
            await self._book.learn([name])
        return await self.look(choice)

    async def look(self, choice: ModelChoice) -> Capabilities:
        """Return the capabilities that are known without starting a worker."""
        name = self._listed(choice)
        if name and self.is_ready():
            with contextlib.suppress(Unavailable):
                await self._book.learn([name])
        return capabilities(self._set(choice), await self._ollama(choice), self._book.known(name) if name else None)

    async def informed(self, chain: Chain, *, wait_s: float | None) -> Chain:
        """Return the chain for a turn, with the known prices, lengths and capabilities.

        If the first model needs the worker, wait for it up to `wait_s`: the turn would wait anyway. If it does not
        come, unknown values stay unknown, and the call will report why.
        """
        if answers_in_worker(chain.first):
            everybody = (*chain.choices, *chain.stronger)
            open_questions = [name for choice in everybody if self._is_open(choice) and (name := self._listed(choice))]
            with contextlib.suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._book.learn(open_questions)
        return replace(
            chain, choices=await self._all_informed(chain.choices), stronger=await self._all_informed(chain.stronger)
        )

    async def priced(self, choice: ModelChoice) -> ModelChoice:
        """Return the choice with its prices and length. Raises Unavailable if they can't be looked up."""
        known = await self.find(choice)
        return replace(
            choice,
            sees=_sees(choice, known),
            max_output=known.max_output.value,
            context=known.context.value,
            prices=known.prices,
        )

    async def _all_informed(self, choices: tuple[ModelChoice, ...]) -> tuple[ModelChoice, ...]:
        return tuple([await self._informed(choice) for choice in choices])

    async def _informed(self, choice: ModelChoice) -> ModelChoice:
        if choice.driver == OFFLINE.driver:
            return choice
        known = await self.look(choice) if self._is_open(choice) else capabilities(self._set(choice), None, None)
        return replace(
            choice,
            takes_tools=choice.takes_tools and known.takes_tools,
            sees=_sees(choice, known),
            structured=known.structured.value is True,
            max_output=known.max_output.value,
            context=known.context.value,
            prices=known.prices,
        )

    def _is_open(self, choice: ModelChoice) -> bool:
        """Whether the configuration lacks anything that a turn needs to know about the model."""
        settings = self._set(choice)
        return (
            (choice.takes_tools and settings.tools is None)
            or (choice.sees and settings.images is None)
            or settings.prices is None
            or settings.max_output is None
        )

    async def _ollama(self, choice: ModelChoice) -> ModelFacts | None:
        """Return Ollama's facts about the model. Never cached, since the model behind a name may change."""
        if choice.driver != "ollama":
            return None
        try:
            address = self._registry().address(choice)
        except Unavailable:
            return None
        return await asyncio.to_thread(abilities, address, choice.model)

    def _set(self, choice: ModelChoice) -> CapabilitySettings:
        """Return the capabilities in the configuration."""
        found = self._registry().configured(choice)
        return found.capabilities if found else CapabilitySettings()

    def _listed(self, choice: ModelChoice) -> ModelName | None:
        """Return the name for litellm's table; None for models at other addresses, which may be anything."""
        try:
            address = self._registry().address(choice)
        except Unavailable:
            return None
        return ModelName(driver=choice.driver, model=choice.model) if is_own_address(choice.driver, address) else None


def _sees(choice: ModelChoice, known: Capabilities) -> bool:
    """Whether to send it pictures. If unknown, yes: it may refuse them. But for some providers litellm silently drops
    them, unless its own table says that the model can see."""
    images = known.images
    if choice.driver in _TAKES_PICTURES:
        return choice.sees and images.value is not False
    return choice.sees and images.value is True and images.source == "litellm"


_COUNTERS = tuple(name for name in DayUsage.__struct_fields__ if name != "day")


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The `day` of `total` is empty."""

    today: DayUsage
    total: DayUsage


async def usage_of_model(
    log: EventLog, clock: Clock, provider: str, model: str, *, zone: tzinfo | None = None
) -> ModelUsage:
    """Return a model's usage under all of its aliases. `zone` None means the machine's."""
    rows = await log.rows("usage", where={"provider": provider, "model": model})
    total = {name: sum(cast(int, row[name]) for row in rows) for name in _COUNTERS}
    day, midnight = today(clock.now(), zone)
    found, position = DayUsage(day=day), 0
    while page := await log.read(after=position, types=_ENDS | ERASURE_TYPES, since=midnight, limit=_PAGE):
        ends = [event for event in page if isinstance(event.body, ModelCallCompleted | ModelCallFailed)]
        ids = [cast("ModelCallCompleted | ModelCallFailed", event.body).call_id for event in ends]
        calls = await log.rows("model_calls", where={"call_id": list(ids), "provider": provider, "model": model})
        own = {call["call_id"] for call in calls}
        for event, call_id in zip(ends, ids, strict=True):
            if call_id in own:
                found = found.plus(event)
        for event in page:
            if event.type in ERASURE_TYPES:
                found = found.plus_erased(event, midnight, of=(provider, model))
        position = page[-1].position
    return ModelUsage(today=found, total=DayUsage(day="", **total))


log = logger(__name__)


class ModelService:
    """Resolves names under the current settings. `warm` starts the model worker in the background; `health` tracks
    recent failures until the settings change; `secrets` are those that Ozzie itself may see."""

    def __init__(
        self,
        configuration: Configuration,
        sessions: Sessions,
        *,
        warm: Callable[[], None],
        last_calls: LastModelCalls,
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
        """The name of the default model."""
        return self.registry.default

    async def listing(self) -> JsonObject:
        """Return the content of `%model`: all models, the default, models found here, and problems of the settings."""
        config = await self._configuration.refresh()
        registry = self.registry
        address = registry.ollama_address
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
        """Return the models behind a name, available or not; an empty name means the default. Raises UnknownModel."""
        await self._configuration.refresh()
        return self.registry.chain(name)

    async def resolve(self, raw: Json) -> JsonObject:
        """Return what a selector chooses, and the evaluation of all models; `reason` says why none was chosen.

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
        """Choose the model of a session; return what the name stands for, and `then` the fallbacks.

        Raises NotFound, UnknownModel, BadAddress, or Unavailable if its key is missing.
        """
        await self._configuration.refresh()
        chain = self._reachable(self.registry.chain(name, base_url=base_url))
        self._make_ready(chain.first)
        await self._sessions.choose_model(session_id, name, base_url, by=by)
        then: list[Json] = [choice.provider for choice in chain.choices[1:]]
        return {**encode(chain.first), "then": then}

    async def warm_up(self, session: SessionInfo) -> None:
        """Start the worker in the background if the session's model needs it: its imports take seconds."""
        try:
            self._make_ready(self._reachable(self.registry.chain(session.model, base_url=session.base_url)).first)
        except OzzieError as error:
            log.warning("the model worker was not started: %s", error)

    async def for_turn(self, session: SessionInfo, asked: str) -> Chain:
        """Return the available models for a turn; `asked` is the turn's own model, or empty. Raises like `choose`."""
        name = asked or session.model
        self._expect_settings(name)
        if self._version != (version := self._configuration.version):
            if self._version:  # else the project has only been opened
                self.health.forget()
            self._version = version
        return self._reachable(self.registry.chain(name, base_url=session.base_url if name == session.model else ""))

    def _expect_settings(self, name: str) -> None:
        """Raise Unavailable if the settings could never be read and the model may cost money: their budgets are
        unknown."""
        if not self._configuration.error or self._configuration.version:
            return
        with contextlib.suppress(UnknownModel):  # possibly a name in the invalid configuration
            if self.registry.chain(name).first.driver == OFFLINE.driver:
                return
        raise Unavailable(
            "The configuration was refused, so what a model may cost is not known.",
            hint=f"{self._configuration.error} Fix it and run the cell again. Your message is kept.",
            code="config.refused",
        )

    def cheaper(self) -> Chain | None:
        """Return the available models for turns whose budget has no room for their own, or None."""
        if not self.registry.has_alias(CHEAP):
            return None
        chain = self.registry.chain(CHEAP)
        return self._reachable(chain) if any(self._can_be_asked(choice) for choice in chain.choices) else None

    def checker(self, own: Chain) -> Chain | None:
        """Return the available models that check calls of a turn answered by `own`, or None. Without a configured one,
        `own` checks itself. The offline driver does not count as a model."""
        settings = self._configuration.current.settings
        name = settings.approvals.checker
        chain = self.registry.chain(name) if settings.models.providers_of(name) else own
        if chain.first.driver == OFFLINE.driver or not any(self._can_be_asked(choice) for choice in chain.choices):
            return None
        return self._reachable(chain)

    def summarizer(self, own: Chain | None) -> Chain | None:
        """Return the available models that summarize: those of the alias `summarizer`, else of `cheap`, else the turn's
        `own`, if that may. The offline driver does not count as a model."""
        alias = next((name for name in (SUMMARIZER, CHEAP) if self.registry.has_alias(name)), "")
        chain = self.registry.chain(alias) if alias else own
        if chain is None:
            return None
        if chain.first.driver == OFFLINE.driver or not any(self._can_be_asked(choice) for choice in chain.choices):
            return None
        return self._reachable(chain)

    def _reachable(self, chain: Chain) -> Chain:
        """Return the available models of a chain. Raises Unavailable if there is none."""
        reachable = tuple(choice for choice in chain.choices if self._can_be_asked(choice))
        if not reachable:
            self.access(chain.first)  # raises what the first one lacks
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
        """Return the access to a model's provider under the current settings. Raises Unavailable."""
        return self.registry.access(choice)

    def _make_ready(self, choice: ModelChoice) -> None:
        if answers_in_worker(choice):
            self._warm()


WORKER_S = 40.0
"""How long the details of a model wait for a worker to start."""


class ModelGlance(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a model at once.

    `provider` is its name in the configuration, empty for one that was named directly; another `name` is an alias of
    it. `address` is empty for the driver's default, and has neither credentials nor path. `key_name` and `key` are its
    key and the place of that. `missing` says why the model is not available; `health` how its last call ended, or
    empty. `then` are the fallbacks in order, `stronger` those for requests that are too much for it.
    """

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


class ModelInFull(msgspec.Struct, frozen=True, kw_only=True):
    """`unasked` says why litellm's table could not be read, or is empty."""

    glance: ModelGlance
    usage: ModelUsage
    unasked: str = ""


class ModelDetails:
    """Collects the details of one model."""

    def __init__(
        self, log: EventLog, clock: Clock, models: ModelService, knowledge: ModelKnowledge, last_calls: LastModelCalls
    ) -> None:
        self._log = log
        self._clock = clock
        self._models = models
        self._knowledge = knowledge
        self._last_calls = last_calls

    async def glance(self, name: str) -> ModelGlance:
        """Return what is known without starting a worker. Raises UnknownModel."""
        chain = await self._models.named(name)
        return await self._glance(chain, await self._knowledge.look(chain.first))

    async def show(self, name: str) -> ModelInFull:
        """Return everything, if necessary after starting a model worker. Raises UnknownModel."""
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
            address=ErrorContext(address=address).shown,
            is_default=choice.alias == registry.default,
            tags=configured.tags if configured else {},
            key_name=key_name,
            key=key,
            missing=missing,
            health=self._last_calls.in_words(choice.provider, choice.model),
            last_call=self._last_calls.last_call(choice.provider, choice.model),
            capabilities=known,
        )
