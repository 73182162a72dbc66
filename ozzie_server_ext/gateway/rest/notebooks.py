"""`notebooks`, `examples` and `kernels`: what notebooks and their kernels need."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from ozzie_server_ext.config.home import shipped
from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Done, Example, KernelId, KernelToken, Page, SessionId, SessionName
from ozzie_server_ext.protocol.attached import attached_servers
from ozzie_server_ext.tasks.sessions import Opened

FilePath: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^/",
        max_length=4096,
        title="an absolute path",
        description="A notebook, or a folder of notebooks, in the file system.",
    ),
]


class NotebookMove(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is the new path; without one, the notebook was deleted."""

    source: FilePath
    path: FilePath | None = None


async def move_notebook(call: Call, request: NotebookMove) -> Done:
    """Move or delete sessions along with their notebooks.

    Renames and deletions in Jupyter are noticed without this. Without a matching session, nothing happens.
    """
    notebooks, by = call.ozzie.notebooks, call.principal.name
    if request.path is None:
        await notebooks.deleted(request.source, by=by)
    else:
        await notebooks.moved(request.source, request.path, by=by)
    return Done()


class ExamplesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """No parameters."""


async def list_examples(call: Call, request: ExamplesQuery) -> Page[Example]:
    """List the example notebooks and their data files, the first notebook first."""
    return Page(items=await asyncio.to_thread(_examples), next=None)


def _examples() -> list[Example]:
    folder = shipped("notebooks")
    files = sorted([*folder.glob("*.ipynb"), *folder.glob("data/*")], key=lambda file: (len(file.parts), file.name))
    return [Example(path=file.relative_to(folder).as_posix(), content=file.read_text("utf-8")) for file in files]


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`session_name` finds the kernel's session: the notebook's path; `noted` is the session in the notebook's
    metadata. `again`: the kernel's session on an earlier connection. `session_id` chooses another session, `new` a
    fresh one. `server_pid`: the Jupyter Server that runs the kernel."""

    kernel_id: KernelId
    session_name: SessionName | None = None
    noted: SessionId | None = None
    again: SessionId | None = None
    session_id: SessionId | None = None
    new: bool = False
    server_pid: int | None = None


async def issue_kernel_token(call: Call, request: TokenRequest) -> KernelToken:
    """Issue a token for one kernel and one session. It ends with the kernel's connection or its next token."""
    opened = await _open(call, request)
    session_id = opened.info.session_id
    await (await call.project(session_id)).models.warm_up(opened.info)
    token = call.state.access.issue_kernel_token(request.kernel_id, session_id)
    return KernelToken(token=token, session_id=session_id, copy_of=opened.copy_of)


async def _folder(call: Call, request: TokenRequest) -> Path:
    """Return the project of a new session of the kernel: the root folder of its server; if that is unknown, the
    innermost root of a server of this home that holds its notebook; else the gateway's own folder."""
    own = call.ozzie.projects.own.root
    servers = [each for each in await asyncio.to_thread(attached_servers, call.ozzie.home.root) if each.root]
    roots = {each.pid: Path(each.root) for each in servers} | {os.getpid(): own}
    if request.server_pid in roots:
        root = roots[request.server_pid]
    else:
        holding = [each for each in roots.values() if Path(request.session_name or "/").is_relative_to(each)]
        root = max(holding, key=lambda each: len(each.parts), default=own)
    return own if root == own else (await call.ozzie.projects.at(root)).root


async def _open(call: Call, request: TokenRequest) -> Opened:
    sessions, notebooks, by = call.ozzie.sessions, call.ozzie.notebooks, call.principal.name
    project = await _folder(call, request)
    # Without a notebook, as in a console, a session belongs to the kernel and is titled by its first message.
    path, key = request.session_name, f"kernel:{request.kernel_id}"
    if request.session_id:
        chosen = ids.SessionId(request.session_id)
        if path:
            return Opened(info=await notebooks.resume(chosen, path, by=by, project=project))
        return Opened(info=await sessions.resume(chosen, key, by=by))
    if request.new:
        return Opened(
            info=await (
                notebooks.begin(path, by=by, project=project)
                if path
                else sessions.begin(key, channel="notebook", by=by, project=project)
            )
        )
    if request.again:
        try:
            return Opened(info=await sessions.get(ids.SessionId(request.again)))
        except NotFound:
            pass  # another home, or a restored store: the name decides
    if path:
        noted = ids.SessionId(request.noted) if request.noted else None
        return await notebooks.open(path, noted=noted, by=by, project=project)
    return Opened(info=await sessions.open(key, title="", channel="notebook", by=by, project=project))
