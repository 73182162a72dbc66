"""Models as clients see them: which one answers, what is known of each, how it fares, what it used."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import cast

from ozzie_server_ext.config.settings import CHEAP, CapabilitySettings
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.events import INTERRUPTED, Event, ModelCallCompleted, ModelCallFailed
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
"""So many calls are looked at when first asked: a model that none of them was made to was not asked lately."""

_PAGE = 500
_ENDS = frozenset({ModelCallCompleted.type, ModelCallFailed.type})
_SAYS_NOTHING = frozenset({"cancelled", INTERRUPTED})
"""Ends that were not the model's doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCall:
    """How a model's newest call ended: `code` as in `model.call.failed`, empty where it answered; `finish` how the
    answer ended."""

    ended_at: str
    code: str = ""
    finish: str = ""


class LastModelCalls:
    """Follows the ends of calls, of the log what is new since it was asked last. `cooling_s` tells for how many seconds
    a provider is asked only after others."""

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
        """Look what has happened since; the rest tells of what was seen here."""
        async with self._asking:
            if self._position is None:
                newest = await self._log.read(types=_ENDS, newest_first=True, limit=LOOKED_AT)
                await self._take(newest[::-1])
                self._position = newest[0].position if newest else 0
            while page := await self._log.read(after=self._position, types=_ENDS, limit=_PAGE):
                await self._take(page)
                self._position = page[-1].position

    def last_call(self, provider: str, model: str) -> LastCall | None:
        """None where it was not asked lately."""
        return self._last.get((provider, model))

    def in_words(self, provider: str, model: str) -> str:
        """ "answered 3 min ago", "was busy just now, spared for 25 s"; empty where nothing is known."""
        last = self.last_call(provider, model)
        if last is None:
            return ""
        ago = self._clock.now() - datetime.fromisoformat(last.ended_at)
        said = call_end(last.code, last.finish, ago.total_seconds())
        cooling = self._cooling_s(provider)
        return f"{said}, spared for {elapsed(cooling)}" if cooling >= 1 else said

    async def _take(self, ends: Sequence[Event]) -> None:
        """Remember these ends, the oldest first."""
        ids = [event.body.call_id for event in ends if isinstance(event.body, ModelCallCompleted | ModelCallFailed)]
        rows = {row["call_id"]: row for row in await self._log.rows("model_calls", where={"call_id": list(ids)})}
        for row in filter(None, map(rows.get, ids)):
            code = str(row["error_code"])
            if code not in _SAYS_NOTHING:
                ended = LastCall(ended_at=str(row["ended_at"]), code=code, finish=str(row["finish"]))
                self._last[str(row["provider"]), str(row["model"])] = ended


_TAKES_PICTURES = frozenset({"openai", "openai-compatible", "vllm", "litellm", "anthropic", "gemini", "ollama"})
"""Drivers whose requests keep their pictures whatever model they name."""


