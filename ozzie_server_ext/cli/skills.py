"""`ozzie skills`: list, show, check, run and trust skills. Only running one needs a gateway."""

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ozzie_server_ext.cli.ask import Where, run_in
from ozzie_server_ext.cli.terminal import cell, first_sentence_lines, print_json, print_result
from ozzie_server_ext.config.home import Home, find_home, shipped
from ozzie_server_ext.config.jsonc import content_of
from ozzie_server_ext.config.loader import load
from ozzie_server_ext.config.settings import Settings
from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.render.text import LINE_WIDTH, folded, visible_label, visible_prose, wrapped
from ozzie_server_ext.skills.as_tool import skill_tools
from ozzie_server_ext.skills.checks import works_of
from ozzie_server_ext.skills.library import (
    PROJECT_FOLDER,
    Found,
    Library,
    SkillError,
    SkillFile,
    describe,
    kind_of,
    of_models,
    of_skills,
    of_tools,
    read,
)
from ozzie_server_ext.skills.parameters import called, parameters_of
from ozzie_server_ext.skills.spec import FsmSkill, SimpleSkill, Skill, Step, Work
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry

_LABEL = 14


def list_skills(options: argparse.Namespace) -> int:
    """Print all skills. Raises ConfigError, JsoncError."""
    found = _library(options).shelf().found
    if options.json:
        print_json([describe(each) for each in found])
        return 0
    if not found:
        print(f"There are no skills. Put your own into {visible_label(str(find_home(os.environ).root / 'skills'))}.")
    for each in found:
        print(*_rows(each), sep="\n")
    return 0


def show_skill(options: argparse.Namespace) -> int:
    """Print what a skill does. Raises NotFound, SkillError, ConfigError, JsoncError."""
    file = _library(options).shelf().get(options.name)
    if options.json:
        skill = file.skill.model_dump(mode="json", by_alias=True, exclude_unset=True)
        print_json(
            {"path": str(file.path), "version": file.version, "parameters": parameters_of(file.skill), "skill": skill}
        )
        return 0
    print(visible_label(file.skill.name))
    for line in _paragraph(file.skill.description or "It has no description."):
        print(f"  {line}")
    print()
    for label, text in _facts(file):
        first, *rest = _paragraph(text, LINE_WIDTH - _LABEL - 4) or [""]
        print(f"  {cell(label, _LABEL)}  {first}".rstrip())
        for line in rest:
            print(f"  {'':<{_LABEL}}  {line}")
    return 0


def check_skills(options: argparse.Namespace) -> int:
    """Check the named skill files, or all in use.

    Raises SkillError with all errors, ConfigError, JsoncError.
    """
    wrong: list[str] = []
    shelf = _library(options).shelf()
    if options.files:
        paths = [Path(file).absolute() for file in options.files]
        files = [read(path, content_of(path)) for path in paths]
    else:
        wrong += [each.problem for each in shelf.found if each.file is None and each.is_trusted]
        files = [each.file for each in shelf.found if each.file is not None]
    tools, models = ToolRegistry(builtin_tools()), ModelRegistry(_settings(_project(options)).models, {})
    tools.replace((), skill_tools(shelf))
    skills = {file.skill.name: file.skill for file in (*shelf.skills, *files)}
    for file in files:
        skill = file.skill
        found = [*of_tools(skill, tools), *of_skills(skill, skills.get, skills), *of_models(skill, models)]
        error = file.error(found)
        wrong += [str(error)] if error else []
    if wrong:
        raise SkillError("\n".join(wrong), hint="Correct this and try again.")
    if options.json:
        print_json([{"path": str(file.path), "name": file.skill.name, "version": file.version} for file in files])
        return 0
    for file in files:
        print(f"{visible_label(str(file.path))}: {file.skill.name}, {kind_of(file.skill)}. No errors.")
    return 0


def run_skill(options: argparse.Namespace) -> int:
    """Run a skill in the terminal's session. Raises OzzieError."""
    return run_in(options.name, options.words, Where.of(options), model=options.model, as_json=options.json)


def trust_skill(options: argparse.Namespace) -> int:
    """Trust a project's skill. Raises InputError, ConfigError, SkillError, JsoncError."""
    home, path = find_home(os.environ), Path(options.file).absolute()
    home.create()
    file = _of_project(home, path).trust(path)
    return print_result(
        {"trusted": str(path), "name": file.skill.name, "version": file.version},
        f"{file.skill.name} can be used in this project from now on, as written in {visible_label(str(path))}. "
        "If the file changes, it is not used until it is trusted again.",
        as_json=options.json,
    )


