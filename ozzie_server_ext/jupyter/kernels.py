"""The port to the kernels of the Jupyter Server that the gateway runs in (NB-9)."""

from typing import Protocol


class Kernels(Protocol):
    """The kernels of one Jupyter Server."""


class NoKernels:
    """Where there is no Jupyter Server that runs kernels."""
