"""One call through litellm: text as it comes, then the whole answer with its cost.

Imported in the worker only, and there in a thread: litellm takes seconds to load.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import litellm
import msgspec
from litellm.llms.ollama.common_utils import OllamaModelInfo
from litellm.llms.vertex_ai.gemini.vertex_and_google_ai_studio_gemini import VertexGeminiConfig
from openai.resources.chat.completions import completions

from ozzie_server_ext.agent.structured_output import enforcement
from ozzie_server_ext.domain.budget import NANO_USD_PER_USD, PRICED_TOKENS, Usage
from ozzie_server_ext.domain.events import Finish, ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.models.facts import is_own_address
from ozzie_server_ext.programs.worker_connections import keep_connections
from ozzie_server_ext.programs.worker_failures import Broken, Garbage, error_event
from ozzie_server_ext.programs.worker_tokens import Tokens
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object, repair_text
from ozzie_server_ext.protocol.worker import Generate, ModelFacts, ModelName, Provider, Stop

_DEFAULT_TAG = ":latest"


def facts_of(name: ModelName) -> ModelFacts:
    """Return the facts in litellm's table. Missing entries are unknown: the table lists few absences."""
    entry = entry_of(name)
    if entry is None:
        return ModelFacts()
    return ModelFacts(
        context=_count(entry.get("max_input_tokens")),
        max_output=_count(entry.get("max_output_tokens")),
        tools=_ability(entry.get("supports_function_calling")),
        parallel_tools=_ability(entry.get("supports_parallel_function_calling")),
        images=_ability(entry.get("supports_vision")),
        structured=_ability(entry.get("supports_response_schema")),
        reasoning=_ability(entry.get("supports_reasoning")),
        price_in=_price(entry.get("input_cost_per_token")),
        price_out=_price(entry.get("output_cost_per_token")),
    )


