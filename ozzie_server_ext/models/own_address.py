"""Where each provider's own models answer: what litellm's table says counts there, and nowhere else."""

from collections.abc import Mapping
from urllib.parse import urlsplit

OWN_HOSTS: Mapping[str, str] = {
    "anthropic": "api.anthropic.com",
    "openai": "api.openai.com",
    "gemini": "generativelanguage.googleapis.com",
    "deepseek": "api.deepseek.com",
}
"""The hosts that the providers' own clients ask by themselves."""

ANYWHERE = frozenset({"ollama"})
"""Drivers whose models are the same ones on whatever machine they run."""


def is_own_address(driver: str, base_url: str) -> bool:
    """Whether what answers there is the driver's own provider. `base_url` is empty for the driver's usual address.

    At any other address a model may be anything and have any price, whatever it is called.
    """
    if driver in ANYWHERE:
        return True
    own = OWN_HOSTS.get(driver)
    return own is not None and (not base_url or urlsplit(base_url).hostname == own)
