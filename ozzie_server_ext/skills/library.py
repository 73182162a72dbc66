"""The skill files: the shipped ones, the user's, and the project's, which a person has to trust.

A user's skill replaces a shipped one of the same name; a project's replaces none.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.config.files import Stamps, stamps_of
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError, KeyPath, SourceLocation, content_of, parse_object
from ozzie_server_ext.config.settings import ModelsSettings, Settings
from ozzie_server_ext.config.trust import standing, trust, untrust
from ozzie_server_ext.config.validation import Problem, line_of, near, nearest, validate
from ozzie_server_ext.config.watching import FileWatch
from ozzie_server_ext.domain.errors import InputError, NotFound, OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.registry import ModelRegistry, UnknownModel
from ozzie_server_ext.models.selector import NoCandidate
from ozzie_server_ext.skills.checks import Complaint, complaints, works_of
from ozzie_server_ext.skills.parameters import called, input_problems
from ozzie_server_ext.skills.spec import FsmSkill, SimpleSkill, Skill, WorkflowSkill
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
    """A skill file is invalid; each line of the message names file, line, column and key."""

    code = "skill.invalid"


class SkillFile(msgspec.Struct, frozen=True, kw_only=True):
    """A skill with its path and the SHA-256 of its file."""

    skill: Skill
    path: Path
    digest: str
    places: Mapping[KeyPath, SourceLocation]

    @property
    def version(self) -> str:
        """The first 16 digits of the hash."""
        return self.digest[:16]

    def error(self, found: Iterable[Complaint], hint: str = _HINT) -> SkillError | None:
        """Return complaints from checks beyond the file itself, such as unknown tools, as one error."""
        lines = _lines(found, self.places)
        return SkillError("\n".join(lines), hint=hint) if lines else None


def read(path: Path, content: bytes) -> SkillFile:
    """Read a skill and check that it is consistent. Raises SkillError, ConfigError or JsoncError."""
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


def _type_of(tree: Mapping[str, Json], places: Mapping[KeyPath, SourceLocation]) -> str:
    for key, type_ in (("steps", "workflow"), ("states", "fsm")):
        if key in tree and "type" not in tree:
            raise SkillError(f'{line_of((key,), places)} a skill with "{key}" says "type": "{type_}".', hint=_HINT)
    type_ = tree.get("type", "simple")
    if isinstance(type_, str) and type_ in _MODELS:
        return type_
    kinds = ", ".join(f'"{each}"' for each in _MODELS)
    raise SkillError(f"{line_of(('type',), places)} must be one of {kinds}; it is {type_!r}.", hint=_HINT)


def _lines(found: Iterable[Complaint], places: Mapping[KeyPath, SourceLocation]) -> list[str]:
    lines: list[str] = []
    for complaint in found:
        path = complaint.path
        while path and path not in places:  # a missing key is reported at its parent
            path = path[:-1]
        end = "" if complaint.sentence.endswith("?") else "."
        lines.append(f"{line_of(path, places)} {complaint.sentence}{end}")
    return lines


def of_tools(skill: Skill, tools: ToolRegistry) -> Iterator[Complaint]:
    """Check the tools that a skill names and the arguments of its calls."""
    names = [tool.meta.name for tool in tools.all()]

    def missing(path: KeyPath, name: str) -> Iterator[Complaint]:
        if tools.find(name) is None:
            yield Complaint(path, f'there is no tool "{name}"{near(name, names)}')

    def of(path: KeyPath, listed: tuple[str, ...] | None, key: str) -> Iterator[Complaint]:
        for index, name in enumerate(listed or ()):
            yield from missing((*path, key, index), name)

    yield from of((), skill.tools, "tools")
    yield from of((), skill.dangerous_tools, "dangerous_tools")
    for path, work in works_of(skill):
        yield from of(path, work.tools, "tools")
        yield from of(path, work.dangerous_tools, "dangerous_tools")
        if work.call is not None:
            yield from missing((*path, "call", "tool"), work.call.tool)
            yield from _of_arguments((*path, "call", "args"), work.call.args, work.call.tool, tools)


def of_skills(skill: Skill, find: Callable[[str], Skill | None], names: Collection[str] = ()) -> Iterator[Complaint]:
    """Check the skills that the steps run, and their inputs; `names` are all known skills."""
    for path, work in works_of(skill):
        if work.skill is None:
            continue
        inner = find(work.skill)
        if inner is None:
            yield Complaint((*path, "skill"), f'there is no skill "{work.skill}"{near(work.skill, names)}')
        else:
            yield from _complaints((*path, "with"), work.with_, input_problems(inner, work.with_))


def of_models(skill: Skill, models: ModelRegistry) -> Iterator[Complaint]:
    """Check the models that a skill names, and that a configured model meets each selector."""
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
    """Report problems of what is written. Templates have values only at run time, so there only names are checked."""
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
"""Per folder."""

Origin: TypeAlias = Literal["shipped", "yours", "project"]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `name` is its skill's, or the file's if that is unknown. `file` is None if the file is not used; then
    `problem` says why and `hint` what to do. `replaces` is the file that it replaces."""

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
    """All skill files at one moment, sorted by name."""

    found: tuple[Found, ...] = ()
    _names: dict[str, Found] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Of two files with one name, keep the used one; `load` allows only one of those.
        ordered = sorted(self.found, key=lambda each: each.file is not None)
        object.__setattr__(self, "_names", {each.name: each for each in ordered})

    @property
    def skills(self) -> tuple[SkillFile, ...]:
        return tuple(each.file for each in self.found if each.file is not None)

    def get(self, name: str) -> SkillFile:
        """Return the skill of that name. Raises NotFound, and SkillError if its file is not usable."""
        found = self._names.get(name)
        if found is None:
            near = nearest(name, [each.skill.name for each in self.skills])
            hint = f'Did you mean "{near}"?' if near else "See what there is with %skills or ozzie skills list."
            raise NotFound(f'There is no skill "{name[:64]}".', hint=hint, code="skill.unknown")
        if found.file is None:
            raise SkillError(found.problem, hint=found.hint)
        return found.file