def entry_of(name: ModelName) -> Mapping[str, Any] | None:
    """Return the table's entry for the driver's own model. The same name at another provider is another model."""
    model = name.model
    if name.driver == "ollama":
        model = model.removesuffix(_DEFAULT_TAG)
    for listed in (f"{name.driver}/{model}", model):
        entry: Any = litellm.model_cost.get(listed)
        if entry and entry.get("litellm_provider") == name.driver:
            return entry
    return None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _ability(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _price(value: Any) -> int | None:
    """Convert the table's USD per token to 1e-9 USD per million tokens."""
    if type(value) not in (int, float) or value < 0:
        return None
    # By its shortest decimal form: the binary fraction of 1.5e-7 differs from what the table's author wrote.
    return round(Decimal(str(value)) * PRICED_TOKENS * NANO_USD_PER_USD)


_PREFIX = {
    "openai": "openai",
    "openai-compatible": "openai",
    "ollama": "ollama_chat",
    "vllm": "hosted_vllm",
    "litellm": "litellm_proxy",
}
"""Our drivers whose names differ from litellm's; others, such as anthropic, gemini and deepseek, stay as they are."""

_NO_KEY = "none"
_MAY_BE_KEYLESS = frozenset({"openai", "openai-compatible", "litellm"})
_NAME_LENGTH = 64
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def litellm_model(driver: str, model: str) -> str:
    return f"{_PREFIX.get(driver, driver)}/{model}"


def completion_arguments(
    request: JsonObject, provider: Provider, *, timeout_s: float, pictures: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the keyword arguments of `litellm.acompletion` for `request`, in the form of `ModelRequest.to_json`.
    `pictures`: base64 content by reference."""
    shown = pictures or {}
    arguments: dict[str, Any] = {
        "model": litellm_model(provider.driver, str(request.get("model", ""))),
        "messages": [_message(message, shown) for message in objects(request.get("messages"))],
        "stream": True,
        "stream_options": {"include_usage": True},
        # The caller decides on retries: it alone knows whether text has been shown and what a call may cost.
        "num_retries": 0,
        "max_retries": 0,
        "timeout": timeout_s,
    }
    if tools := objects(request.get("tools")):
        arguments["tools"] = [{"type": "function", "function": tool} for tool in tools]
        # We run tools ourselves. Otherwise litellm looks for its MCP gateway, and fails without the package mcp.
        arguments["_skip_mcp_handler"] = True
    if isinstance(schema := request.get("schema"), dict):
        json_schema: dict[str, Any] = {"name": "answer", "schema": schema}
        if provider.driver == "openai":
            # OpenAI refuses schemas as strict that it can't guarantee; otherwise it follows as well as the model can.
            json_schema["strict"] = enforcement(schema) == "closed"
        arguments["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    if request.get("max_tokens") is not None:
        arguments["max_tokens"] = request["max_tokens"]
    if provider.base_url:
        arguments["api_base"] = provider.base_url
    if provider.headers:
        arguments["extra_headers"] = dict(provider.headers)
    if provider.api_key:
        arguments["api_key"] = provider.api_key
    elif provider.base_url and provider.driver in _MAY_BE_KEYLESS:
        # The client requires a key, a local server needs none: send a placeholder.
        arguments["api_key"] = _NO_KEY
    return arguments


def _message(message: JsonObject, shown: Mapping[str, str]) -> dict[str, Any]:
    """Return a message that every provider accepts. Names, ids and arguments that a model made up are recorded as they
    came; sent back unchanged, they would make a strict provider refuse the session from then on."""
    found: dict[str, Any] = {"role": message["role"], "content": message["content"]}
    if pictures := objects(message.get("pictures")):
        found["content"] = list(_parts(str(message["content"]), pictures, shown))
    if uses := objects(message.get("tool_uses")):
        found["tool_calls"] = [
            {
                "id": _sendable_id(str(use["call_id"])),
                "type": "function",
                "function": {
                    "name": _sendable_name(str(use["name"])),
                    "arguments": _sendable_arguments(str(use["arguments"])),
                },
            }
            for use in uses
        ]
        # Several providers refuse empty text beside tool calls.
        found["content"] = message["content"] or None
    if message["role"] == "tool":
        found["tool_call_id"] = _sendable_id(str(message.get("tool_call_id", "")))
        found["name"] = _sendable_name(str(message.get("name", "")))
    return found


def _parts(text: str, pictures: Sequence[JsonObject], shown: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the text, then each picture after its number and name, so that a model can tell them apart even if texts
    are joined and pictures sent separately, as with Ollama."""
    yield {"type": "text", "text": text}
    for number, picture in enumerate(pictures, start=1):
        yield {"type": "text", "text": f"\n\nPicture {number}, {picture['path']}:"}
        url = f"data:{picture['media_type']};base64,{shown[str(picture['ref'])]}"
        yield {"type": "image_url", "image_url": {"url": url}}


def _sendable_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_NAME_LENGTH] or "unnamed"


def _sendable_id(call_id: str) -> str:
    """Return a valid id, always the same for the same input: a call and its result must match."""
    if _ID.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:32]}"


def _sendable_arguments(text: str) -> str:
    try:
        loads_object(text)
    except InvalidJson:
        return "{}"
    return text


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
"""Drivers for whose answers litellm makes up an id, which nobody at the provider could look up."""


def prepare() -> None:
    """Silence litellm: no message logging, no hints on standard output."""
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    # httpx closes the connection of an aborted call at once, and respects the environment's proxy settings.
    litellm.disable_aiohttp_transport = True
    keep_connections()
    _send_as_it_is()
    _keep_gemini_finish_reason()
    _skip_ollama_model_info()


def _send_as_it_is() -> None:
    """OpenAI's client looks at each field of each message and tool for what it would have to convert, such as files.
    Ours are JSON already. With forty tools, that took a third of a call's time."""

    async def as_it_is(data: Any, expected_type: object) -> Any:
        return data

    completions.async_maybe_transform = as_it_is  # pyright: ignore[reportPrivateImportUsage]


