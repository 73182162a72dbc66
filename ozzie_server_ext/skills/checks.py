"""Consistency checks of a well-formed skill: known names, a possible order, and texts that can be filled in.

Each complaint has a path, so that it can be reported with its line.
"""

from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter

import msgspec

from ozzie_server_ext.config.jsonc import KeyPath
from ozzie_server_ext.config.validation import near
from ozzie_server_ext.domain.json import Json, is_of
from ozzie_server_ext.skills.conditions import BadCondition, read_condition
from ozzie_server_ext.skills.parameters import variables_of
from ozzie_server_ext.skills.spec import KINDS, FsmSkill, SimpleSkill, Skill, State, Work, WorkflowSkill
from ozzie_server_ext.skills.templates import BadTemplate, Reference, references

APPROVED, REJECTED, DONE, FAILED = "approved", "rejected", "done", "failed"
"""The events with which a state's work ends; `wait` ends with the event that it names."""


class Complaint(msgspec.Struct, frozen=True):
    """An error of a skill: a sentence, and the path in the file."""

    path: KeyPath
    sentence: str


def complaints(skill: Skill) -> Iterator[Complaint]:
    """Yield everything that is wrong with the skill itself, wherever it runs."""
    yield from _of_variables(skill)
    yield from _of_dangerous((), skill.tools, skill.dangerous_tools)
    match skill:
        case SimpleSkill():
            yield from _of_text(("instruction",), skill.instruction, _Scope(skill))
            yield from _of_text(("acceptance",), skill.acceptance, _Scope(skill))
        case WorkflowSkill():
            yield from _of_workflow(skill)
        case FsmSkill():
            yield from _of_fsm(skill)


def works_of(skill: Skill) -> Iterator[tuple[KeyPath, Work]]:
    """Yield the steps or states with their paths."""
    match skill:
        case WorkflowSkill(steps=steps):
            yield from ((("steps", index), step) for index, step in enumerate(steps))
        case FsmSkill(states=states):
            yield from ((("states", index), state) for index, state in enumerate(states))
        case SimpleSkill():
            return


class _Scope(msgspec.Struct, frozen=True):
    """What a template may refer to: the skill's variables, and the steps that have ended by then."""

    skill: Skill
    steps: Collection[str] = ()
    known: Collection[str] = ()
    """All steps, to distinguish one that ends too late from an unknown one."""

    def complaint(self, reference: Reference) -> str:
        """Return why the reference has no meaning here, or ""."""
        if step := reference.step:
            if step in self.steps:
                return ""
            if step in self.known:
                return f'{{{{{reference}}}}}: "{step}" may not have ended by then; name it in "needs"'
            return f'{{{{{reference}}}}}: there is no step "{step}"{near(step, self.known)}'
        names = variables_of(self.skill)
        if names is None or reference.path[0] in names:
            return ""
        return f'{{{{{reference}}}}}: there is no variable "{reference.path[0]}"{near(reference.path[0], names)}'


def _of_variables(skill: Skill) -> Iterator[Complaint]:
    for name, var in skill.vars.items():
        for index, value in enumerate(var.enum):
            if not is_of(var.type, value):
                yield Complaint(("vars", name, "enum", index), f"must be of the type {var.type}")


def _of_dangerous(path: KeyPath, tools: tuple[str, ...] | None, dangerous: tuple[str, ...]) -> Iterator[Complaint]:
    for index, name in enumerate(dangerous):
        if tools is not None and name not in tools:
            yield Complaint((*path, "dangerous_tools", index), f'"{name}" is not among "tools"{near(name, tools)}')


def _of_workflow(skill: WorkflowSkill) -> Iterator[Complaint]:
    ids = [step.id for step in skill.steps]
    yield from _doubles("steps", ids)
    for index, step in enumerate(skill.steps):
        for place, need in enumerate(step.needs):
            path: KeyPath = ("steps", index, "needs", place)
            if need == step.id:
                yield Complaint(path, f'"{need}" can\'t need itself')
            elif need not in ids:
                yield Complaint(path, f'there is no step "{need}"{near(need, ids)}')
    if skill.output is not None and skill.output not in ids:
        yield Complaint(("output",), f'there is no step "{skill.output}"{near(skill.output, ids)}')
    needs = {step.id: [need for need in step.needs if need in ids and need != step.id] for step in skill.steps}
    earlier: dict[str, frozenset[str]] = {}  # the steps that have ended when each begins; empty if there is a cycle
    try:
        for step_id in TopologicalSorter(needs).static_order():
            earlier[step_id] = frozenset(needs[step_id]).union(*(earlier[need] for need in needs[step_id]))
    except CycleError as error:
        cycle: list[str] = error.args[1]
        path = ("steps", ids.index(cycle[-1]), "needs")
        yield Complaint(path, f"no step can be the first: {' before '.join(cycle)}")
    for index, step in enumerate(skill.steps):
        scope = _Scope(skill, earlier.get(step.id, ids), ids)
        yield from _of_work(("steps", index), step, skill, scope)
        yield from _of_condition(("steps", index, "when"), step.when, scope)


