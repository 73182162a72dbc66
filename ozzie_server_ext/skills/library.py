"""Which skills there are: the shipped ones, the user's, and those of the project, which a person has to trust.

A user's skill takes the place of a shipped one of the same name; a project's takes nobody's.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from ozzie_server_ext.config.files import Stamps, stamps_of
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError, KeyPath, SourceLocation, content_of, parse_object
from ozzie_server_ext.config.jsonc import KeyPath as Key
from ozzie_server_ext.config.settings import ModelsSettings, Settings
from ozzie_server_ext.config.trust import standing, trust, untrust
from ozzie_server_ext.config.validation import Problem, line_of, near, nearest, validate
from ozzie_server_ext.domain.errors import InputError, NotFound, OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.registry import ModelRegistry, UnknownModel
from ozzie_server_ext.models.selector import NoCandidate
from ozzie_server_ext.skills.checks import Complaint, complaints, works_of
from ozzie_server_ext.skills.parameters import called, misfits
from ozzie_server_ext.skills.spec import TYPES, FsmSkill, SimpleSkill, Skill, WorkflowSkill
from ozzie_server_ext.skills.templates import references
from ozzie_server_ext.tools.base import InvalidArguments
from ozzie_server_ext.tools.registry import ToolRegistry

_HINT = "Correct the file there and try again."
_MODELS: Mapping[str, type[SimpleSkill] | type[WorkflowSkill] | type[FsmSkill]] = {
    "simple": SimpleSkill,
    "workflow": WorkflowSkill,
    "fsm": FsmSkill,
}


class SkillError(ConfigError):
    """A skill's file can't be taken; each line of the message names file, line, column and key."""

    code = "skill.invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """A skill, where it stands, and the hash of its file (SHA-256)."""

    skill: Skill
    path: Path
    digest: str
    places: Mapping[Key, SourceLocation]

    @property
    def version(self) -> str:
        """That hash, in 16 digits."""
        return self.digest[:16]

    def error(self, found: Iterable[Complaint], hint: str = _HINT) -> SkillError | None:
        """What is wrong with it by what somebody else knows, such as which tools there are."""
        lines = _lines(found, self.places)
        return SkillError("\n".join(lines), hint=hint) if lines else None


def read(path: Path, content: bytes) -> SkillFile:
    """The skill in a file, which holds together in itself. Raises SkillError, ConfigError or JsoncError."""
    document = parse_object(content, path)
    assert isinstance(document.value, dict)
    model = _MODELS[_type_of(document.value, document.places)]
    try:
        skill = validate(model, document.value, document.places)
    except ConfigError as error:
        raise SkillError(str(error), hint=error.hint) from None
    file = SkillFile(skill=skill, path=path, digest=hashlib.sha256(content).hexdigest(), places=document.places)
    if error := file.error(complaints(skill)):
        raise error
    return file


def _type_of(tree: Mapping[str, Json], places: Mapping[Key, SourceLocation]) -> str:
    for key, type_ in (("steps", "workflow"), ("states", "fsm")):
        if key in tree and "type" not in tree:
            raise SkillError(f'{line_of((key,), places)} a skill with "{key}" says "type": "{type_}".', hint=_HINT)
    said = tree.get("type", "simple")
    if isinstance(said, str) and said in _MODELS:
        return said
    kinds = ", ".join(f'"{each}"' for each in TYPES)
    raise SkillError(f"{line_of(('type',), places)} must be one of {kinds}; it is {said!r}.", hint=_HINT)


def _lines(found: Iterable[Complaint], places: Mapping[Key, SourceLocation]) -> list[str]:
    lines: list[str] = []
    for complaint in found:
        path = complaint.path
        while path and path not in places:  # what is not written stands where it would be
            path = path[:-1]
        end = "" if complaint.sentence.endswith("?") else "."
        lines.append(f"{line_of(path, places)} {complaint.sentence}{end}")
    return lines


FindSkill = Callable[[str], Skill | None]


def of_tools(skill: Skill, tools: ToolRegistry) -> Iterator[Complaint]:
    """The tools that it names and that are not here, and the arguments of its calls that a tool does not take."""
    names = [tool.meta.name for tool in tools.all()]

    def missing(path: KeyPath, name: str) -> Iterator[Complaint]:
        if tools.find(name) is None:
            yield Complaint(path, f'there is no tool "{name}"{near(name, names)}')

    def of(path: KeyPath, named: tuple[str, ...] | None, key: str) -> Iterator[Complaint]:
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


def _of_arguments(path: KeyPath, args: JsonObject, name: str, tools: ToolRegistry) -> Iterator[Complaint]:
    tool = tools.find(name)
    if tool is None:
        return
    try:
        tool.check(args)
    except InvalidArguments as error:
        yield from _complaints(path, args, error.problems())


def _complaints(path: KeyPath, given: JsonObject, problems: Iterable[Problem]) -> Iterator[Complaint]:
    """Of what is written. What stands between braces has a value only when it runs, so there only names are judged."""
    for problem in problems:
        if problem.is_of_name or not any(references(_at(given, problem.path))):
            yield Complaint((*path, *problem.path), problem.sentence.rstrip("."))


def _at(value: Json, path: KeyPath) -> Json:
    for part in path:
        value = value[part]  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
    return value


def _lowered(sentence: str) -> str:
    return f"{sentence[0].lower()}{sentence[1:]}".rstrip(".")


SUFFIX = ".jsonc"
PROJECT_FOLDER = Path(".ozzie/skills")
MOST_FILES = 500
"""Of one folder."""

Origin: TypeAlias = Literal["shipped", "yours", "project"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One file. `name` is that of its skill, or of the file where that can't be told; `file` is None where it is not
    used, and then `problem` says why, and `hint` what to do. `replaces` is the file whose place it takes."""

    name: str
    path: Path
    origin: Origin
    file: SkillFile | None = None
    problem: str = ""
    hint: str = ""
    is_trusted: bool = True
    replaces: Path | None = None