def _skip_ollama_model_info() -> None:
    """litellm asks Ollama for a model's context length and price several times a call: on the loop, where all streams
    wait for it, and partly at the default address instead of the configured one."""

    def known(self: Any, model: str, api_base: str | None = None, api_key: str | None = None) -> dict[str, Any]:
        free = {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0, "supports_function_calling": True}
        unknown = {"max_tokens": None, "max_input_tokens": None, "max_output_tokens": None}
        return {"key": model, "litellm_provider": "ollama", "mode": "chat", **free, **unknown}

    OllamaModelInfo.get_runtime_model_info = known


def _keep_gemini_finish_reason() -> None:
    """litellm gives every piece of Gemini's answer the reason "stop", so a cut answer would pass for a whole one. Keep
    only the reason that Gemini gave; `_stop` does the rest."""
    reason_of = VertexGeminiConfig._check_finish_reason

    def given(message: Any, reason: str | None) -> Any:
        return reason_of(message, reason) if reason else None

    VertexGeminiConfig._check_finish_reason = staticmethod(given)  # pyright: ignore[reportAttributeAccessIssue]


async def warm_up() -> None:
    """Load now what litellm and its client would load at the first call (1.3 s)."""
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
        # Nothing answers on the discard port: this only builds the client and its TLS context.
        await litellm.acompletion(**arguments)
    except Exception:  # litellm's version of the refused connection
        return


class _Use(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: list[str] = msgspec.field(default_factory=list)


class Answer:
    """An answer being read. `run` may be cancelled, which closes the connection to the provider. `on_reasoning` is
    called once, when the model begins to reason before it answers."""

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
        """Read the answer to its end. While `writable` is not set, stop reading, so that the provider waits.

        Raises TimeoutError, Broken, Garbage, and litellm's errors.
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
                    if self._raw.sent_stream_usage:  # all is read; what would come next is litellm's logging
                        break
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
                self._mark_begun()
                self._on_text(delta.content)
            for piece in delta.tool_calls or ():
                self._mark_begun()
                self._take_use(piece)

    def _take_reasoning(self, text: str) -> None:
        if not self._reasoning and not self.begun:
            self._on_reasoning()
        if self._reasoned < MAX_REASONING_CHARS:
            self._reasoning.append(text[: MAX_REASONING_CHARS - self._reasoned])
            self._reasoned += len(self._reasoning[-1])

    def _take_use(self, piece: Any) -> None:
        use = self._use_at.get(piece.index or 0)
        # Some compatible servers give every call the index 0; then a new id marks the next one.
        if use is None or (piece.id and use.id and piece.id != use.id):
            use = self._use_at[piece.index or 0] = _Use()
            self._uses.append(use)
        use.id = use.id or piece.id or ""
        use.name = use.name or piece.function.name or ""
        if piece.function.arguments:
            use.arguments.append(piece.function.arguments)

    def _mark_begun(self) -> None:
        self.begun = True
        self._first_at = self._first_at or time.perf_counter()

    def _stop(self, started: float) -> Stop:
        # litellm makes up a "stop" for a stream without one; these two attributes hold what really came.
        has_usage = any(getattr(chunk, "usage", None) for chunk in self._raw.chunks)
        if self._raw.received_finish_reason is None and self._raw.intermittent_finish_reason is None:
            # Anthropic begins with usage, before any text.
            if self.begun or has_usage:
                raise Broken("The stream ended before the answer did.")
            raise Garbage("The response contains no answer.")
        finish = _FINISH.get(self._finish or "", "stop")
        usage = _usage(self._usage)
        provider: JsonObject = {"model": repair_text(self._model)}
        if self._provider.driver not in _OWN_IDS:
            provider["id"] = repair_text(self._id)
        if self._first_at is not None:
            provider["ttft_ms"] = round((self._first_at - started) * 1000, 3)
        if not has_usage:
            # litellm estimated it.
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
    """Return the cost of `usage` in 1e-9 USD by litellm's list; None if the list lacks the model, never a guess.

    A model behind another base_url may have any price, whatever its name is.
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
