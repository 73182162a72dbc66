"""The port to notebooks that are open somewhere: in a page of Lab, or as a shared document (NB-9)."""

from typing import Protocol


class LiveDocuments(Protocol):
    """The notebooks that somebody has open, as they are there, saved or not."""


class NoLiveDocuments:
    """Where nobody can have one open."""
