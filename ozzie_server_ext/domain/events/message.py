"""Facts about messages: what was asked, and what was answered."""

from dataclasses import dataclass
from typing import ClassVar

from ozzie_server_ext.domain.events.fact import Fact, Finish
from ozzie_server_ext.domain.ids import MessageId, ReplyId
from ozzie_server_ext.domain.messages import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a message came from. Empty where a channel has no such thing."""

    channel: str
    sender_id: str = ""
    sender_name: str = ""
    kernel_id: str = ""
    cell_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived(Fact):
    """Somebody wrote something: what a turn is made from. `pictures`: those that it names with an `@`;
    `absent`: the names of such that were not there."""

    type: ClassVar[str] = "message.received"
    message_id: MessageId
    text: str
    origin: Origin
    pictures: tuple[Picture, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCompleted(Fact):
    """The final text of a reply; a stopped or broken one keeps what had come."""

    type: ClassVar[str] = "message.completed"
    reply_id: ReplyId
    text: str
    finish: Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRejected(Fact):
    """A reply that came whole does not have the shape that was asked for, and comes anew. `problem` says why."""

    type: ClassVar[str] = "message.rejected"
    reply_id: ReplyId
    problem: str
