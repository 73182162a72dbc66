"""What a round sends to a model: the conversation, the prompt, the tools, and the shape of the answer."""

import hashlib
from functools import cached_property

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.plan import TurnParts, TurnPlan
from ozzie_server_ext.agent.prompt import Prompt, SessionContext, compose
from ozzie_server_ext.agent.shape import Holding, bare, holding
from ozzie_server_ext.agent.shown import with_latest_pictures
from ozzie_server_ext.agent.toolbox import TurnToolbox
from ozzie_server_ext.domain.budget import UNKNOWN_OUTPUT, Need, tokens_in
from ozzie_server_ext.domain.events import InjectedTool, ToolsetInjected
from ozzie_server_ext.domain.ids import CallId, TaskId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.pictures import PICTURE_TOKENS
from ozzie_server_ext.models.driver import ChatMessage, ModelChoice, ModelRequest
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.tools.base import Tool

_NEVER_HELD = frozenset({"deepseek"})
"""Drivers whose providers refuse a schema, whatever is said of the model."""
_HELD_TO_CLOSED = frozenset({"anthropic"})
"""Drivers whose providers are given none but closed schemas: litellm closes all others, and changes what they mean."""


class Requests:
    """Those of one turn, each made from what its conversation has grown to."""

    def __init__(
        self,
        parts: TurnParts,
        plan: TurnPlan,
        conversation: Conversation,
        toolbox: TurnToolbox,
        task_id: TaskId | None,
    ) -> None:
        self._toolbox = toolbox
        self._ids = parts.ids
        self._plan = plan
        self._conversation = conversation
        self._task_id = task_id
        self._let_go: set[str] = set()

    def request(self, choice: ModelChoice, prompt: Prompt) -> ModelRequest:
        """With an id of its own each time it is made."""
        history = self._conversation.messages(self._plan.max_history, self._task_id)
        return ModelRequest(
            call_id=CallId(self._ids.new()),
            choice=choice,
            messages=(
                ChatMessage(role="system", content=prompt.text),
                *with_latest_pictures(history, sees=choice.sees),
            ),
            tools=tuple(tool.spec for tool in self.tools(choice)),
            schema=bare(self._schema) if self._schema and self._is_held(choice) else None,
        )

    def let_go(self, choice: ModelChoice) -> bool:
        """Ask the provider from now on without holding its answer to the schema; False where it was not held."""
        if not self._is_held(choice):
            return False
        self._let_go.add(choice.provider)
        return True

    def tools(self, choice: ModelChoice) -> tuple[Tool, ...]:
        """Those that are offered to `choice`. None where an answer that used none did not fit: most providers can hold
        the next one to the schema only without them."""
        missed = self._conversation.rejected(self._task_id) and not self._conversation.used_tools(self._task_id)
        if not choice.takes_tools or (missed and self._can_hold(choice)):
            return ()
        return self._toolbox.tools

    def _is_held(self, choice: ModelChoice) -> bool:
        used = self._conversation.used_tools(self._task_id)
        return self._can_hold(choice) and not used and not self.tools(choice)

    def _can_hold(self, choice: ModelChoice) -> bool:
        if not choice.structured or choice.driver in _NEVER_HELD or choice.provider in self._let_go:
            return False
        return self._holding == "closed" or (self._holding == "plain" and choice.driver not in _HELD_TO_CLOSED)

    @cached_property
    def _holding(self) -> Holding:
        return "" if self._schema is None else holding(bare(self._schema))

    @property
    def _schema(self) -> JsonObject | None:
        return self._conversation.schema(self._task_id)

    def prompt(self, choice: ModelChoice) -> Prompt:
        """What stands before the conversation."""
        tools = self.tools(choice)
        return compose(
            soul=self._plan.soul,
            custom=self._plan.custom_prompt,
            tools=[tool.spec for tool in tools if not tool.meta.delegates_to],
            skills=[tool.spec for tool in tools if tool.meta.delegates_to],
            finds_more=self._toolbox.is_partial,
            session=SessionContext(
                title=self._plan.session_title,
                goes_on=self._conversation.goes_on(self._task_id),
                recovered=self._plan.recovered,
            ),
            instruction=self._plan.brief.instruction,
            schema=self._schema,
        )


def need_of(request: ModelRequest, document: bytes) -> Need:
    choice = request.choice
    longest = choice.longest_answer
    shown = sum(len(message.pictures) for message in request.messages)
    return Need(
        read=tokens_in(document) + shown * PICTURE_TOKENS,
        written=longest or UNKNOWN_OUTPUT,
        prices=choice.prices,
        is_guess=longest is None,
    )


def injected_tools(tools: tuple[Tool, ...]) -> ToolsetInjected:
    return ToolsetInjected(
        tools=tuple(
            InjectedTool(tool_id=tool.meta.tool_id, name=tool.meta.name, version=tool.meta.version) for tool in tools
        )
    )


def toolset_version(injected: ToolsetInjected) -> str:
    """One hash for the set of tools on offer, as `model.call.started` records it."""
    return hashlib.sha256(canonical_bytes([[tool.tool_id, tool.version] for tool in injected.tools])).hexdigest()[:16]
