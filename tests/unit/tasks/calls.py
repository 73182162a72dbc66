"""Calls of models in a log, begun and ended at chosen times."""

from datetime import UTC, datetime

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import EventBody, Finish, ModelCallCompleted, ModelCallFailed, ModelCallStarted
from ozzie_server_ext.domain.ids import BlobRef, CallId, ReplyId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from tests.replay.histories import draft

BLOB = BlobRef("sha256:" + "0" * 64)


class Calls:
    """`clock` is the log's; every call is of a provider and a model by name, under its provider's name as alias."""

    def __init__(self, start: str = "2026-03-01T12:00:00") -> None:
        self.clock = FakeClock(datetime.fromisoformat(start).replace(tzinfo=UTC))
        self.ids = CountingIds()
        self.log = InMemoryEventLog(self.clock, self.ids)

    def go_to(self, text: str) -> None:
        self.clock.advance((datetime.fromisoformat(text).replace(tzinfo=UTC) - self.clock.now()).total_seconds())

    async def begin(self, provider: str, model: str = "m") -> CallId:
        call_id = CallId(self.ids.new())
        await self._record(
            ModelCallStarted(
                call_id=call_id,
                reply_id=ReplyId(self.ids.new()),
                round=1,
                alias=provider,
                provider=provider,
                model=model,
                request_blob=BLOB,
                config="",
                prompt="",
                tools="",
            )
        )
        return call_id

    async def answered(
        self,
        provider: str,
        model: str = "m",
        *,
        finish: Finish = "stop",
        cost: int | None = 5,
        call: CallId | None = None,
    ) -> None:
        await self._record(
            ModelCallCompleted(
                call_id=call or await self.begin(provider, model),
                response_blob=BLOB,
                finish=finish,
                tool_uses=(),
                usage=Usage(input_tokens=100, output_tokens=10, cached_tokens=1),
                cost=cost,
                latency_ms=1.0,
                ttft_ms=None,
            )
        )

    async def failed(self, provider: str, code: str, model: str = "m") -> None:
        call_id = await self.begin(provider, model)
        await self._record(ModelCallFailed(call_id=call_id, code=code, message="x", latency_ms=1.0))

    async def _record(self, body: EventBody) -> None:
        await self.log.append("task:t", [draft(body)])