def _of_fsm(skill: FsmSkill) -> Iterator[Complaint]:
    ids = [state.id for state in skill.states]
    yield from _doubles("states", ids)
    if skill.first not in ids:
        yield Complaint(("initial",), f'there is no state "{skill.first}"{near(skill.first, ids)}')
    if not any(state.final for state in skill.states):
        yield Complaint(("states",), 'no state is "final", so it could never end')
    scope = _Scope(skill, ids, ids)
    for index, state in enumerate(skill.states):
        path: KeyPath = ("states", index)
        yield from _of_work(path, state, skill, scope)
        yield from _of_moves(path, state, ids, scope)
    yield from _unreached(skill, ids)


def _of_moves(path: KeyPath, state: State, ids: list[str], scope: _Scope) -> Iterator[Complaint]:
    if state.final and state.moves:
        yield Complaint((*path, "moves"), "a final state has no moves")
    if not state.final and not state.moves:
        yield Complaint(path, f'"{state.id}" has no moves and is not "final"')
    events = _events_of(state)
    for index, move in enumerate(state.moves):
        if move.to not in ids:
            yield Complaint((*path, "moves", index, "to"), f'there is no state "{move.to}"{near(move.to, ids)}')
        if move.on is not None and move.on not in events:
            ends = " or ".join(f'"{event}"' for event in events)
            yield Complaint((*path, "moves", index, "on"), f'"{state.id}" ends with {ends}, never with "{move.on}"')
        yield from _of_condition((*path, "moves", index, "when"), move.when, scope)


def _unreached(skill: FsmSkill, ids: list[str]) -> Iterator[Complaint]:
    moves = {state.id: [move.to for move in state.moves] for state in skill.states}
    reached, pending = {skill.first}, [skill.first]
    while pending:
        for to in moves.get(pending.pop(), ()):
            if to not in reached:
                reached.add(to)
                pending.append(to)
    for index, state in enumerate(ids):
        if skill.first in ids and state not in reached:
            yield Complaint(("states", index), f'nothing leads to "{state}"')


def _events_of(state: State) -> tuple[str, ...]:
    if state.approve is not None:
        return (APPROVED, REJECTED)
    if state.wait is not None:
        return (state.wait.event, FAILED) if state.wait.timeout_s is not None else (state.wait.event,)
    return (DONE, FAILED)


def _of_work(path: KeyPath, work: Work, skill: Skill, scope: _Scope) -> Iterator[Complaint]:
    kinds = work.kinds
    is_nothing = isinstance(work, State) and (work.final or work.moves)
    if len(kinds) > 1:
        *others, last = (f'"{kind}"' for kind in kinds)
        yield Complaint((*path, kinds[1]), f'"{work.id}" has {", ".join(others)} and {last}, and may do one thing')
    elif not kinds and not is_nothing:
        yield Complaint(path, f'"{work.id}" does nothing: give it one of {", ".join(KINDS)}')
    if work.with_ and work.skill is None:
        yield Complaint((*path, "with"), '"with" is the input of a skill, and there is no "skill" here')
    if work.skill == skill.name:
        yield Complaint((*path, "skill"), f'"{skill.name}" can\'t be a step of itself')
    tools = work.tools if work.tools is not None else skill.tools
    yield from _of_dangerous(path, tools, work.dangerous_tools)
    texts: dict[KeyPath, Json] = {
        ("instruction",): work.instruction,
        ("acceptance",): work.acceptance,
        ("call", "args"): work.call.args if work.call else None,
        ("with",): work.with_,
        ("ask", "question"): work.ask.question if work.ask else None,
        ("approve", "question"): work.approve.question if work.approve else None,
        ("approve", "show"): work.approve.show if work.approve else None,
    }
    for key, text in texts.items():
        yield from _of_text((*path, *key), text, scope)


def _of_text(path: KeyPath, text: Json, scope: _Scope) -> Iterator[Complaint]:
    try:
        for reference in references(text):
            if why := scope.complaint(reference):
                yield Complaint(path, why)
    except BadTemplate as error:
        yield Complaint(path, str(error))


def _of_condition(path: KeyPath, text: str | None, scope: _Scope) -> Iterator[Complaint]:
    if text is None:
        return
    try:
        condition = read_condition(text)
    except BadCondition as error:
        yield Complaint(path, f"{error}; it stops being one at character {error.at + 1}")
        return
    except BadTemplate as error:
        yield Complaint(path, str(error))
        return
    for reference in condition.references.values():
        if why := scope.complaint(reference):
            yield Complaint(path, why)


def _doubles(key: str, ids: list[str]) -> Iterator[Complaint]:
    seen: set[str] = set()
    for index, each in enumerate(ids):
        if each in seen:
            yield Complaint((key, index, "id"), f'"{each}" is used twice')
        seen.add(each)
