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
    response_json,
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
"""`-P`: a `json.py` in the user's folder must not take the place of the library's."""

MAX_PROVIDERS = 256
"""How many a worker is told of at a time; a call names its own just before, so any number can be used."""

_CODES = frozenset(get_args(ModelErrorCode))


class WorkerDriver:
    """Sends calls to the workers that `pool` keeps.

    A call is sent once, whatever becomes of its worker: one that is sent again is another call, with a cost of its own
    (`models.chain`). What a worker knows of providers is told just before the call that needs it: a new one knows
    nothing.
    """

    def __init__(
        self,
        pool: Pool,
        access: AccessOf,
        content: Callable[[BlobRef], Awaitable[bytes]] | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        """`content` reads what a picture's reference stands for."""
        self._pool = pool
        self._access = access
        self._content = content
        self._told: WeakKeyDictionary[Channel, dict[str, ProviderAccess]] = WeakKeyDictionary()
        self._clock = clock or SystemClock()
        self._numbers = itertools.count(1)

    def warm(self) -> None:
        """Begins to start a worker, so that the first cell does not wait for it. Raises PlaneUnavailable."""
        self._pool.start()

    async def forget(self) -> None:
        """Have every worker forget all keys; each call from now on brings its own. One that was begun goes on."""
        await asyncio.gather(*(self._forget_on(channel) for channel in list(self._told)))

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        started = self._clock.monotonic()
        access = self._access(request.choice)
        pictures = await self._pictures(request)
        channel = await self._channel(request)
        # Not the call's own id, which the caller chose.
        wire_id = f"{request.call_id}:{next(self._numbers)}"
        text: list[str] = []
        ttft_ms: float | None = None
        try:
            self._introduce(channel, request.choice.provider, access)
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
        """What a worker is to show: it reads no files. Raises ModelError."""
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

    def _introduce(self, channel: Channel, name: str, access: ProviderAccess) -> None:
        """Tell a worker how a provider is reached, where it does not know. On one connection what is sent first
        comes first, so nothing may be awaited between this and the call. Raises ChannelLost."""
        told = self._told.setdefault(channel, {})
        known = told.pop(name, None)
        told[name] = access
        if known == access:
            return
        while len(told) > MAX_PROVIDERS:
            # The one that was asked longest ago: addresses typed into cells would add up for ever.
            del told[next(iter(told))]
        channel.post(_configuration(told))

    async def _forget_on(self, channel: Channel) -> None:
        # Both at once: a call that came between them would count on what its worker is about to forget.
        self._told.pop(channel, None)
        with contextlib.suppress(ChannelLost):
            await channel.send(_configuration({}))


def _configuration(told: Mapping[str, ProviderAccess]) -> JsonObject:
    return command_json(Configure(providers={name: provider_of(access) for name, access in told.items()}))


def provider_of(access: ProviderAccess) -> Provider:
    """What a worker of ours has to know of a provider."""
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
    """A call as a worker of ours is asked for it; `wire_id` names its events, `pictures` is their content in base64, by
    reference."""
    return Generate(
        session_id=request.call_id,
        # What a worker of S2 would read; ours reads the whole request.
        prompt=request.messages[-1].content if request.messages else "",
        id=wire_id,
        request=request.to_json(),
        pictures=dict(pictures or {}),
        first_s=access.first_s,
        next_s=access.next_s,
    )


def failure_of(error: Error, request: ModelRequest, access: ProviderAccess, *, streamed: bool) -> ModelError:
    """A worker's error in words for people; the provider's own go to the log."""
    code = cast(ModelErrorCode, error.code) if error.code in _CODES else "provider.server"
    # Bounded and without keys (worker_failures): what a person needs whom the sentence alone does not help.
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
    """A worker's end of an answer, whose whole text was `text`. Prices of the configuration go before the worker's."""
    cost = access.prices.cost(stop.usage) if access.prices else stop.cost
    return Finished(
        finish=stop.finish,
        tool_uses=stop.tool_uses,
        usage=stop.usage,
        cost=cost,
        response=response_json(
            text=text,
            finish=stop.finish,
            tool_uses=stop.tool_uses,
            usage=stop.usage,
            cost=cost,
            provider=stop.provider,
            reasoning=stop.reasoning,
        ),
        ttft_ms=ttft_ms,
    )
