"""The built-in driver without a language model: answers by fixed rules, and says so (MD-7)."""

import asyncio
import re
from collections.abc import AsyncGenerator

from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import Finish, ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.usage import Usage
from ozzie_server_ext.models.driver import Finished, ModelEvent, ModelRequest, TextDelta, response_json
from ozzie_server_ext.models.offline_rules import Ask, next_move
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.protocol.jsontext import dumps

PAUSE_S = 0.02
_WORDS = re.compile(r"\s*\S+\s*\S*\s*")


class OfflineDriver:
    """Works at once and anywhere: no key, no network, no worker process. It costs nothing and uses no tokens.

    `pause_s` lies between two deltas, so that a person sees the answer stream as a model's would.
    """

    def __init__(self, clock: Clock | None = None, *, pause_s: float = PAUSE_S) -> None:
        self._clock = clock or SystemClock()
        self._pause_s = pause_s

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        started = self._clock.monotonic()
        move = next_move(request.messages, {tool.name for tool in request.tools})
        text, finish, tool_uses, ttft_ms = "", "stop", (), None
        if isinstance(move, Ask):
            finish = "tool_calls"
            tool_uses = (ToolUse(call_id=CallId(f"{request.call_id}_1"), name=move.tool, arguments=dumps(move.args)),)
        else:
            text = move.text
            for piece in _WORDS.findall(text):
                if ttft_ms is None:
                    ttft_ms = (self._clock.monotonic() - started) * 1000
                else:
                    await asyncio.sleep(self._pause_s)
                yield TextDelta(piece)
        yield _finished(text, finish, tool_uses, ttft_ms)


def _finished(text: str, finish: Finish, tool_uses: tuple[ToolUse, ...], ttft_ms: float | None) -> Finished:
    return Finished(
        finish=finish,
        tool_uses=tool_uses,
        usage=Usage(),
        cost=0,
        response=response_json(text=text, finish=finish, tool_uses=tool_uses, usage=Usage(), cost=0),
        ttft_ms=ttft_ms,
    )
