"""What the tools reach of the Jupyter Server that the gateway runs in."""

from dataclasses import dataclass, field
from pathlib import Path

from ozzie_server_ext.jupyter.documents import LiveDocuments, NoLiveDocuments
from ozzie_server_ext.jupyter.kernels import Kernels, NoKernels


@dataclass(frozen=True, slots=True, kw_only=True)
class Jupyter:
    """By default there is none around: then notebooks are files, and no kernel runs. `private` are folders with files
    of running servers, which no command may see, also where they lie in the project."""

    kernels: Kernels = field(default_factory=NoKernels)
    documents: LiveDocuments = field(default_factory=NoLiveDocuments)
    private: tuple[Path, ...] = ()
