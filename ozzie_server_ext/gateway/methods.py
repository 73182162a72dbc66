"""The methods of the WebSocket protocol (DESIGN §8): parameters in, payload out, nothing else."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ozzie_server_ext.domain.errors import InputError, PolicyError
from ozzie_server_ext.domain.events import Origin
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.protocol.codec import decode, encode


@dataclass(frozen=True, slots=True)
class Call:
    """A request with its caller."""

    ozzie: Services
    principal: Principal
    params: JsonObject

    def session(self, asked: str) -> SessionId:
        """The session meant. Raises PolicyError where it is not the caller's, InputError where none is named."""
        own = self.principal.session_id
        if own is not None and asked and asked != own:
            raise PolicyError("This kernel may use its own session only.", code="policy.session")
        if not (own or asked):
            raise InputError("Which session? The parameter session_id is missing.", code="input.session")
        return own or SessionId(asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpen:
    session_id: str = ""
    session_name: str = ""
    title: str = ""


async def session_open(call: Call) -> JsonObject:
    """A session by id, by name, or a kernel's own; its title, its model and what would answer now."""
    asked = decode(SessionOpen, call.params)
    if asked.session_name and not asked.session_id and call.principal.session_id is None:
        title = asked.title or asked.session_name
        info = await call.ozzie.sessions.open(asked.session_name, title=title, channel="ws")
    else:
        info = await call.ozzie.sessions.get(call.session(asked.session_id))
    return {**encode(info), "position": (await call.ozzie.log.head()).position}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSend:
    content: str
    session_id: str = ""
    cell_id: str = ""
    model: str = ""


async def message_send(call: Call) -> JsonObject:
    """A message becomes a turn: its task, and the position from which a feed shows all of it."""
    asked = decode(MessageSend, call.params)
    origin = Origin(
        channel="notebook" if call.principal.kind == "kernel" else call.principal.kind,
        sender_id=call.principal.name,
        sender_name=call.principal.name,
        kernel_id=call.principal.kernel_id,
        cell_id=asked.cell_id,
    )
    session_id = call.session(asked.session_id)
    return encode(await call.ozzie.submit(session_id, asked.content, origin, model=asked.model))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancel:
    task_id: str
    reason: str = ""


async def task_cancel(call: Call) -> JsonObject:
    """Stop a task; a kernel may stop those of its own session."""
    asked = decode(TaskCancel, call.params)
    row = await call.ozzie.tasks.get(TaskId(asked.task_id))
    own = call.principal.session_id
    if own is not None and row["session_id"] != own:
        raise PolicyError("This kernel may stop tasks of its own session only.", code="policy.session")
    await call.ozzie.tasks.cancel(TaskId(asked.task_id), by=call.principal.name, reason=asked.reason)
    return {}


async def models_list(call: Call) -> JsonObject:
    """Every model that can be chosen, the default, and what was found on this machine and is not used yet."""
    return await call.ozzie.models.listing()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoose:
    model: str
    session_id: str = ""
    base_url: str = ""


async def model_choose(call: Call) -> JsonObject:
    """From the next turn on, this model answers in the session. Says what it stands for."""
    asked = decode(ModelChoose, call.params)
    return await call.ozzie.models.choose(call.session(asked.session_id), asked.model, asked.base_url)


METHODS: dict[str, Callable[[Call], Awaitable[JsonObject]]] = {
    "session.open": session_open,
    "message.send": message_send,
    "task.cancel": task_cancel,
    "models.list": models_list,
    "model.choose": model_choose,
}
"""All methods but those of the feed, which are the connection's own."""


def from_s0_event(event: str, payload: JsonObject) -> tuple[str, dict[str, Any]] | None:
    """The method that an event frame of a client stands for; S0 lets one send `user.message` that way."""
    return ("message.send", dict(payload)) if event == "user.message" else None
