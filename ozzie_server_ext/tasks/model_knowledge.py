"""What is known of the models that can be chosen, under the settings of the moment."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

from ozzie_server_ext.config.settings import CapabilitySettings
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.models.chain import Chain
from ozzie_server_ext.models.driver import ModelChoice
from ozzie_server_ext.models.fact_book import FactBook
from ozzie_server_ext.models.facts import Capabilities, capabilities
from ozzie_server_ext.models.ollama import abilities
from ozzie_server_ext.models.own_address import is_own_address
from ozzie_server_ext.models.registry import OFFLINE, ModelRegistry
from ozzie_server_ext.models.router import answers_in_worker
from ozzie_server_ext.protocol.worker import ModelFacts, ModelName

_TAKES_PICTURES = frozenset({"openai", "openai-compatible", "vllm", "litellm", "anthropic", "gemini", "ollama"})
"""Drivers whose requests keep their pictures whatever model they name."""


class ModelKnowledge:
    """`registry` gives that of the moment; `is_ready` tells whether a model worker would answer at once."""

    def __init__(
        self, registry: Callable[[], ModelRegistry], book: FactBook, *, is_ready: Callable[[], bool] = lambda: False
    ) -> None:
        self._registry = registry
        self._book = book
        self._is_ready = is_ready

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
        if name and self._is_ready():
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
