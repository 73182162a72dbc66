"""The port to notebooks that are open somewhere: in a page of Lab, or as a shared document."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from ozzie_server_ext.domain.errors import Conflict, Unavailable
from ozzie_server_ext.jupyter.cells import Edit, Notebook
from ozzie_server_ext.jupyter.kernels import Kernels, NoKernels

Where = Literal["file", "page", "shared document"]


class DocumentBusy(Conflict):
    """It is open in a way in which an edit could lose something; nothing was done."""

    code = "tool.notebook_busy"


class DocumentSilent(Unavailable):
    """Who has it open did not answer, so it is not known whether an edit was made."""

    code = "tool.notebook_silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """It was done. `notes` are sentences for the user, mostly none: that it could not be saved, for instance."""

    notes: tuple[str, ...] = ()


class OpenNotebook(Protocol):
    """One notebook as somebody has it open, with what is not saved yet."""

    @property
    def where(self) -> Where: ...

    async def read(self) -> Notebook:
        """What it says now; of large outputs, that there are some. Raises OzzieError."""
        ...

    async def edit(self, edit: Edit) -> Edited:
        """Make the edit, and save. What others type meanwhile stays.

        Raises CellChanged where it is not about what is there by now, or another OzzieError: then nothing was done;
        DocumentSilent where that can't be said.
        """
        ...


class LiveDocuments(Protocol):
    """The notebooks that somebody has open, as they are there, saved or not."""

    async def opened(self, path: Path) -> OpenNotebook | None:
        """The notebook of that whole path, where somebody has it open. Raises DocumentBusy where it is open in a way in
        which its file may not be changed either."""
        ...


class NoLiveDocuments:
    """Where nobody can have one open."""

    async def opened(self, path: Path) -> OpenNotebook | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Jupyter:
    """By default there is none around: then notebooks are files, and no kernel runs. `private` are folders with files
    of running servers, which no command may see, also where they lie in the project."""

    kernels: Kernels = field(default_factory=NoKernels)
    documents: LiveDocuments = field(default_factory=NoLiveDocuments)
    private: tuple[Path, ...] = ()
