"""What is known of a model: from the configuration, else from its Ollama, else from litellm's table."""

import asyncio
import contextlib
import http.client
import itertools
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from ozzie_server_ext.config.settings import CapabilitySettings
from ozzie_server_ext.domain.budget import TokenPrices
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.planes.channel import Channel
from ozzie_server_ext.protocol.codec import InvalidShape
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object
from ozzie_server_ext.protocol.worker import Abort, Describe, ModelFacts, ModelName, command_json, parse_described

OWN_HOSTS: Mapping[str, str] = {
    "anthropic": "api.anthropic.com",
    "openai": "api.openai.com",
    "gemini": "generativelanguage.googleapis.com",
    "deepseek": "api.deepseek.com",
}
"""The hosts that the providers' own clients use by default."""

ANYWHERE = frozenset({"ollama"})
"""Drivers whose models are the same wherever they run."""


def is_own_address(driver: str, base_url: str) -> bool:
    """Whether the driver's own provider answers there. `base_url` is empty for the driver's usual address. At any other
    address a model may be anything and have any price, whatever its name."""
    if driver in ANYWHERE:
        return True
    own = OWN_HOSTS.get(driver)
    return own is not None and (not base_url or urlsplit(base_url).hostname == own)


TIMEOUT_S = 0.5
MAX_BYTES = 1 << 20
MAX_NAMES = 30
_MAX_NAME_LENGTH = 200


