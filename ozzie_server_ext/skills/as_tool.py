"""A skill as a tool: an agent delegates work to it and gets its result."""

import re
from collections.abc import Iterable
from functools import partial

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import (
    SKILL_PREFIX,
    SKILLS,
    Idempotency,
    RiskLevel,
    SideEffect,
    ToolMeta,
    ToolResult,
    ToolSpec,
)
from ozzie_server_ext.skills.library import Shelf, SkillFile
from ozzie_server_ext.skills.parameters import fitted, input_problems, parameters_of
from ozzie_server_ext.tools.base import InvalidArguments, Plan, ToolContext

MAX_NAME = 64

MOST_TIME_S = 7 * 24 * 3600.0
"""A skill may wait for a person. Its own budget and that of the calling task limit it."""


class SkillTool:
    """The skill of one file in its present version.

    It has no effect of its own: each call it makes passes the broker. After a crash the call is repeated with its key
    and finds the work it had begun.
    """

    waits = True
    plan_waits = False

    def __init__(self, file: SkillFile) -> None:
        skill = file.skill
        self._skill = skill
        self.meta = ToolMeta(
            tool_id=tool_id_of(skill.name),
            name=f"{SKILL_PREFIX}{skill.name}"[:MAX_NAME],
            side_effect=SideEffect.NONE,
            risk_level=RiskLevel(skill.risk_level),
            timeout_s=MOST_TIME_S,
            idempotency=Idempotency.SUPPORTED,
            version=file.version[:12],
            max_inline_chars=20_000,
            tags=skill.triggers.keywords,
            delegates_to=skill.name,
        )
        description = skill.description or f"Runs the skill {skill.name}."
        self.spec = ToolSpec(name=self.meta.name, description=description, parameters=parameters_of(skill))

    def check(self, args: JsonObject) -> JsonObject:
        try:
            return fitted(self._skill, args)
        except InputError as error:
            raise InvalidArguments(
                f"The arguments of {self.meta.name} do not fit: {error}",
                problems=partial(input_problems, self._skill, args),
            ) from None

    async def plan(self, args: JsonObject, context: ToolContext) -> Plan:
        return Plan(args=args)

    async def run(self, plan: Plan, context: ToolContext) -> ToolResult:
        return await context.delegates.carry_out(
            self._skill.name,
            plan.args,
            key=context.key,
            reading=context.reading,
            provenance=context.provenance,
        )

    async def happened(self, effect: JsonObject, context: ToolContext) -> bool | None:
        return None


def skill_tools(shelf: Shelf) -> Iterable[SkillTool]:
    """Return a tool for each skill that may be delegated to."""
    return (SkillTool(file) for file in shelf.skills if file.skill.triggers.delegation)


def tool_id_of(skill: str) -> str:
    """Return the id that rules use. Skills whose names differ only in punctuation or case share one."""
    plain = re.sub(r"[^a-z0-9_]", "_", skill.lower())
    return f"{SKILLS}{plain if plain[0].isalpha() else f'n{plain}'}"
