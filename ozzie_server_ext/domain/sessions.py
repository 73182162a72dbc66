"""A session as its facts tell it."""

from dataclasses import dataclass

from ozzie_server_ext.domain.ids import SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One isolated context: a notebook, a direct message, a group's thread (SE-1, SE-2). Times in RFC 3339."""

    session_id: SessionId
    key: str
    title: str
    channel: str
    status: str
    created_at: str
    updated_at: str
    model: str
    message_count: int
    input_tokens: int
    output_tokens: int
    cost: int
    cost_known: bool
