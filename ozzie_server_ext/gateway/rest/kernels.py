"""`kernels`: tokens for them (GW-7, THREATS 6)."""

import os
from dataclasses import dataclass

from ozzie_server_ext.domain import ids
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import KernelId, KernelToken, SessionId, SessionName


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """`session_name`: what finds the kernel's session again, usually the notebook's path. `session_id` puts another
    session in its place, `new` a fresh one."""

    kernel_id: KernelId
    session_name: SessionName | None = None
    session_id: SessionId | None = None
    new: bool = False


async def issue_kernel_token(call: Call, asked: TokenRequest) -> KernelToken:
    """A token for one kernel and one session; it ends with the kernel's connection, or with its next token."""
    sessions = call.ozzie.sessions
    key = f"notebook:{asked.session_name}" if asked.session_name else f"kernel:{asked.kernel_id}"
    by = call.principal.name
    if asked.session_id:
        info = await sessions.resume(ids.SessionId(asked.session_id), key, by=by)
    elif asked.new:
        info = await sessions.begin(key, channel="notebook", by=by)
    else:
        # Without a notebook, as in a console, a session is called after its first message.
        title = os.path.basename(asked.session_name or "")
        info = await sessions.open(key, title=title, channel="notebook", by=by)
    await call.ozzie.models.warm_up(info)
    token = call.state.access.issue_kernel_token(asked.kernel_id, info.session_id)
    return KernelToken(token=token, session_id=info.session_id)