def installed_models(base_url: str, *, timeout_s: float = TIMEOUT_S) -> tuple[str, ...]:
    """Return the models at `base_url`; none if no Ollama answers in time. Blocks: not for the event loop."""
    models = _request(base_url, "GET", "/api/tags", None, timeout_s).get("models")
    names = [model.get("name") for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return tuple(
        name for name in names if isinstance(name, str) and name.isprintable() and 0 < len(name) <= _MAX_NAME_LENGTH
    )[:MAX_NAMES]


def abilities(base_url: str, model: str, *, timeout_s: float = TIMEOUT_S) -> ModelFacts:
    """Return what the Ollama at `base_url` says that its model can do; nothing if it does not answer in time, lacks the
    model, or is too old. Blocks, like `installed_models`."""
    named = _request(base_url, "POST", "/api/show", {"model": model}, timeout_s).get("capabilities")
    if not isinstance(named, list) or not named:
        return ModelFacts()
    # Ollama names every ability that a model has.
    return ModelFacts(tools="tools" in named, images="vision" in named, reasoning="thinking" in named)


def _request(base_url: str, method: str, path: str, body: JsonObject | None, timeout_s: float) -> JsonObject:
    """Return the answer, or {} if there is none. Never goes through a proxy, and does not follow redirects."""
    parts = urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body else {})}
    try:
        connection.connect()
        # The time-out applies to each piece: a server that sends a byte now and then would keep the thread for ever.
        cut = threading.Timer(timeout_s, _cut, [connection.sock])
        cut.start()
        try:
            connection.request(method, f"{parts.path.rstrip('/')}{path}", json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return loads_object(response.read(MAX_BYTES)) if response.status == 200 else {}
        finally:
            cut.cancel()
    except (OSError, http.client.HTTPException, InvalidJson, ValueError):
        return {}
    finally:
        connection.close()


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


ANSWER_S = 5.0
"""How long a running worker may take: it only looks into a table."""

MAX_KNOWN = 1024
"""The number of models whose facts are kept: names typed into cells would add up for ever."""


class FactBook:
    """Asks each worker once about each model. `channel` returns the connection to a worker that is ready."""

    def __init__(self, channel: Callable[[], Awaitable[Channel]]) -> None:
        self._channel = channel
        self._learnt: dict[ModelName, tuple[ModelFacts, Channel]] = {}
        """Facts, and the worker that sent them."""
        self._numbers = itertools.count(1)

    def known(self, name: ModelName) -> ModelFacts | None:
        """Return the facts that are known, without asking a worker."""
        found = self._learnt.get(name)
        return found[0] if found else None

    async def learn(self, names: Iterable[ModelName]) -> None:
        """Ask about models that no running worker has described; starts a worker if none runs. Raises Unavailable if no
        worker answers."""
        missing = tuple(dict.fromkeys(name for name in names if not self._is_fresh(name)))
        if not missing:
            return
        channel = await self._channel()
        for name, facts in zip(missing, await self._ask(channel, missing), strict=True):
            self._learnt.pop(name, None)
            self._learnt[name] = facts, channel
        while len(self._learnt) > MAX_KNOWN:
            del self._learnt[next(iter(self._learnt))]

    def _is_fresh(self, name: ModelName) -> bool:
        # The next worker may have another version of the table.
        found = self._learnt.get(name)
        return found is not None and found[1].is_open

    async def _ask(self, channel: Channel, names: tuple[ModelName, ...]) -> tuple[ModelFacts, ...]:
        call_id = f"describe:{next(self._numbers)}"
        inbox = channel.open_call(
            call_id,
            start=command_json(Describe(id=call_id, models=names)),
            abort=command_json(Abort(session_id=call_id, id=call_id)),
        )
        try:
            async with asyncio.timeout(ANSWER_S):
                described = parse_described(await inbox.get())
        except (TimeoutError, InvalidShape) as error:
            raise _silent() from error
        finally:
            channel.close_call(inbox)
        if len(described) != len(names):
            raise _silent()
        return described


def _silent() -> Unavailable:
    return Unavailable("The model worker does not say what it knows of models.", code="worker.silent")


T = TypeVar("T")

FactSource: TypeAlias = Literal["configuration", "Ollama", "litellm", "unknown"]


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """A number and its source; None if unknown."""

    value: int | None = None
    source: FactSource = "unknown"


class Ability(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a model can do something, and the source; None if unknown, which is not the same as false."""

    value: bool | None = None
    source: FactSource = "unknown"


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a model, each with its source. `context` and `max_output` in tokens, of the conversation and of one
    answer; prices in 1e-9 USD per million tokens."""

    context: Amount = Amount()
    max_output: Amount = Amount()
    tools: Ability = Ability()
    parallel_tools: Ability = Ability()
    images: Ability = Ability()
    structured: Ability = Ability()
    reasoning: Ability = Ability()
    price_in: Amount = Amount()
    price_out: Amount = Amount()

    @property
    def prices(self) -> TokenPrices | None:
        """Both, or None."""
        if self.price_in.value is None or self.price_out.value is None:
            return None
        return TokenPrices(read=self.price_in.value, written=self.price_out.value)

    @property
    def takes_tools(self) -> bool:
        """Whether tools may be offered: also if that is unknown, as it may refuse them itself."""
        return self.tools.value is not False


def capabilities(configured: CapabilitySettings, ollama: ModelFacts | None, listed: ModelFacts | None) -> Capabilities:
    """Combine, fact by fact, what is `configured`, what an Ollama says of its model, and what litellm's table lists, in
    this order of precedence; None if that source was not asked."""
    ollama, listed = ollama or ModelFacts(), listed or ModelFacts()
    prices = configured.prices

    def amount(own: int | None, from_ollama: int | None, from_table: int | None) -> Amount:
        source = _source(own, from_ollama, from_table)
        return Amount(value=_first(own, from_ollama, from_table), source=source)

    def ability(own: bool | None, from_ollama: bool | None, from_table: bool | None) -> Ability:
        source = _source(own, from_ollama, from_table)
        return Ability(value=_first(own, from_ollama, from_table), source=source)

    return Capabilities(
        context=amount(configured.context, ollama.context, listed.context),
        max_output=amount(configured.max_output, ollama.max_output, listed.max_output),
        tools=ability(configured.tools, ollama.tools, listed.tools),
        parallel_tools=ability(configured.parallel_tools, ollama.parallel_tools, listed.parallel_tools),
        images=ability(configured.images, ollama.images, listed.images),
        structured=ability(configured.structured, ollama.structured, listed.structured),
        reasoning=ability(configured.reasoning, ollama.reasoning, listed.reasoning),
        price_in=amount(prices.read if prices else None, ollama.price_in, listed.price_in),
        price_out=amount(prices.written if prices else None, ollama.price_out, listed.price_out),
    )


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)


def _source(own: int | None, from_ollama: int | None, from_table: int | None) -> FactSource:
    if own is not None:
        return "configuration"
    if from_ollama is not None:
        return "Ollama"
    return "unknown" if from_table is None else "litellm"
