"""Starts of skills: the skill by its current file, a valid input, available models, and the run's limits."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.budget import NANO_USD_PER_USD, Measure
from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.domain.events import Limits, PlannedStep, SkillStarted, StepKind
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.skills.briefing import as_workflow
from ozzie_server_ext.skills.checks import works_of
from ozzie_server_ext.skills.library import Library, SkillFile, of_skills, of_tools
from ozzie_server_ext.skills.parameters import fitted, typed
from ozzie_server_ext.skills.spec import By, Mode, SimpleSkill, Skill, State, Step, Work, mode_of
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.tasks.workflows.skill_log import know
from ozzie_server_ext.tools.registry import ToolRegistry

NO_KEYWORD = "It is no keyword of a skill with steps, so an agent answers it."


class SkillStarts(msgspec.Struct, frozen=True):
    """`limits` and `models` return those of the current configuration."""

    library: Library
    blobs: BlobStore
    tools: ToolRegistry
    models: Callable[[], ModelRegistry]
    limits: Callable[[], Limits]

    async def typed(self, name: str, words: Sequence[str]) -> SkillStarted:
        """Like `of`, with an input as typed."""
        shelf = await self.library.look()
        return await self.of(name, typed(shelf.get(name).skill, words))

    async def triggered(self, message: str) -> tuple[SkillStarted | None, str]:
        """Return the start of the run that a message is meant for, None if an agent answers it, and the reason. It is
        meant for a run if it is a keyword of one skill that runs as a graph, alone or before a colon and the input."""
        keyword, _, rest = message.partition(":")
        word = " ".join(keyword.split()).casefold()
        shelf = await self.library.look()
        meant = [file for file in shelf.skills if word in map(str.casefold, file.skill.triggers.keywords)]
        if not meant:
            return None, NO_KEYWORD
        if len(meant) > 1:
            return None, "It is a keyword of several skills, so an agent answers it."
        skill = meant[0].skill
        mode = self.mode_of(skill, "delegation")
        if mode.mode != "GRAPH":
            return None, f'It is a keyword of the skill "{skill.name}". {mode.reason}'
        try:
            run = await self.typed(skill.name, rest.split())
        except OzzieError as error:
            why = f'It is a keyword of the skill "{skill.name}", which can\'t start, so an agent answers it: {error}'
            return None, why
        why = f'The message is a keyword of the skill "{skill.name}". {mode.reason}'
        return msgspec.structs.replace(run, reason=why), why

    async def of(self, name: str, given: JsonObject, by: By = "name") -> SkillStarted:
        """Return the start of a run with an input; `by`: how it was requested.

        Raises NotFound, SkillError if the file is invalid or needs something that does not exist, InputError for an
        invalid input.
        """
        file = await self.file(name)
        given = fitted(file.skill, given)
        text = await self.blobs.put(await asyncio.to_thread(file.path.read_bytes))
        if text == f"sha256:{file.digest}":  # it has not changed since it was read
            know(text, file.skill)
        return SkillStarted(
            skill=file.skill.name,
            kind=file.skill.type,
            version=file.version,
            file=text,
            input=given,
            steps=tuple(planned(file.skill)),
            reason=self.mode_of(file.skill, by).reason,
        )

    async def file(self, name: str) -> SkillFile:
        """Return a skill after checking that everything it names exists. Raises like `of`."""
        shelf = await self.library.look()
        file = shelf.get(name)
        if error := file.error(of_tools(file.skill, self.tools)):
            raise error
        self._expect_known(file, shelf.get)
        if error := file.error(of_skills(file.skill, lambda inner: shelf.get(inner).skill)):
            raise error
        return file

    def mode_of(self, skill: Skill, by: By) -> Mode:
        """Return how the skill is run, and why."""
        return mode_of(skill, self.tools.meta, by)

    async def limits_of(self, name: str, mode: Literal["FREE", "GRAPH"] = "GRAPH") -> Limits:
        """Return the limits of a run: the tighter of a task's and the file's. A task's time limit does not apply to a
        graph, but to the turns of its steps. Raises like `of`."""
        budget = (await self.library.look()).get(name).skill.budget
        limits = self.limits()
        cost = None if budget.max_cost_usd is None else int(budget.max_cost_usd * NANO_USD_PER_USD)
        turn_s = limits.deadline_s if mode == "FREE" else None
        own: dict[Measure, bool] = {
            "cost": _is_tighter(cost, limits.max_cost),
            "tokens": _is_tighter(budget.max_tokens, limits.max_tokens),
            "time": _is_tighter(budget.deadline_s, turn_s),
        }
        return replace(
            limits,
            max_cost=cost if own["cost"] else limits.max_cost,
            max_tokens=budget.max_tokens if own["tokens"] else limits.max_tokens,
            deadline_s=budget.deadline_s if own["time"] else turn_s,
            skill=name if any(own.values()) else "",
            skill_bounds=tuple(measure for measure, is_own in own.items() if is_own),
        )

    def model_of(self, thinking: Skill | Work) -> str:
        """Return the chosen model's name, or empty. Raises NoCandidate."""
        if thinking.model_selector is not None:
            return self.models().select(thinking.model_selector).expect()
        return thinking.model or ""

    def stronger(self, model: str) -> str:
        """Return the model to use after `model` failed: `models.upgrade` of the configuration, or the default if
        `model` was the cheap one."""
        return self.models().stronger(model)

    def _expect_known(self, file: SkillFile, get: Callable[[str], SkillFile]) -> None:
        """Raise NotFound if a nested skill does not exist, InputError if skills run each other."""
        pending: list[tuple[SkillFile, tuple[str, ...]]] = [(file, (file.skill.name,))]
        seen: set[str] = {file.skill.name}
        while pending:
            at, way = pending.pop()
            for _, work in works_of(at.skill):
                if work.skill is None:
                    continue
                if work.skill in way:
                    round_ = " → ".join((*way, work.skill))
                    raise InputError(f"These skills run each other without end: {round_}.", code="skill.endless")
                if work.skill not in seen:
                    seen.add(work.skill)
                    pending.append((get(work.skill), (*way, work.skill)))


def _is_tighter(limit: float | None, other: float | None) -> bool:
    """Whether `limit` is the tighter one; None means no limit."""
    return limit is not None and (other is None or limit <= other)


def planned(skill: Skill) -> Iterator[PlannedStep]:
    """Yield the steps of a skill as the start of its run names them."""
    works = [work for _, work in works_of(as_workflow(skill) if isinstance(skill, SimpleSkill) else skill)]
    for work in works:
        yield PlannedStep(
            step_id=work.id,
            title=work.title,
            kind=_kind(work),
            needs=work.needs if isinstance(work, Step) else (),
            leads_to=tuple(dict.fromkeys(move.to for move in work.moves)) if isinstance(work, State) else (),
            skill=work.skill or "",
            model=work.model or "",
            tool=work.call.tool if work.call else "",
            event=work.wait.event if work.wait else "",
        )


def _kind(work: Work) -> StepKind:
    match work.kinds:
        case ("instruction",):
            return "agent"
        case ("call" | "skill" | "ask" | "approve" | "wait" as kind,):
            return kind
        case _:
            return "none"
