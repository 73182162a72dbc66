"""Whether what a skill names is here, and takes what it is given: tools, other skills, models."""

from collections.abc import Callable, Collection, Iterable, Iterator

from ozzie_server_ext.config.jsonc import Path
from ozzie_server_ext.config.validation import Problem, near
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.registry import ModelRegistry, UnknownModel
from ozzie_server_ext.models.selector import NoCandidate
from ozzie_server_ext.skills.checks import Complaint, works_of
from ozzie_server_ext.skills.parameters import misfits
from ozzie_server_ext.skills.spec import Skill
from ozzie_server_ext.skills.templates import references
from ozzie_server_ext.tools.base import InvalidArguments
from ozzie_server_ext.tools.registry import ToolRegistry

FindSkill = Callable[[str], Skill | None]


def of_tools(skill: Skill, tools: ToolRegistry) -> Iterator[Complaint]:
    """The tools that it names and that are not here, and the arguments of its calls that a tool does not take."""
    names = [tool.meta.name for tool in tools.all()]

    def missing(path: Path, name: str) -> Iterator[Complaint]:
        if tools.find(name) is None:
            yield Complaint(path, f'there is no tool "{name}"{near(name, names)}')

    def of(path: Path, named: tuple[str, ...] | None, key: str) -> Iterator[Complaint]:
        for index, name in enumerate(named or ()):
            yield from missing((*path, key, index), name)

    yield from of((), skill.tools, "tools")
    yield from of((), skill.dangerous_tools, "dangerous_tools")
    for path, work in works_of(skill):
        yield from of(path, work.tools, "tools")
        yield from of(path, work.dangerous_tools, "dangerous_tools")
        if work.call is not None:
            yield from missing((*path, "call", "tool"), work.call.tool)
            yield from _of_arguments((*path, "call", "args"), work.call.args, work.call.tool, tools)


def of_skills(skill: Skill, find: FindSkill, names: Collection[str] = ()) -> Iterator[Complaint]:
    """The skills that its steps run and that are not here, and what those are given and do not take; `names` are all
    that are here."""
    for path, work in works_of(skill):
        if work.skill is None:
            continue
        inner = find(work.skill)
        if inner is None:
            yield Complaint((*path, "skill"), f'there is no skill "{work.skill}"{near(work.skill, names)}')
        else:
            yield from _complaints((*path, "with"), work.with_, misfits(inner, work.with_))


def of_models(skill: Skill, models: ModelRegistry) -> Iterator[Complaint]:
    """The models that it names and that are not here, and the selectors that no configured model meets."""
    for path, thinking in (((), skill), *works_of(skill)):
        if thinking.model_selector is not None:
            try:
                models.select(thinking.model_selector).expect()
            except NoCandidate as error:
                yield Complaint((*path, "model_selector"), _lowered(str(error)))
        elif thinking.model:
            try:
                models.chain(thinking.model)
            except UnknownModel as error:
                yield Complaint((*path, "model"), _lowered(str(error)))


def _of_arguments(path: Path, args: JsonObject, name: str, tools: ToolRegistry) -> Iterator[Complaint]:
    tool = tools.find(name)
    if tool is None:
        return
    try:
        tool.check(args)
    except InvalidArguments as error:
        yield from _complaints(path, args, error.problems())


def _complaints(path: Path, given: JsonObject, problems: Iterable[Problem]) -> Iterator[Complaint]:
    """Of what is written. What stands between braces has a value only when it runs, so there only names are judged."""
    for problem in problems:
        if problem.is_of_name or not any(references(_at(given, problem.path))):
            yield Complaint((*path, *problem.path), problem.sentence.rstrip("."))


def _at(value: Json, path: Path) -> Json:
    for part in path:
        value = value[part]  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
    return value


def _lowered(sentence: str) -> str:
    return f"{sentence[0].lower()}{sentence[1:]}".rstrip(".")
