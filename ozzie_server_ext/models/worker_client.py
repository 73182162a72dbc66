"""Models behind the NDJSON worker, as a driver: every provider that litellm knows."""

import asyncio
import base64
import contextlib
import itertools
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import cast, get_args
from weakref import WeakKeyDictionary

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.driver import (
    AccessOf,
    Finished,
    ModelError,
    ModelErrorCode,
    ModelEvent,
    ModelRequest,
    ProviderAccess,
    Reasoning,
    TextDelta,
    finished,
)
from ozzie_server_ext.models.failures import ErrorContext, model_error
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.channel import CallDropped, Channel, ChannelLost
from ozzie_server_ext.planes.pool import Pool
from ozzie_server_ext.planes.supervisor import PlaneUnavailable
from ozzie_server_ext.protocol.codec import InvalidShape
from ozzie_server_ext.protocol.ndjson import LineTooLong
from ozzie_server_ext.protocol.worker import (
    Abort,
    Configure,
    Error,
    Generate,
    Provider,
    Stop,
    Token,
    command_json,
    parse_event,
)
from ozzie_server_ext.protocol.worker import Reasoning as WorkerReasoning
from ozzie_server_ext.render.text import visible_label

log = logger(__name__)

WORKER_ARGV = (sys.executable, "-P", "-m", "ozzie_server_ext.programs.model_worker")
"""`-P`: a `json.py` in the user's folder must not replace the library's."""

MAX_PROVIDERS = 256
"""How many providers a worker knows at a time; a call sends its own just before, so any number can be used."""

_NUMBERS = itertools.count(1)
_CODES = frozenset(get_args(ModelErrorCode))


class KnownProviders:
    """What each worker was told of providers; one for all drivers of a pool. A worker is told of a provider just before
    the call that needs it, as a new one knows none."""

    def __init__(self) -> None:
        self._sent: WeakKeyDictionary[Channel, dict[str, ProviderAccess]] = WeakKeyDictionary()

    def send(self, channel: Channel, name: str, access: ProviderAccess) -> None:
        """Tell a worker how a provider is reached, if it does not know. Messages on a connection keep their order, so
        nothing may be awaited between this and the call. Raises ChannelLost."""
        sent = self._sent.setdefault(channel, {})
        known = sent.pop(name, None)
        sent[name] = access
        if known == access:
            return
        while len(sent) > MAX_PROVIDERS:
            # Drop the least recently used: addresses typed into cells would add up for ever.
            del sent[next(iter(sent))]
        channel.post(_configuration(sent))

    async def forget(self) -> None:
        """Have every worker forget all keys; each later call brings its own. Running calls go on."""
        await asyncio.gather(*(self._forget_on(channel) for channel in list(self._sent)))

    async def _forget_on(self, channel: Channel) -> None:
        # Both at once: a call in between would count on what its worker is about to forget.
        self._sent.pop(channel, None)
        with contextlib.suppress(ChannelLost):
            await channel.send(_configuration({}))


