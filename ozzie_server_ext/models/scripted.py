"""A driver that plays a script: a model's test double, shipped so that tools and skills can be tested with it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.errors import Bug
from ozzie_server_ext.domain.events import Finish, ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.driver import ModelErrorCode, ModelEvent, ModelRequest, TextDelta, finished
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.protocol.jsontext import dumps

_ONE_TOKEN = Usage(input_tokens=1, output_tokens=1)


class Say(msgspec.Struct, frozen=True):
    """Streams one delta."""

    text: str


class Use(msgspec.Struct, frozen=True):
    """Requests a tool call. `arguments` is an object, or the exact text that a model gave, which may be no JSON."""

    name: str
    arguments: JsonObject | str
    call_id: str = ""


class Wait(msgspec.Struct, frozen=True):
    """Continues once `event` is set; sets `reached` when it gets here."""

    event: asyncio.Event
    reached: asyncio.Event | None = None


class Fail(msgspec.Struct, frozen=True):
    """Ends the call with an error."""

    code: ModelErrorCode
    after_s: float | None = None


class End(msgspec.Struct, frozen=True, kw_only=True):
    """What the Finished of this round contains beside text and tools."""

    usage: Usage = _ONE_TOKEN
    cost: int | None = None
    finish: Finish | None = None


Step: TypeAlias = Say | Use | Wait | Fail | End
Round: TypeAlias = Sequence[Step] | Callable[[ModelRequest], Sequence[Step]]


class ScriptedDriver:
    """Plays one round per call, in order. `requests` holds the requests; `aborted` the calls that were cut off. Raise
    Bug for a call without a round in the script."""

    def __init__(self, script: Iterable[Round], *, clock: Clock | None = None) -> None:
        self._rounds = list(script)
        self._clock = clock or SystemClock()
        self.requests: list[ModelRequest] = []
        self.aborted: list[CallId] = []

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        started = self._clock.monotonic()
        if len(self.requests) == len(self._rounds):
            raise Bug(f"The script has {len(self._rounds)} rounds, and one more was asked for.")
        playing = self._rounds[len(self.requests)]
        self.requests.append(request)
        text: list[str] = []
        tool_uses: list[ToolUse] = []
        ttft_ms: float | None = None
        end = End()
        try:
            for step in playing(request) if callable(playing) else playing:
                match step:
                    case Say():
                        if ttft_ms is None:
                            ttft_ms = (self._clock.monotonic() - started) * 1000
                        text.append(step.text)
                        yield TextDelta(step.text)
                    case Use():
                        arguments = step.arguments if isinstance(step.arguments, str) else dumps(step.arguments)
                        call_id = CallId(step.call_id or f"{request.call_id}_{len(tool_uses) + 1}")
                        tool_uses.append(ToolUse(call_id=call_id, name=step.name, arguments=arguments))
                    case Wait():
                        if step.reached is not None:
                            step.reached.set()
                        await step.event.wait()
                    case Fail():
                        raise model_error(step.code, request.choice, after_s=step.after_s, streamed=bool(text))
                    case End():
                        end = step
        except (asyncio.CancelledError, GeneratorExit):
            self.aborted.append(request.call_id)
            raise
        yield finished(
            text="".join(text),
            finish=end.finish or ("tool_calls" if tool_uses else "stop"),
            tool_uses=tuple(tool_uses),
            usage=end.usage,
            cost=end.cost,
            ttft_ms=ttft_ms,
        )
