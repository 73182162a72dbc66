"""`notebooks`: what happens to their files (NB-15)."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from msgspec import Meta

from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Done

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
