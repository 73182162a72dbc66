"""What the tools reach of the Jupyter Server that the gateway runs in."""

from typing import Any

from ozzie_server_ext.gateway.live_kernels import LiveKernels
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.jupyter.server import Jupyter


def jupyter_around(serverapp: Any, state: GatewayState) -> Jupyter:
    """The kernels that this server runs, and the notebooks that its pages have open."""
    return Jupyter(kernels=LiveKernels(serverapp.kernel_manager, serverapp.session_manager))
