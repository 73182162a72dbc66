"""Where a notebook is read and changed: where somebody has it open, else in its file."""

import asyncio
import os
from pathlib import Path

from ozzie_server_ext.jupyter.documents import OpenNotebook
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from ozzie_server_ext.tools.notebook.file import FileNotebook
from ozzie_server_ext.tools.notebook.whole import ENDING, is_notebook
from ozzie_server_ext.tools.rooted import open_below, readable_parts


def path_of(path: str) -> str:
    """The path of a notebook, in its one form. Raises ToolFailed for what is none, and for what is not offered."""
    parts = readable_parts(path)
    if not is_notebook(parts[-1]):
        raise ToolFailed(f"{path} is no notebook: its name does not end with {ENDING}.")
    return "/".join(parts)


async def opened(context: ToolContext, path: str) -> OpenNotebook:
    """The notebook at that path, which is as `path_of` gives it. Raises ToolFailed where there is none, and where it is
    not in the project: whoever has it open may have come there by a link. DocumentBusy: see `LiveDocuments.opened`."""
    await asyncio.to_thread(_expect_there, context.project, path)
    live = await context.jupyter.documents.opened(context.project.resolve() / path)
    return live if live is not None else FileNotebook(context.project, path)


def _expect_there(project: Path, path: str) -> None:
    os.close(open_below(project, path, folder=False))