class Library:
    """The skill folders. `shipped` holds the skills that come with Ozzie. `settings` returns the current settings, with
    the user's further folders (`skills.dirs`) and the models that skills may name."""

    def __init__(self, home: Home, project: Path, shipped: Path, settings: Callable[[], Settings]) -> None:
        self._home = home
        self._project = project
        self._shipped = shipped
        self._settings = settings
        self._stamps: Stamps | None = None
        self._watch = FileWatch()
        self._looking = asyncio.Lock()
        self._looked_under: Settings | None = None
        self._read_files: list[Found] = []
        self._models: ModelsSettings | None = None
        self._shelf = Shelf()

    def shelf(self, watch: FileWatch | None = None) -> Shelf:
        """Return the present skills: files are read again if one changed, and checked again if the models changed. All
        that it looks at is added to `watch`. Not for the event loop's thread, since it reads files.

        Raises ConfigError if the list of trusted files can't be read.
        """
        settings = self._settings()
        places = list(self._places(settings.skills.dirs))
        folders = [self._home.trusted_file, *(folder for _, folder in places)]
        if watch is not None:
            watch.begin()
            watch.add(folders)
        files: list[tuple[Origin, Path]] = [(origin, path) for origin, folder in places for path in _files(folder)]
        if watch is not None:
            watch.add(path for _, path in files if path.is_symlink())
        stamps = stamps_of([*folders, *(path for _, path in files)])
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
        """As `shelf`, for the loop's thread; without a look at the disk if nothing has changed."""
        async with self._looking:
            settings = self._settings()
            if not self._watch.is_quiet() or settings is not self._looked_under:
                await self._watch.in_thread(lambda: self.shelf(self._watch))
                self._looked_under = settings
                self._watch.settle()
            return self._shelf

    def trust(self, path: Path) -> SkillFile:
        """Trust a skill of the project in its present version. Raises ConfigError, SkillError or JsoncError if it is
        invalid or names unknown models, and InputError for a file outside the project's skills."""
        folder = self._project / PROJECT_FOLDER
        if path.parent.resolve() != folder.resolve() or path.suffix != SUFFIX:
            raise InputError(
                f"{path}: is not a skill of this project.",
                hint=f"Those are in {folder}; your own and the shipped ones need no trust.",
            )
        content = content_of(path)
        file = read(path, content)
        if error := _model_error(file, ModelRegistry(self._settings().models, {})):
            raise error
        trust(self._home, path, content)
        return file

    def untrust(self, path: Path) -> bool:
        """Withdraw the trust, even if the file is gone; return whether it was trusted. Raises ConfigError."""
        return untrust(self._home, path)

    def _places(self, more: Sequence[str]) -> Iterator[tuple[Origin, Path]]:
        yield "shipped", self._shipped
        yield "yours", self._home.root / "skills"
        for folder in more:
            yield "yours", Path(folder).expanduser()
        yield "project", self._project / PROJECT_FOLDER

    def _load(self, files: Sequence[tuple[Origin, Path]]) -> list[Found]:
        used: dict[str, Found] = {}
        rest: list[Found] = []
        for origin, path in files:
            found = self._read(origin, path)
            before = used.get(found.name)
            if before is not None and before.origin == "shipped" and origin == "yours":
                # Even if it is invalid: its author does not want the shipped one to run.
                found = replace(found, replaces=before.path)
                del used[found.name]
            elif before is not None and found.file is not None:
                problem = f'{path}: the name "{found.name}" is taken by {before.path}.'
                found = replace(found, file=None, problem=problem, hint="Give it another name.")
            if found.file is None:
                rest.append(found)
            else:
                used[found.name] = found
        return [*used.values(), *rest]

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
        """Return why a project's file is not used, or "". It is not parsed before this check."""
        match standing(self._home, path, content):
            case "trusted":
                return ""
            case "changed":
                return "has changed since it was trusted."
            case "unknown":
                return "nobody has trusted it yet."


def _with_models(found: Found, models: ModelRegistry) -> Found:
    """Return the same, unused if it names an unknown model."""
    error = found.file and _model_error(found.file, models)
    return replace(found, file=None, problem=str(error), hint=error.hint) if error else found


def _model_error(file: SkillFile, models: ModelRegistry) -> SkillError | None:
    return file.error(of_models(file.skill, models), "Configure such a model, or name another one in the file.")


def _files(folder: Path) -> list[Path]:
    """Return the skill files of a folder, sorted. Raises ConfigError for too many."""
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
    match skill:
        case SimpleSkill():
            return "one agent"
        case WorkflowSkill(steps=steps):
            return f"a workflow of {len(steps):,} step{'' if len(steps) == 1 else 's'}"
        case FsmSkill(states=states):
            return f"a state machine of {len(states):,} state{'' if len(states) == 1 else 's'}"


def describe(found: Found) -> JsonObject:
    """Describe a skill file: what it does, or why it is not used."""
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
