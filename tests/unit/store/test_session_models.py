"""The model of a session behind the provider that it was used with last."""

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import HUB, Draft, EventBody, ModelCallCompleted, ModelCallStarted, Purpose
from ozzie_server_ext.domain.ids import BlobRef, CallId, ReplyId, SessionId, session_stream
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.session_models import with_providers
from ozzie_server_ext.tasks.sessions import Sessions

BLOB = BlobRef("sha256:" + "0" * 64)


class Calling:
    """One session and its calls, all on one day."""

    def __init__(self) -> None:
        self.ids = CountingIds()
        self.log = InMemoryEventLog(FakeClock(), self.ids)

    async def session(self) -> SessionId:
        return (await Sessions(self.log, self.ids).open("n", title="n", channel="notebook")).session_id

    async def call(
        self, session: SessionId, provider: str, *, model: str = "m", purpose: Purpose = "answer", ends: bool = True
    ) -> None:
        call_id = CallId(self.ids.new())
        bodies: list[EventBody] = [
            ModelCallStarted(
                call_id=call_id,
                reply_id=ReplyId(self.ids.new()),
                round=1,
                alias="main",
                provider=provider,
                model=model,
                request_blob=BLOB,
                config="",
                prompt="",
                tools="",
                purpose=purpose,
            )
        ]
        if ends:
            bodies.append(
                ModelCallCompleted(
                    call_id=call_id,
                    response_blob=BLOB,
                    finish="stop",
                    tool_uses=(),
                    usage=Usage(input_tokens=1, output_tokens=1),
                    cost=1,
                    latency_ms=1.0,
                    ttft_ms=None,
                )
            )
        drafts = [Draft(body=body, actor="worker", source=HUB, session_id=session) for body in bodies]
        await self.log.append(session_stream(session), drafts)

    async def model(self) -> str:
        (row,) = await with_providers(self.log, await self.log.rows("sessions"))
        return str(row["model"])


async def test_the_latest_of_one_day_counts_whatever_its_name() -> None:
    for first, second in (("azure", "openai"), ("openai", "azure")):
        calling = Calling()
        session = await calling.session()
        await calling.call(session, first)
        await calling.call(session, second)

        assert await calling.model() == f"{second}/m"


async def test_a_call_for_another_purpose_or_of_another_model_is_not_the_answer() -> None:
    calling = Calling()
    session = await calling.session()
    await calling.call(session, "azure")
    await calling.call(session, "openai")
    await calling.call(session, "azure")
    for _ in range(3):
        await calling.call(session, "openai", purpose="summary")
        await calling.call(session, "mistral", model="small", purpose="check")

    assert await calling.model() == "azure/m"


async def test_before_the_end_of_its_first_call_the_model_stands_alone() -> None:
    calling = Calling()
    await calling.call(await calling.session(), "azure", ends=False)

    assert await calling.model() == "m"
