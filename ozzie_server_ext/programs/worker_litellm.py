"""One call through litellm: text as it comes, then what the whole answer was and what it cost.

Imported in the worker only, and there in a thread: litellm takes some seconds.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import litellm
from litellm.llms.ollama.common_utils import OllamaModelInfo
from litellm.llms.vertex_ai.gemini.vertex_and_google_ai_studio_gemini import VertexGeminiConfig

from ozzie_server_ext.domain.events import Finish, ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.usage import NANO_USD_PER_USD, Usage
from ozzie_server_ext.models.own_address import is_own_address
from ozzie_server_ext.programs.worker_facts import entry_of, facts_of
from ozzie_server_ext.programs.worker_failures import Broken, Garbage, error_event
from ozzie_server_ext.programs.worker_request import completion_arguments
from ozzie_server_ext.programs.worker_tokens import Tokens
from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.worker import Generate, ModelName, Provider, Stop

__all__ = ["Answer", "Tokens", "error_event", "facts_of", "prepare", "price", "warm_up"]

_YIELD_EVERY = 8
MAX_REASONING_CHARS = 200_000
_FINISH: dict[str, Finish] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
}
_OWN_IDS = frozenset({"anthropic", "ollama"})
"""Drivers whose answers litellm gives an id of its own making, which nobody at the provider could look up."""


def prepare() -> None:
    """Silences litellm: no message logging, no hints on standard output."""
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    # httpx closes the connection of an aborted call at once and honours the proxy settings of the environment.
    litellm.disable_aiohttp_transport = True
    _see_how_gemini_ends()
    _ask_ollama_for_answers_only()


def _ask_ollama_for_answers_only() -> None:
    """litellm asks an Ollama for a model's context length and price several times a call: on the loop, so that all
    streams wait for it, and partly at the usual address instead of the one that was configured."""

    def known(self: Any, model: str, api_base: str | None = None, api_key: str | None = None) -> dict[str, Any]:
        free = {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0, "supports_function_calling": True}
        unknown = {"max_tokens": None, "max_input_tokens": None, "max_output_tokens": None}
        return {"key": model, "litellm_provider": "ollama", "mode": "chat", **free, **unknown}

    OllamaModelInfo.get_runtime_model_info = known


def _see_how_gemini_ends() -> None:
    """litellm gives every piece of Gemini's answer the reason "stop", so an answer that was cut off would pass for a
    whole one. Here only the reason that Gemini gave counts; `_stop` does the rest."""
    reason_of = VertexGeminiConfig._check_finish_reason

    def given(message: Any, reason: str | None) -> Any:
        return reason_of(message, reason) if reason else None

    VertexGeminiConfig._check_finish_reason = staticmethod(given)  # pyright: ignore[reportAttributeAccessIssue]


async def warm_up() -> None:
    """Pays for what litellm and its client load at the first call (1.3 s), so that no cell has to."""
    arguments = completion_arguments(
        {
            "model": "warm-up",
            "messages": [{"role": "user", "content": "x"}],
            "tools": [{"name": "x", "description": "x", "parameters": {"type": "object", "properties": {}}}],
        },
        Provider(driver="openai", base_url="http://127.0.0.1:9/v1"),
        timeout_s=1.0,
    )
    stream: Any = await litellm.acompletion(**arguments, mock_response="x")
    async for _ in stream:
        pass
    try:
        # The discard port answers no one: this builds the client and its TLS context.
        await litellm.acompletion(**arguments)
    except Exception:  # whatever litellm makes of the refusal
        return


@dataclass(slots=True)
class _Use:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Answer:
    """One answer being read. `run` may be cancelled: the connection to the provider is closed then. `on_reasoning` is
    told once, when the model begins to reason before it answers."""

    def __init__(
        self,
        command: Generate,
        provider: Provider,
        *,
        on_text: Callable[[str], None],
        on_reasoning: Callable[[], None],
    ) -> None:
        self.begun = False
        self._on_reasoning = on_reasoning
        self._reasoning: list[str] = []
        self._reasoned = 0
        self._command = command
        self._provider = provider
        self._on_text = on_text
        self._uses: list[_Use] = []
        self._use_at: dict[int, _Use] = {}
        self._raw: Any = None
        self._usage: Any = None
        self._finish: str | None = None
        self._model = ""
        self._id = ""
        self._first_at: float | None = None

    async def run(self, *, writable: asyncio.Event) -> Stop:
        """Reads the answer to its end. While `writable` is not set it does not read on, and the provider waits.

        Raises TimeoutError, Broken, Garbage, and what litellm raises.
        """
        loop, command = asyncio.get_running_loop(), self._command
        started = time.perf_counter()
        timeout_s = command.first_s + command.next_s
        arguments = completion_arguments(
            command.request, self._provider, timeout_s=timeout_s, pictures=command.pictures
        )
        try:
            async with asyncio.timeout(command.first_s) as limit:
                self._raw = await litellm.acompletion(**arguments)
                count = 0
                async for chunk in self._raw:
                    self._take(chunk)
                    count += 1
                    if not writable.is_set():
                        limit.reschedule(None)
                        await writable.wait()
                    elif count % _YIELD_EVERY == 0:
                        await asyncio.sleep(0)
                    limit.reschedule(loop.time() + command.next_s)
        finally:
            if self._raw is not None:
                await self._raw.aclose()
        return self._stop(started)

    def _take(self, chunk: Any) -> None:
        self._usage = getattr(chunk, "usage", None) or self._usage
        self._model = getattr(chunk, "model", None) or self._model
        self._id = getattr(chunk, "id", None) or self._id
        for choice in chunk.choices:
            delta = choice.delta
            self._finish = choice.finish_reason or self._finish
            if reasoning := getattr(delta, "reasoning_content", None):
                self._take_reasoning(reasoning)
            if delta.content:
                self._mark()
                self._on_text(delta.content)
            for piece in delta.tool_calls or ():
                self._mark()
                self._take_use(piece)

    def _take_reasoning(self, text: str) -> None:
        if not self._reasoning and not self.begun:
            self._on_reasoning()
        if self._reasoned < MAX_REASONING_CHARS:
            self._reasoning.append(text[: MAX_REASONING_CHARS - self._reasoned])
            self._reasoned += len(self._reasoning[-1])

    def _take_use(self, piece: Any) -> None:
        use = self._use_at.get(piece.index or 0)
        # Some compatible servers give every call the index 0; then a new id is what begins the next one.
        if use is None or (piece.id and use.id and piece.id != use.id):
            use = self._use_at[piece.index or 0] = _Use()
            self._uses.append(use)
        use.id = use.id or piece.id or ""
        use.name = use.name or piece.function.name or ""
        if piece.function.arguments:
            use.arguments.append(piece.function.arguments)

    def _mark(self) -> None:
        self.begun = True
        self._first_at = self._first_at or time.perf_counter()

    def _stop(self, started: float) -> Stop:
        # litellm makes up a "stop" where a stream ends without one; these two hold what really came.
        told_usage = any(getattr(chunk, "usage", None) for chunk in self._raw.chunks)
        if self._raw.received_finish_reason is None and self._raw.intermittent_finish_reason is None:
            # Anthropic begins with usage, before any text.
            if self.begun or told_usage:
                raise Broken("The stream ended before the answer did.")
            raise Garbage("There is no answer in what came.")
        finish = _FINISH.get(self._finish or "", "stop")
        usage = _usage(self._usage)
        provider: JsonObject = {"model": repair_text(self._model)}
        if self._provider.driver not in _OWN_IDS:
            provider["id"] = repair_text(self._id)
        if self._first_at is not None:
            provider["ttft_ms"] = round((self._first_at - started) * 1000, 3)
        if not told_usage:
            # litellm counted by itself.
            provider["usage_estimated"] = True
        return Stop(
            # Some providers say "stop" beside tool calls. A "length" stays: the last call's arguments may be cut.
            finish="tool_calls" if self._uses and finish == "stop" else finish,
            tool_uses=self._tool_uses(),
            usage=usage,
            cost=price(self._provider, str(self._command.request.get("model", "")), usage),
            provider=provider,
            reasoning=repair_text("".join(self._reasoning)),
        )

    def _tool_uses(self) -> tuple[ToolUse, ...]:
        seen: set[str] = set()
        uses: list[ToolUse] = []
        for number, use in enumerate(self._uses, start=1):
            call_id = repair_text(use.id)
            if not call_id or call_id in seen:
                call_id = f"{self._command.session_id}_{number}"
            seen.add(call_id)
            arguments = repair_text("".join(use.arguments))
            uses.append(ToolUse(call_id=CallId(call_id), name=repair_text(use.name), arguments=arguments))
        return tuple(uses)


def price(provider: Provider, model: str, usage: Usage) -> int | None:
    """What `usage` costs in 1e-9 USD by litellm's list; None where the list does not know, never a guess.

    A model behind somebody's own base_url may have any price, whatever its name is.
    """
    if not is_own_address(provider.driver, provider.base_url):
        return None
    entry = entry_of(ModelName(driver=provider.driver, model=model))
    if not entry or entry.get("input_cost_per_token") is None or entry.get("output_cost_per_token") is None:
        return None
    if entry["input_cost_per_token"] == 0 and entry["output_cost_per_token"] == 0:
        return 0
    try:
        costs = litellm.cost_per_token(
            model=model,
            custom_llm_provider=provider.driver,
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            cache_read_input_tokens=usage.cached_tokens,
        )
    except Exception:  # litellm raises a bare Exception for a model that it can't price
        return None
    return round(sum(costs) * NANO_USD_PER_USD)


def _usage(raw: Any) -> Usage:
    details = getattr(raw, "prompt_tokens_details", None)
    return Usage(
        input_tokens=int(getattr(raw, "prompt_tokens", 0) or 0),
        output_tokens=int(getattr(raw, "completion_tokens", 0) or 0),
        cached_tokens=int(getattr(details, "cached_tokens", 0) or 0),
    )
