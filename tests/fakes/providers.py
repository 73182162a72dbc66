"""The four wire formats side by side, for tests that ask the same of each."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.fakes.anthropic_wire import AnthropicWire
from tests.fakes.gemini_wire import GeminiWire
from tests.fakes.ollama_wire import OllamaWire
from tests.fakes.openai_wire import OpenAIWire
from tests.fakes.provider_server import FakeProvider, Wire

WIRES: dict[str, type[Wire]] = {
    "openai": OpenAIWire,
    "anthropic": AnthropicWire,
    "gemini": GeminiWire,
    "ollama": OllamaWire,
}
"""By the driver that speaks it."""


@contextmanager
def all_providers() -> Iterator[dict[str, FakeProvider]]:
    """One fake for each wire format, by its driver."""
    with ExitStack() as stack:
        yield {driver: stack.enter_context(FakeProvider(wire())) for driver, wire in WIRES.items()}
