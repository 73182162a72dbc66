"""The port to open notebooks: in a page of Lab, or as shared documents."""

from pathlib import Path
from typing import Literal, Protocol

import msgspec

from ozzie_server_ext.domain.errors import Conflict, Unavailable
from ozzie_server_ext.jupyter.cells import Edit, Notebook
from ozzie_server_ext.jupyter.kernels import Kernels, NoKernels

Where = Literal["file", "page", "shared document"]


class DocumentBusy(Conflict):
    """The notebook is open in a way in which an edit could lose something; nothing was done."""

    code = "tool.notebook_busy"


class DocumentSilent(Unavailable):
    """The page or server that has it open did not answer, so the edit may or may not have been made."""

    code = "tool.notebook_silent"


class Edited(msgspec.Struct, frozen=True, kw_only=True):
    """The edit was made. `notes` are sentences for the user, for example that it could not be saved."""

    notes: tuple[str, ...] = ()


class OpenNotebook(Protocol):
    """One open notebook, with its unsaved changes."""

    @property
    def where(self) -> Where: ...

    async def read(self) -> Notebook:
        """Return its present content; large outputs are only mentioned. Raises OzzieError."""
        ...

    async def edit(self, edit: Edit) -> Edited:
        """Make the edit, and save. What others type meanwhile stays. Raises CellChanged if it does not match the
        present content, or another OzzieError: then nothing was done; DocumentSilent if that is not known."""
        ...


class LiveDocuments(Protocol):
    """The notebooks that are open, as they are there, saved or not."""

    async def opened(self, path: Path) -> OpenNotebook | None:
        """Return the notebook at the absolute `path` if it is open, or kept by a contents manager that does more than
        write files. Raises DocumentBusy if it is open in a way in which its file may not be changed either."""
        ...


class NoLiveDocuments:
    """Nothing can be open."""

    async def opened(self, path: Path) -> OpenNotebook | None:
        return None


class Jupyter(msgspec.Struct, frozen=True, kw_only=True):
    """By default there is no Jupyter: notebooks are files, and no kernel runs. `private` are folders with files of
    running servers, which commands may not see, even within the project."""

    kernels: Kernels = msgspec.field(default_factory=NoKernels)
    documents: LiveDocuments = msgspec.field(default_factory=NoLiveDocuments)
    private: tuple[Path, ...] = ()
