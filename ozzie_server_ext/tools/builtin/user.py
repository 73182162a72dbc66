"""`user.ask` and `skill.gate`: questions to the person. Only steps of skills call the gate, and it always asks."""

from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ozzie_server_ext.domain.errors import Bug
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Idempotency, ToolResult
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.tools.base import (
    EffectTool,
    FunctionTool,
    ModelQuestion,
    Offered,
    Plan,
    Preview,
    ToolContext,
    ToolFailed,
    read_only,
)

MOST_OPTIONS = 6
"""Each has a digit key."""


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
    offered = tuple(Option.model_validate(each) for each in options)  # checked arguments are plain JSON
    labels = {visible_label(each.label) for each in offered}  # what a person can tell apart
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


async def go_on(
    context: ToolContext,
    *,
    question: Annotated[str, Field(description="What a person says yes or no to.", min_length=1, max_length=50_000)],
    show: Annotated[str, Field(description="What it is about.")] = "",
) -> ToolResult:
    """Ask a person whether to go on."""
    return ToolResult(ok=True, data={"approved": True}, summary="approved")


def _gate_preview(args: JsonObject) -> Preview:
    show = str(args["show"])
    return Preview(
        sentence=visible_label(str(args["question"])),
        proof=show,
        shown="text" if show else "",
        undo="Approving only starts the next steps.",
    )


_ASK = read_only(tool_id="user.ask", name="ask_user", timeout_s=5, overview=True, idempotency=Idempotency.NOT_SUPPORTED)

TOOLS = (
    EffectTool(ask, _run, _ASK),
    FunctionTool(go_on, replace(_ASK, tool_id="skill.gate", name="gate", for_skills=True), preview=_gate_preview),
)
