"""A skill in the words that people read: in the list of the command line and of a cell."""

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.skills.library import Found
from ozzie_server_ext.skills.parameters import called
from ozzie_server_ext.skills.spec import FsmSkill, SimpleSkill, Skill, WorkflowSkill


def kind_of(skill: Skill) -> str:
    """What it is, in a few words."""
    match skill:
        case SimpleSkill():
            return "one agent"
        case WorkflowSkill(steps=steps):
            return f"a workflow of {len(steps):,} step{'' if len(steps) == 1 else 's'}"
        case FsmSkill(states=states):
            return f"a state machine of {len(states):,} state{'' if len(states) == 1 else 's'}"


def told(found: Found) -> JsonObject:
    """What is known of a file: of one that is used, what it does; of another one, why it is not."""
    skill = found.file.skill if found.file else None
    return {
        "name": found.name,
        "type": skill.type if skill else None,
        "kind": kind_of(skill) if skill else "",
        "description": skill.description if skill else "",
        "called": called(skill) if skill else "",
        "origin": found.origin,
        "path": str(found.path),
        "version": found.file.version if found.file else None,
        "used": skill is not None,
        "trusted": found.is_trusted,
        "problem": found.problem,
        "hint": found.hint,
        "replaces": str(found.replaces) if found.replaces else None,
    }
