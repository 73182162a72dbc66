"""Whether a skill runs as an agent that goes its own way, or as a graph (S4 §8.3.2, AG-5). Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ozzie_server_ext.domain.toolmeta import Category, SideEffect, ToolMeta
from ozzie_server_ext.skills.spec import SimpleSkill, Skill

By: TypeAlias = Literal["name", "delegation"]
"""Who runs it: a person by its name, or an agent."""

FORMAL = frozenset(
    {
        Category.EXTERNAL_SEND,
        Category.PAYMENT,
        Category.DELETE,
        Category.CONFIG_CHANGE,
        Category.HOST_COMMAND,
        Category.LIVE_KERNEL,
    }
)


@dataclass(frozen=True, slots=True)
class Mode:
    """`reason` is a sentence for people."""

    mode: Literal["FREE", "GRAPH"]
    reason: str


def mode_of(skill: Skill, meta_of: Callable[[str], ToolMeta | None], by: By) -> Mode:
    """GRAPH where any of S4's conditions holds: effects that can't be undone, systems outside, a result that has to be
    audited or played again, a promise to be kept. FREE else."""
    if not isinstance(skill, SimpleSkill):
        return Mode("GRAPH", "It has steps of its own.")
    if by == "name":
        return Mode("GRAPH", "A person ran it by its name, so it is one to be looked at and run again.")
    if skill.dangerous_tools:
        return Mode("GRAPH", f"It may call {skill.dangerous_tools[0]}, which it asks for first.")
    for name in skill.tools or ():
        meta = meta_of(name)
        if meta is not None and (meta.side_effect is SideEffect.IRREVERSIBLE or meta.categories & FORMAL):
            return Mode("GRAPH", f"It may call {meta.name}, whose effect can't be undone or leaves this machine.")
    if skill.acceptance is not None or skill.output_model is not None:
        return Mode("GRAPH", "Its result is checked before it counts.")
    if skill.risk_level == "high":
        return Mode("GRAPH", "Its risk is high.")
    return Mode("FREE", "Nothing that it may do has to be checked, undone or played again.")