class WorkerDriver:
    """Sends calls to the workers that `pool` keeps.

    A call is sent once, whatever happens to its worker: sent again it would be another call, with a cost of its own
    (`models.chain`).
    """

    def __init__(
        self,
        pool: Pool,
        access: AccessOf,
        content: Callable[[BlobRef], Awaitable[bytes]] | None = None,
        *,
        known: KnownProviders | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`content` reads the picture of a reference; `known` is shared with the other drivers of the pool, if any."""
        self._pool = pool
        self._access = access
        self._content = content
        self.known = known or KnownProviders()
        self._clock = clock or SystemClock()

    def warm(self) -> None:
        """Begin to start a worker, so that the first cell does not wait for it. Raises PlaneUnavailable."""
        self._pool.start()

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        started = self._clock.monotonic()
        access = self._access(request.choice)
        pictures = await self._pictures(request)
        channel = await self._channel(request)
        # The caller chose the call's own id, so it may not be unique, and several drivers share a worker.
        wire_id = f"{request.call_id}:{next(_NUMBERS)}"
        text: list[str] = []
        ttft_ms: float | None = None
        try:
            self.known.send(channel, request.choice.provider, access)
            inbox = channel.open_call(
                wire_id,
                start=command_json(command_of(request, wire_id, access, pictures)),
                abort=command_json(Abort(session_id=request.call_id, id=wire_id)),
            )
        except ChannelLost as error:
            raise model_error("worker.lost", request.choice, detail=str(error)) from error
        except LineTooLong as error:
            raise model_error("provider.context_length", request.choice, detail=str(error)) from error
        try:
            while True:
                match parse_event(await inbox.get()):
                    case Token(text=piece) if piece:
                        if ttft_ms is None:
                            ttft_ms = (self._clock.monotonic() - started) * 1000
                        text.append(piece)
                        yield TextDelta(piece)
                    case WorkerReasoning():
                        yield Reasoning()
                    case Stop() as stop:
                        yield finished_of(stop, access, "".join(text), ttft_ms)
                        return
                    case Error() as error:
                        raise failure_of(error, request, access, streamed=bool(text))
                    case _:
                        pass
        except ChannelLost as error:
            raise model_error("worker.lost", request.choice, detail=str(error), streamed=bool(text)) from error
        except CallDropped as error:
            detail = str(error)
            raise model_error("provider.broken_stream", request.choice, detail=detail, streamed=True) from error
        except InvalidShape as error:
            raise model_error("provider.garbage", request.choice, detail=str(error), streamed=bool(text)) from error
        finally:
            channel.close_call(inbox)

    async def _channel(self, request: ModelRequest) -> Channel:
        try:
            return await self._pool.channel()
        except PlaneUnavailable as error:
            raise model_error("worker.unavailable", request.choice, detail=str(error)) from error

    async def _pictures(self, request: ModelRequest) -> dict[str, str]:
        """Return the base64 content of pictures: a worker reads no files. Raises ModelError."""
        contents: list[tuple[BlobRef, bytes]] = []
        for picture in request.pictures:
            assert self._content is not None, "who asks with pictures says how they are read"
            try:
                contents.append((picture.ref, await self._content(picture.ref)))
            except OzzieError as error:
                detail = f"{picture.path}: {error}"
                raise model_error("picture.lost", request.choice, detail=detail) from error
        if not contents:
            return {}
        return await asyncio.to_thread(
            lambda: {ref: base64.b64encode(content).decode("ascii") for ref, content in contents}
        )


def _configuration(providers: Mapping[str, ProviderAccess]) -> JsonObject:
    return command_json(Configure(providers={name: provider_of(access) for name, access in providers.items()}))


def provider_of(access: ProviderAccess) -> Provider:
    """Return what our own worker has to know of a provider."""
    return Provider(
        driver=access.driver,
        base_url=access.base_url,
        api_key=access.api_key,
        headers=dict(access.headers),
        oauth2=access.oauth2,
    )


def command_of(
    request: ModelRequest, wire_id: str, access: ProviderAccess, pictures: Mapping[str, str] | None = None
) -> Generate:
    """Return the call for our own worker. `wire_id` names its events; `pictures` is base64 content by reference."""
    return Generate(
        session_id=request.call_id,
        # Workers of plain S2 read this; ours reads the whole request.
        prompt=request.messages[-1].content if request.messages else "",
        id=wire_id,
        request=request.to_json(),
        pictures=dict(pictures or {}),
        first_s=access.first_s,
        next_s=access.next_s,
    )


def failure_of(error: Error, request: ModelRequest, access: ProviderAccess, *, streamed: bool) -> ModelError:
    """Return a worker's error in words for people; the provider's own words go to the log."""
    code = cast(ModelErrorCode, error.code) if error.code in _CODES else "provider.server"
    # Bounded and without keys (worker_failures): for a person whom the sentence alone does not help.
    log.warning("a call of %s failed: %s, %s", request.choice.alias, code, visible_label(error.detail or error.message))
    return model_error(
        code,
        request.choice,
        detail=error.detail,
        after_s=error.after_s,
        streamed=streamed,
        begun=error.begun,
        place=ErrorContext(key_name=access.key_name, key_place=access.key_place, address=access.base_url),
    )


def finished_of(stop: Stop, access: ProviderAccess, text: str, ttft_ms: float | None) -> Finished:
    """Return the end of an answer, whose whole text was `text`. The configuration's prices precede the worker's."""
    return finished(
        text=text,
        finish=stop.finish,
        tool_uses=stop.tool_uses,
        usage=stop.usage,
        cost=access.prices.cost(stop.usage) if access.prices else stop.cost,
        ttft_ms=ttft_ms,
        provider=stop.provider,
        reasoning=stop.reasoning,
    )
