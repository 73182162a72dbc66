"""What the tools reach of the Jupyter Server that the gateway runs in."""

from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.gateway.live_kernels import LiveKernels
from ozzie_server_ext.gateway.page_notebooks import PageNotebooks
from ozzie_server_ext.gateway.shared_documents import SharedDocuments
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.jupyter.documents import OpenNotebook
from ozzie_server_ext.jupyter.server import Jupyter


def jupyter_around(serverapp: Any, state: GatewayState, home: Home) -> Jupyter:
    """The kernels that this server runs, and the notebooks that are open in it, or in pages that reach the gateway by
    another server."""
    state.pages.remember_in(home.open_notebooks)
    return Jupyter(
        kernels=LiveKernels(serverapp.kernel_manager, serverapp.session_manager),
        documents=_Documents(SharedDocuments(serverapp), state.pages),
        private=(Path(jupyter_runtime_dir()),),
    )


class _Documents:
    """See `LiveDocuments`. A shared document comes first: the pages that show it are not asked."""

    def __init__(self, shared: SharedDocuments, pages: PageNotebooks) -> None:
        self._shared = shared
        self._pages = pages

    async def opened(self, path: Path) -> OpenNotebook | None:
        return await self._shared.opened(path) or await self._pages.opened(path)