def untrust_skill(options: argparse.Namespace) -> int:
    """Stop trusting a project's skill. Raises NotFound, ConfigError."""
    home, path = find_home(os.environ), Path(options.file).absolute()
    home.create()
    if not _of_project(home, path).untrust(path):
        raise NotFound(f"{path} is not trusted.", hint="Name the file that it was trusted for.")
    line = f"{visible_label(str(path))} is no longer used."
    return print_result({"untrusted": str(path)}, line, as_json=options.json)


def _library(options: argparse.Namespace) -> Library:
    project = _project(options)
    settings = _settings(project)
    return Library(find_home(os.environ), project, shipped("skills"), lambda: settings)


def _project(options: argparse.Namespace) -> Path:
    project = Path(options.project or ".").resolve()
    if not project.is_dir():
        raise InputError(f"{project} is not a folder.", hint="Name the project's folder: --project FOLDER.")
    return project


def _settings(project: Path) -> Settings:
    return load(find_home(os.environ), project=project).settings


def _of_project(home: Home, path: Path) -> Library:
    """Return the skill library of the project that the file belongs to."""
    project = path.parent
    for _ in PROJECT_FOLDER.parts:
        project = project.parent
    return Library(home, project, shipped("skills"), lambda: _settings(project))


def _rows(found: Found) -> Iterator[str]:
    """Yield a skill's lines in the list: name, kind and origin, then its first sentence, or why it is not used."""
    kind = kind_of(found.file.skill).removeprefix("a ") if found.file else "not used"
    yield f"{cell(found.name, 24)}  {cell(kind, 32)}  {found.origin}"
    if found.file is not None:
        yield from first_sentence_lines(found.file.skill.description)
        return
    for line in _paragraph(f"{found.problem}\n{found.hint}"):
        yield f"  {line}"


def _facts(file: SkillFile) -> Iterator[tuple[str, str]]:
    skill = file.skill
    yield "Kind", kind_of(skill)
    yield "Called", called(skill)
    schema: Any = parameters_of(skill)
    for name, declared in schema.get("properties", {}).items():
        needed = name in schema.get("required", ())
        default = "needed" if needed else f"otherwise {json.dumps(declared.get('default'), ensure_ascii=False)}"
        choices = f"one of {', '.join(map(str, declared['enum']))}" if "enum" in declared else ""
        yield f"  {name}", ". ".join(filter(None, [default, choices, str(declared.get("description", ""))]))
    yield (
        "Model",
        _model(skill) or ("the default" if isinstance(skill, SimpleSkill) else "the default, or a step's own"),
    )
    if skill.tools is not None:
        yield "Tools", ", ".join(skill.tools) or "none"
    if skill.dangerous_tools:
        yield "Asks first for", ", ".join(skill.dangerous_tools)
    yield "Risk", skill.risk_level
    yield "File", f"{file.path} (version {file.version})"
    steps = list(works_of(skill))
    for index, (_, work) in enumerate(steps):
        label = ("States" if isinstance(skill, FsmSkill) else "Steps") if index == 0 else ""
        yield label, f"{work.id}: {_work(work)}"


def _work(work: Work) -> str:
    about = [work.title] if work.title else []
    match work.kinds:
        case ("call",) if work.call is not None:
            about.append(f"calls {work.call.tool}")
        case ("skill",):
            about.append(f"runs {work.skill}")
        case ("ask",):
            about.append("asks a person")
        case ("approve",):
            about.append("waits for approval")
        case ("wait",) if work.wait is not None:
            about.append(f"waits for {work.wait.event}")
        case _:
            about += filter(None, [_model(work)])
    if work.tools:
        about.append(f"with {', '.join(work.tools)}")
    if isinstance(work, Step) and work.needs:
        about.append(f"after {', '.join(work.needs)}")
    if work.acceptance:
        about.append(f"must hold: {work.acceptance}")
    return "; ".join(about) or "one agent"


def _model(thinking: Skill | Work) -> str:
    if thinking.model_selector is not None:
        return " and ".join(map(str, thinking.model_selector.required)) or "chosen by its tags"
    return thinking.model or ""


def _paragraph(text: str, width: int = LINE_WIDTH - 2) -> list[str]:
    lines = [line for part in visible_prose(text).strip().split("\n") for line in wrapped(part, width)]
    return [piece for line in lines for piece in folded(line, width)]
