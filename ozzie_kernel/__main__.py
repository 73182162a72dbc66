"""`python -m ozzie_kernel`: start the kernel, as the kernelspec does."""

import sys
from importlib import import_module
from typing import cast

from ozzie_kernel.ahead import launch_ahead


def _without_debugger() -> None:
    """Let ipykernel find no debugpy. Loading it is a tenth of a kernel's start and prints warnings as a cell's output,
    and no debugger steps through messages. Cells in Python can still import it."""
    modules = cast(dict[str, object], sys.modules)
    modules["debugpy"] = None
    try:
        import_module("ipykernel.debugger")
    finally:
        del modules["debugpy"]


if __name__ == "__main__":
    launch_ahead()
    # After that, because these imports are most of a kernel's start.
    _without_debugger()
    from ipykernel.kernelapp import IPKernelApp

    from ozzie_kernel.kernel import OzzieKernel

    IPKernelApp.launch_instance(kernel_class=OzzieKernel)
