"""`user.ask`: a question to the person, whose answer is the result."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ozzie_server_ext.domain.errors import Bug
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Idempotency, RiskLevel, SideEffect, ToolMeta, ToolResult
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.tools.base import EffectTool, ModelQuestion, Offered, Plan, ToolContext, ToolFailed

MOST_OPTIONS = 6
"""Each has a digit."""


class Option(BaseModel):
    """One answer that is offered."""

    model_config = ConfigDict(extra="forbid")

    label: Annotated[str, Field(description="The answer, in a few words.", min_length=1, max_length=120)]
    help: Annotated[str, Field(description="One line about it.", max_length=200)] = ""


async def ask(
    context: ToolContext,
    *,
    question: Annotated[str, Field(description="One question, in plain text.", min_length=1, max_length=2000)],
    options: Annotated[
        tuple[Option, ...],
        Field(description="Answers to choose from; without any, the user writes one.", max_length=MOST_OPTIONS),
    ] = (),
    only_options: Annotated[bool, Field(description="Whether no other answer is of use.")] = False,
) -> Plan:
    """Ask the user a question and wait for the answer. For what only they can know or decide; never for a secret."""
    offered = tuple(Option.model_validate(each) for each in options)  # of arguments that were checked, it is the JSON
    labels = {visible_label(each.label) for each in offered}  # as a person tells them apart
    if len(labels) < len(offered) or "" in labels:
        raise ToolFailed("Each option needs a label of its own.")
    if not question.strip():
        raise ToolFailed("The question is empty.")
    args: JsonObject = {
        "question": question,
        "options": [each.model_dump() for each in offered],
        "only_options": only_options,
    }
    choices = tuple(Offered(label=each.label, help=each.help) for each in offered)
    is_free = not offered or not only_options
    return Plan(args=args, question=ModelQuestion(text=question.strip(), choices=choices, is_free=is_free))


async def _run(context: ToolContext, plan: Plan) -> ToolResult:
    raise Bug("A person answers a question; the tool does not.")


async def _happened(context: ToolContext, effect: JsonObject) -> bool | None:
    return None


TOOLS = (
    EffectTool(
        ask,
        _run,
        ToolMeta(
            tool_id="user.ask",
            name="ask_user",
            side_effect=SideEffect.NONE,
            risk_level=RiskLevel.LOW,
            timeout_s=5,
            idempotency=Idempotency.NOT_SUPPORTED,
        ),
        happened=_happened,
    ),
)