class ModelKnowledge:
    """`registry` gives that of the moment; `is_ready` tells whether a model worker answers at once."""

    def __init__(
        self, registry: Callable[[], ModelRegistry], book: FactBook, *, is_ready: Callable[[], bool] = lambda: False
    ) -> None:
        self._registry = registry
        self._book = book
        self.is_ready = is_ready

    async def find(self, choice: ModelChoice) -> Capabilities:
        """Everything that can be known, waiting for the model worker where it has to be asked.

        Raises Unavailable where it has to be, and does not answer.
        """
        if name := self._listed(choice):
            await self._book.learn([name])
        return await self.look(choice)

    async def look(self, choice: ModelChoice) -> Capabilities:
        """What can be known at once: a worker that does not run is not started for it."""
        name = self._listed(choice)
        if name and self.is_ready():
            with contextlib.suppress(Unavailable):
                await self._book.learn([name])
        return capabilities(self._said(choice), await self._ollama(choice), self._book.known(name) if name else None)

    async def informed(self, chain: Chain, *, wait_s: float | None) -> Chain:
        """The chain as a turn takes it: with prices and lengths as far as they are known, and no tools offered to
        models that are known to take none.

        Where the first needs the worker, the turn waits for it anyway, so nothing is lost by waiting here. Where none
        comes in time, what nobody knows stays as it was: the call itself will say why.
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
        """The choice with what is known of its price and length. Raises Unavailable where it can't be asked for."""
        known = await self.find(choice)
        return replace(choice, sees=_sees(choice, known), max_output=known.max_output.value, prices=known.prices)

    async def _all_informed(self, choices: tuple[ModelChoice, ...]) -> tuple[ModelChoice, ...]:
        return tuple([await self._informed(choice) for choice in choices])

    async def _informed(self, choice: ModelChoice) -> ModelChoice:
        if choice.driver == OFFLINE.driver:
            return choice
        known = await self.look(choice) if self._is_open(choice) else capabilities(self._said(choice), None, None)
        return replace(
            choice,
            takes_tools=choice.takes_tools and known.takes_tools,
            sees=_sees(choice, known),
            structured=known.structured.value is True,
            max_output=known.max_output.value,
            prices=known.prices,
        )

    def _is_open(self, choice: ModelChoice) -> bool:
        """Whether the configuration leaves anything open that a turn has to know of the model."""
        said = self._said(choice)
        return (
            (choice.takes_tools and said.tools is None)
            or (choice.sees and said.images is None)
            or said.prices is None
            or said.max_output is None
        )

    async def _ollama(self, choice: ModelChoice) -> ModelFacts | None:
        """What the choice's Ollama says of the model. Asked each time: the model of a name may be another tomorrow."""
        if choice.driver != "ollama":
            return None
        try:
            address = self._registry().address(choice)
        except Unavailable:
            return None
        return await asyncio.to_thread(abilities, address, choice.model)

    def _said(self, choice: ModelChoice) -> CapabilitySettings:
        found = self._registry().configured(choice)
        return found.capabilities if found else CapabilitySettings()

    def _listed(self, choice: ModelChoice) -> ModelName | None:
        """The name under which litellm's table may speak of the model; None where it can't: anybody may run anything
        at an address of their own."""
        try:
            address = self._registry().address(choice)
        except Unavailable:
            return None
        return ModelName(driver=choice.driver, model=choice.model) if is_own_address(choice.driver, address) else None


def _sees(choice: ModelChoice, known: Capabilities) -> bool:
    """Whether it may be shown pictures. Where nobody knows, it is, and may refuse them itself; but litellm drops them
    without a word on the way to some providers, unless its own table says that the model sees."""
    images = known.images
    if choice.driver in _TAKES_PICTURES:
        return choice.sees and images.value is not False
    return choice.sees and images.value is True and images.source == "litellm"


_COUNTERS = tuple(name for name in DayUsage.__slots__ if name != "day")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """`total` is of no day: its `day` is empty."""

    today: DayUsage
    total: DayUsage


async def usage_of_model(
    log: EventLog, clock: Clock, provider: str, model: str, *, zone: tzinfo | None = None
) -> ModelUsage:
    """By whatever alias the model was asked. `zone` is the machine's where it is None."""
    rows = await log.rows("usage", where={"provider": provider, "model": model})
    total = {name: sum(cast(int, row[name]) for row in rows) for name in _COUNTERS}
    day, midnight = today(clock.now(), zone)
    found, position = DayUsage(day=day), 0
    while page := await log.read(after=position, types=_ENDS, since=midnight, limit=_PAGE):
        ends = [event for event in page if isinstance(event.body, ModelCallCompleted | ModelCallFailed)]
        ids = [cast("ModelCallCompleted | ModelCallFailed", event.body).call_id for event in ends]
        calls = await log.rows("model_calls", where={"call_id": list(ids), "provider": provider, "model": model})
        own = {call["call_id"] for call in calls}
        for event, call_id in zip(ends, ids, strict=True):
            if call_id in own:
                found = found.plus(event)
        position = page[-1].position
    return ModelUsage(today=found, total=DayUsage(day="", **total))


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
        """Begin to start what the session's model needs: the worker's imports take seconds."""
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
        self, log: EventLog, clock: Clock, models: ModelService, knowledge: ModelKnowledge, last_calls: LastModelCalls
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