@dataclass(frozen=True, slots=True)
class Shelf:
    """All that were found at one moment, in the order of their names."""

    found: tuple[Found, ...] = ()
    _names: dict[str, Found] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Of two of one name, the one that is used; `load` leaves no second one of these.
        ordered = sorted(self.found, key=lambda each: each.file is not None)
        object.__setattr__(self, "_names", {each.name: each for each in ordered})

    @property
    def skills(self) -> tuple[SkillFile, ...]:
        """Those that are used."""
        return tuple(each.file for each in self.found if each.file is not None)

    def get(self, name: str) -> SkillFile:
        """The skill of that name. Raises NotFound, and SkillError where its file can't be taken."""
        found = self._names.get(name)
        if found is None:
            near = nearest(name, [each.skill.name for each in self.skills])
            hint = f'Did you mean "{near}"?' if near else "See what there is with %skills or ozzie skills list."
            raise NotFound(f'There is no skill "{name[:64]}".', hint=hint, code="skill.unknown")
        if found.file is None:
            raise SkillError(found.problem, hint=found.hint)
        return found.file


class Library:
    """The folders. `shipped` is that of the skills that come with Ozzie; `settings` are those of the moment: they name
    more folders of the user's own (`skills.dirs`), and the models that skills can ask for."""

    def __init__(self, home: Home, project: Path, shipped: Path, settings: Callable[[], Settings]) -> None:
        self._home = home
        self._project = project
        self._shipped = shipped
        self._settings = settings
        self._stamps: Stamps | None = None
        self._read_files: list[Found] = []
        self._models: ModelsSettings | None = None
        self._shelf = Shelf()

    def shelf(self) -> Shelf:
        """What is there now; read again where a file or a folder changed, and held against the models where those have.
        It reads files, so not in a loop's thread.

        Raises ConfigError where the list of trusted files can't be read.
        """
        settings = self._settings()
        places = list(self._places(settings.skills.dirs))
        files: list[tuple[Origin, Path]] = [(origin, path) for origin, folder in places for path in _files(folder)]
        stamps = stamps_of([self._home.trusted_file, *(folder for _, folder in places), *(path for _, path in files)])
        has_changed = stamps != self._stamps
        if has_changed:
            self._read_files = sorted(self._load(files), key=lambda each: (each.name, str(each.path)))
            self._stamps = stamps
        if has_changed or settings.models != self._models:
            models = ModelRegistry(settings.models, {})
            self._shelf = Shelf(tuple(_with_models(each, models) for each in self._read_files))
            self._models = settings.models
        return self._shelf

    async def look(self) -> Shelf:
        """As `shelf`, for the loop's thread."""
        return await asyncio.to_thread(self.shelf)

    def trust(self, path: Path) -> SkillFile:
        """Let a skill of the project be used, as it is now. Raises ConfigError, SkillError or JsoncError where it can't
        be taken or asks for models that are not there, and InputError for a file outside the project's skills."""
        folder = self._project / PROJECT_FOLDER
        if path.parent.resolve() != folder.resolve() or path.suffix != SUFFIX:
            raise InputError(
                f"{path}: is no skill of this project.",
                hint=f"Those lie in {folder}; your own and the shipped ones need no trust.",
            )
        content = content_of(path)
        file = read(path, content)
        if error := _model_error(file, ModelRegistry(self._settings().models, {})):
            raise error
        trust(self._home, path, content)
        return file

    def untrust(self, path: Path) -> bool:
        """Let it be used no longer, whether or not it is still there; False where it was not trusted. Raises
        ConfigError."""
        return untrust(self._home, path)

    def _places(self, more: Sequence[str]) -> Iterator[tuple[Origin, Path]]:
        yield "shipped", self._shipped
        yield "yours", self._home.root / "skills"
        for folder in more:
            yield "yours", Path(folder).expanduser()
        yield "project", self._project / PROJECT_FOLDER

    def _load(self, files: Sequence[tuple[Origin, Path]]) -> list[Found]:
        taken: dict[str, Found] = {}
        rest: list[Found] = []
        for origin, path in files:
            found = self._read(origin, path)
            before = taken.get(found.name)
            if before is not None and before.origin == "shipped" and origin == "yours":
                # Also where it can't be taken: whoever wrote it does not want the shipped one to run.
                found = replace(found, replaces=before.path)
                del taken[found.name]
            elif before is not None and found.file is not None:
                problem = f'{path}: the name "{found.name}" is taken by {before.path}.'
                found = replace(found, file=None, problem=problem, hint="Give it another name.")
            if found.file is None:
                rest.append(found)
            else:
                taken[found.name] = found
        return [*taken.values(), *rest]

    def _read(self, origin: Origin, path: Path) -> Found:
        found = Found(name=path.stem, path=path, origin=origin)
        try:
            content = content_of(path)
            if origin == "project" and (why := self._distrusted(path, content)):
                hint = f"Read it, then run: ozzie skills trust {path}"
                return replace(found, problem=f"{path}: {why}", hint=hint, is_trusted=False)
            file = read(path, content)
        except OzzieError as error:
            return replace(found, problem=str(error), hint=error.hint)
        return replace(found, name=file.skill.name, file=file)

    def _distrusted(self, path: Path, content: bytes) -> str:
        """Why a project's file is not used; empty where it is. Nothing of it is looked at before."""
        match standing(self._home, path, content):
            case "trusted":
                return ""
            case "changed":
                return "has changed since it was trusted."
            case "unknown":
                return "nobody has trusted it yet."


def _with_models(found: Found, models: ModelRegistry) -> Found:
    """The same, unused where a model that it asks for is not there."""
    error = found.file and _model_error(found.file, models)
    return replace(found, file=None, problem=str(error), hint=error.hint) if error else found


def _model_error(file: SkillFile, models: ModelRegistry) -> SkillError | None:
    return file.error(of_models(file.skill, models), "Configure such a model, or name another one in the file.")


def _files(folder: Path) -> list[Path]:
    """The skill files of a folder, in the order of their names. Raises ConfigError for a folder that holds too many."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX) and not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(f"{folder}: can't be read: {error.strerror}.") from None
    if len(names) > MOST_FILES:
        raise ConfigError(f"{folder}: holds {len(names):,} skills; at most {MOST_FILES} are taken.")
    return [folder / name for name in names]


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
