"""The work order of a step, made from the skill and the outputs of earlier steps."""

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import Brief, GivenCall
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.skills.conditions import read_condition
from ozzie_server_ext.skills.parameters import INPUT
from ozzie_server_ext.skills.spec import FsmSkill, SimpleSkill, Skill, Step, Work, WorkflowSkill
from ozzie_server_ext.skills.templates import Values, as_text, fill, references, resolve

ASK_TOOL, GATE_TOOL = "user.ask", "skill.gate"
"""The tools by which a step asks a person a question, and for a yes."""

MOST_CHARS = 60_000
"""Characters of one earlier output in the message of a step."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a step: a text for a model, or one call; `content` says what of it came from outside."""

    text: str = ""
    call: GivenCall | None = None
    brief: Brief
    content: Content


def as_workflow(skill: SimpleSkill) -> WorkflowSkill:
    """Return a simple skill as a workflow of one step, so that all runs are of one kind."""
    work = skill.model_dump(include={"model", "max_iterations", "output_model", "acceptance", "tool_policy"})
    step = Step(id=skill.name, instruction=skill.instruction or skill.name, **work)
    return WorkflowSkill.model_construct(
        **{name: getattr(skill, name) for name in type(skill).model_fields if name in WorkflowSkill.model_fields},
        steps=(step,),
        max_parallel=1,
    ).model_copy(update={"type": "workflow"})


def order_for(skill: Skill, work: Work, values: Values, *, rejected: str = "") -> Order:
    """Return the order of a step; `rejected` is why the previous attempt's result was refused. Raises Unresolved."""
    content = values.content_of(*_texts(work)) | _content_of_needs(work, values)
    match work.kinds:
        case ("call",) if work.call is not None:
            args = resolve(work.call.args, values.find)
            assert isinstance(args, dict)
            brief = _brief(skill, work, tools=None)  # it may do nothing but this call
            return Order(call=GivenCall(tool=work.call.tool, args=args), brief=brief, content=content)
        case ("ask",) if work.ask is not None:
            options: list[Json] = [{"label": option} for option in work.ask.options]
            args = {"question": fill(work.ask.question, values.find), "options": options, "only_options": bool(options)}
            return Order(call=GivenCall(tool=ASK_TOOL, args=args), brief=Brief(skill=skill.name), content=content)
        case ("approve",) if work.approve is not None:
            question, show = fill(work.approve.question, values.find), fill(work.approve.show, values.find)
            brief = Brief(skill=skill.name, dangerous_tools=(GATE_TOOL,))
            call = GivenCall(tool=GATE_TOOL, args={"question": question, "show": show})
            return Order(call=call, brief=brief, content=content)
        case _:
            text = input_text(values.given) if isinstance(skill, SimpleSkill) else _message(skill, work, values)
            if rejected:
                text += f"\n\nWhat came of this before was not taken. {rejected}"
            if isinstance(skill, SimpleSkill):
                brief = _brief_of_all(skill, work, values)
            else:
                brief = _brief(skill, work, tools=_tools(skill, work))
            return Order(text=text, brief=brief, content=content | values.content)


def input_of(work: Work, values: Values) -> JsonObject:
    """Return the input of the skill that a step runs. Raises Unresolved."""
    given = resolve(work.with_, values.find)
    assert isinstance(given, dict)
    return given


def input_text(given: JsonObject) -> str:
    """Return an input as words: a single text as it is, several values with their names."""
    if set(given) == {INPUT}:
        return as_text(given[INPUT])
    return "\n".join(f"{name}: {as_text(value)}" for name, value in given.items() if value is not None)


def _tools(skill: Skill, work: Work) -> tuple[str, ...] | None:
    return work.tools if work.tools is not None else skill.tools


def _brief(skill: Skill, work: Work, *, tools: tuple[str, ...] | None) -> Brief:
    tool_policy = work.tool_policy or skill.tool_policy
    policy = work.approval_policy or skill.approval_policy
    about = f'You carry out the step "{work.name}" of the skill "{skill.name}"'
    instruction = f"{about}: {skill.description}" if skill.description else f"{about}."
    return Brief(
        skill=skill.name,
        instruction=instruction,
        tools=tools,
        dangerous_tools=(*skill.dangerous_tools, *work.dangerous_tools),
        asks_for_changes=policy is not None and policy.mode == "human_in_loop",
        one_by_one=tool_policy == "sequential",
    )


def _brief_of_all(skill: SimpleSkill, work: Work, values: Values) -> Brief:
    """The brief of a simple skill: its own instruction, or its description."""
    parts = [fill(skill.instruction or "", values.find) or skill.description]
    if skill.acceptance:
        parts.append(f"What has to hold for the result: {fill(skill.acceptance, values.find)}")
    brief = _brief(skill, work, tools=_tools(skill, work))
    return replace(brief, instruction="\n\n".join(filter(None, parts)))


def _message(skill: WorkflowSkill | FsmSkill, work: Work, values: Values) -> str:
    """The instruction, the outputs of earlier steps that it does not mention, and the acceptance condition. Where the
    run begins, also the values given to it that no text of the skill mentions."""
    instruction = work.instruction or ""
    mentioned = {reference.step for reference in references(instruction)}
    parts = [fill(instruction, values.find)]
    needs = work.needs if isinstance(work, Step) else ()
    is_first = not needs if isinstance(skill, WorkflowSkill) else work.id == skill.first
    if is_first:
        known = _mentioned_variables(skill)
        parts.append(input_text({name: value for name, value in values.given.items() if name not in known}))
    for need in needs:
        output = values.outputs.get(need)
        if need not in mentioned and output is not None:
            text = as_text(output.value)
            cut = f"{text[:MOST_CHARS]}\n… (cut)" if len(text) > MOST_CHARS else text
            parts.append(f'What the step "{need}" gave:\n\n{cut}')
    if work.acceptance:
        parts.append(f"What has to hold for the result: {fill(work.acceptance, values.find)}")
    return "\n\n".join(part for part in parts if part)


def _mentioned_variables(skill: WorkflowSkill | FsmSkill) -> set[str]:
    works: tuple[Work, ...] = skill.steps if isinstance(skill, WorkflowSkill) else skill.states
    texts = [text for work in works for text in _texts(work)]
    conditions = [each.when for each in skill.steps] if isinstance(skill, WorkflowSkill) else []
    conditions += [move.when for state in skill.states for move in state.moves] if isinstance(skill, FsmSkill) else []
    found = [*references(texts)]
    for condition in filter(None, conditions):
        found += read_condition(condition).references.values()
    return {reference.path[0] for reference in found if not reference.step}


def _texts(work: Work) -> list[Json]:
    call, ask, approve = work.call, work.ask, work.approve
    texts: list[Json] = [work.instruction, work.acceptance, work.with_]
    texts += [call.args] if call else []
    texts += [ask.question] if ask else []
    texts += [approve.question, approve.show] if approve else []
    return [text for text in texts if text]


def _content_of_needs(work: Work, values: Values) -> Content:
    found = values.content
    if isinstance(work, Step) and work.instruction is not None:
        for need in work.needs:
            found = found | (values.outputs[need].content if need in values.outputs else values.content)
    return found
