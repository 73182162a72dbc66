"""`message`: one message in, its turn's task or its whole answer out (GW-3)."""

import asyncio
from dataclasses import dataclass

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.channels import Channel
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.events import FINAL_TYPES, Origin, TaskWaitingApproval, TaskWaitingInput
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.sessions import open_session
from ozzie_server_ext.gateway.rest.shapes import Accepted, Content, SessionId, SessionName, Words
from ozzie_server_ext.gateway.rest.task_shapes import TaskWithSteps
from ozzie_server_ext.gateway.rest.tasks import task_with_steps
from ozzie_server_ext.tasks.service import Submitted

MAX_WAIT_S = 600.0
_RESTS = FINAL_TYPES | {TaskWaitingInput.type, TaskWaitingApproval.type}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSend:
    """`session_id`, else `session_name`, says where; without either, a session of its own begins. `model`: what is
    to answer this once. `wait`: answer at the end of the turn, or when it asks something; it asks only where it is
    `attended`. `answer_schema`: a JSON Schema that the answer has to fit; the task's `answer` is its value then."""

    content: Content
    session_id: SessionId | None = None
    session_name: SessionName | None = None
    model: Words = ""
    wait: bool = False
    attended: bool = True
    answer_schema: JsonObject | None = None


async def send_message(call: Call, asked: MessageSend) -> Accepted | TaskWithSteps:
    """Ask something. The turn goes on whatever becomes of the client.

    The answer comes at once (202), or with `wait` at the turn's end, or when it asks something (200). A turn that takes
    longer than ten minutes is answered with 202 after these.
    """
    if asked.session_id:
        session_id = ids.SessionId(asked.session_id)
    else:
        session_id = (await open_session(call, asked.session_name)).session_id
    name = call.principal.name
    origin = Origin(channel=Channel.REST, sender_id=name, sender_name=name)
    sent = await call.ozzie.submit(
        session_id,
        asked.content,
        origin,
        model=asked.model,
        attended=asked.attended,
        answer_schema=asked.answer_schema,
    )
    if asked.wait and await _ended(call, sent):
        return await task_with_steps(call, sent.task_id)
    return Accepted(
        task_id=sent.task_id,
        message_id=sent.message_id,
        session_id=session_id,
        position=sent.position,
        ahead=sent.ahead,
    )


async def _ended(call: Call, sent: Submitted) -> bool:
    """Wait for the turn's end, or until it asks something; False where nobody waits for that any more, or it takes too
    long.

    Raises Unavailable where the gateway stops first.
    """
    async with call.ozzie.feed.subscribe(sent.position, types=_RESTS, task_id=sent.task_id) as feed:
        end = asyncio.ensure_future(anext(feed, None))
        gone = asyncio.ensure_future(call.gone.wait())
        try:
            await asyncio.wait({end, gone}, timeout=MAX_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
            if end.done() and end.result() is None:
                raise Unavailable(
                    "The gateway stops.", hint=f"The task {sent.task_id} goes on as soon as a gateway runs."
                )
            return end.done()
        finally:
            end.cancel()
            gone.cancel()
