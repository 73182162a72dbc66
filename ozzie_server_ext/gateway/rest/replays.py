"""`sessions replay`: whether a session would be recorded again as it was."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain import ids
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.forks import Number
from ozzie_server_ext.gateway.rest.shapes import SessionId
from ozzie_server_ext.replay.outcome import Verdict

MOST_CHARS = 256 << 10

FileText = Annotated[str, Meta(max_length=MOST_CHARS, description="The text of a file.")]
Skills = Annotated[tuple[FileText, ...], Meta(max_length=20)]


class SessionReplay(msgspec.Struct, frozen=True, kw_only=True):
    """`until`: the number of the last turn to replay, by default all. `policy` is the text of a file of rules, `prompt`
    that of SOUL.md, `skills` are those of skill files: they are tried in the place of what was in force."""

    session_id: SessionId
    until: Number | None = None
    policy: FileText | None = None
    prompt: FileText | None = None
    skills: Skills = ()


async def replay_session(call: Call, request: SessionReplay) -> Verdict:
    """Run a session again from its record, and tell whether the same would be recorded now.

    No model and no tool is called, and nothing is recorded: what they answered is in the record.
    """
    session_id = ids.SessionId(request.session_id)
    await call.ozzie.sessions.row(session_id)
    return await call.ozzie.replays.replay(
        session_id,
        until=request.until,
        policy=request.policy,
        prompt=request.prompt,
        skills=request.skills,
    )
