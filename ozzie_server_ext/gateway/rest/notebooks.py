"""`notebooks`, `examples` and `kernels`: what notebooks and their kernels need of the gateway."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from msgspec import Meta

from ozzie_server_ext.config.home import shipped
from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Done, Example, KernelId, KernelToken, Page, SessionId, SessionName
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookMove:
    """`path` is where it lies now; without one, it was deleted."""

    source: FilePath
    path: FilePath | None = None


async def move_notebook(call: Call, asked: NotebookMove) -> Done:
    """Have the sessions of notebooks go along when their files are moved or deleted.

    Jupyter's own renames and deletions are noticed without this. Nothing happens where no session is concerned.
    """
    notebooks, by = call.ozzie.notebooks, call.principal.name
    if asked.path is None:
        await notebooks.deleted(asked.source, by=by)
    else:
        await notebooks.moved(asked.source, asked.path, by=by)
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesQuery:
    """Nothing."""


async def list_examples(call: Call, asked: ExamplesQuery) -> Page[Example]:
    """The first notebooks and the files that they are about, the very first notebook first."""
    return Page(items=await asyncio.to_thread(_examples), next=None)


def _examples() -> list[Example]:
    folder = shipped("notebooks")
    files = sorted([*folder.glob("*.ipynb"), *folder.glob("data/*")], key=lambda file: (len(file.parts), file.name))
    return [Example(path=file.relative_to(folder).as_posix(), content=file.read_text("utf-8")) for file in files]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """`session_name` finds the kernel's session again: the notebook's path; `noted` is the session that stands in the
    notebook's metadata. `again`: the one that the kernel had on an earlier connection. `session_id` puts another
    session in its place, `new` a fresh one."""

    kernel_id: KernelId
    session_name: SessionName | None = None
    noted: SessionId | None = None
    again: SessionId | None = None
    session_id: SessionId | None = None
    new: bool = False


async def issue_kernel_token(call: Call, asked: TokenRequest) -> KernelToken:
    """A token for one kernel and one session; it ends with the kernel's connection, or with its next token."""
    opened = await _open(call, asked)
    await call.ozzie.models.warm_up(opened.info)
    session_id = opened.info.session_id
    token = call.state.access.issue_kernel_token(asked.kernel_id, session_id)
    return KernelToken(token=token, session_id=session_id, copy_of=opened.copy_of)


async def _open(call: Call, asked: TokenRequest) -> Opened:
    sessions, notebooks, by = call.ozzie.sessions, call.ozzie.notebooks, call.principal.name
    # Without a notebook, as in a console, a session belongs to the kernel and is called after its first message.
    path, key = asked.session_name, f"kernel:{asked.kernel_id}"
    if asked.session_id:
        chosen = ids.SessionId(asked.session_id)
        return Opened(
            info=await (notebooks.resume(chosen, path, by=by) if path else sessions.resume(chosen, key, by=by))
        )
    if asked.new:
        return Opened(
            info=await (notebooks.begin(path, by=by) if path else sessions.begin(key, channel="notebook", by=by))
        )
    if asked.again:
        try:
            return Opened(info=await sessions.get(ids.SessionId(asked.again)))
        except NotFound:
            pass  # another home, or a store that was put back: what its name says is next
    if path:
        return await notebooks.open(path, noted=ids.SessionId(asked.noted) if asked.noted else None, by=by)
    return Opened(info=await sessions.open(key, title="", channel="notebook", by=by))
