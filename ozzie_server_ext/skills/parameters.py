"""What a skill takes in: as a schema, as it is typed (`key=value`), and as values that fit."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ozzie_server_ext.config.validation import Problem
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads
from ozzie_server_ext.skills.spec import SimpleSkill, Skill, Var, is_of

INPUT = "input"
"""What a skill without variables takes: a text, to do with as its instruction says. One with steps may do without."""
_FREE = Var(description="What to do, in a sentence or more.", required=True)
_MAY_BE_LEFT_OUT = Var(description="What it is about, in a sentence or more.")


def parameters_of(skill: Skill) -> JsonObject:
    """A JSON Schema of the input, as a tool has one."""
    if skill.input_model is not None:
        return {"type": "object", **skill.input_model}
    properties: JsonObject = {}
    taken = _vars(skill)
    for name, var in taken.items():
        said: JsonObject = {"type": var.type}
        if var.description:
            said["description"] = var.description
        if var.enum:
            said["enum"] = list(var.enum)
        if var.default is not None:
            said["default"] = var.default
        properties[name] = said
    required: list[Json] = [name for name, var in taken.items() if var.required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def variables_of(skill: Skill) -> Collection[str] | None:
    """The names that may stand between braces; None where the skill's own schema leaves them open."""
    if skill.input_model is None:
        return _vars(skill)
    properties = skill.input_model.get("properties")
    return properties if isinstance(properties, dict) else None


def typed(skill: Skill, words: Sequence[str]) -> JsonObject:
    """The input from words of a command line or a cell: `key=value` each, or one text alone for a skill that takes one.

    Raises InputError.
    """
    schema = parameters_of(skill)
    properties: Any = schema.get("properties") or {}
    given: JsonObject = {}
    if words and len(properties) == 1 and not any(_key(word) in properties for word in words):
        (only,) = properties  # a text with a "=" in it is one, too
        return {only: _read(only, " ".join(words), properties[only])}
    for word in words:
        key, text = _key(word), word.partition("=")[2]
        if not key:
            raise InputError(f'"{word[:60]}" is no key=value.', hint=usage(skill), code="skill.input")
        if key in given:
            raise InputError(f'"{key}" is given twice.', hint=usage(skill), code="skill.input")
        given[key] = _read(key, text, properties.get(key) or {})
    return given


def fitted(skill: Skill, given: Mapping[str, Json]) -> JsonObject:
    """The input with its defaults. Of a skill with variables, all is looked at; of one with a schema of its own, only
    that what is required is there: whether the rest fits is for the process that looks at schemas.

    Raises InputError.
    """
    for problem in misfits(skill, given):
        told = problem.sentence if problem.is_of_name else f'"{problem.path[0]}" {problem.sentence}'
        raise InputError(told, hint=usage(skill), code="skill.input")
    if skill.input_model is not None:
        return dict(given)
    return {name: var.default if given.get(name) is None else given[name] for name, var in _vars(skill).items()}


def misfits(skill: Skill, given: Mapping[str, Json]) -> Iterator[Problem]:
    """What is wrong with such an input, as far as `fitted` looks at it."""
    if skill.input_model is not None:
        required = skill.input_model.get("required")
        yield from _needed(
            skill, [str(name) for name in required if name not in given] if isinstance(required, list) else []
        )
        return
    taken = _vars(skill)
    for name in given:
        if name not in taken:
            yield Problem((name,), f'{skill.name} takes no "{name[:60]}".', is_of_name=True)
    yield from _needed(skill, [name for name, var in taken.items() if var.required and given.get(name) is None])
    for name, var in taken.items():
        value = given.get(name)
        if value is None:
            continue
        if not is_of(var.type, value):
            yield Problem((name,), f"must be {_A[var.type]}.")
        elif var.enum and value not in var.enum:
            choices = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in var.enum)
            yield Problem((name,), f"must be one of {choices}.")


def usage(skill: Skill) -> str:
    """A hint that says how it is called."""
    return f"It is called so: {called(skill)}"


def called(skill: Skill) -> str:
    """How it is called, in one line: `deploy env=… [focus="all"]`."""
    schema = parameters_of(skill)
    properties: Any = schema.get("properties") or {}
    required: Any = schema.get("required") or []
    words = [skill.name]
    for name, said in properties.items():
        default = said.get("default") if isinstance(said, dict) else None
        shown = f"{name}={'…' if default is None else json.dumps(default, ensure_ascii=False)}"
        words.append(shown if name in required else f"[{shown}]")
    return " ".join(words)


_A: Mapping[str, str] = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


def _vars(skill: Skill) -> Mapping[str, Var]:
    return skill.vars or {INPUT: _FREE if isinstance(skill, SimpleSkill) else _MAY_BE_LEFT_OUT}


def _key(word: str) -> str:
    """What stands before the "="; empty where there is none."""
    key, sign, _ = word.partition("=")
    return key if sign else ""


def _read(key: str, text: str, said: Mapping[str, Any]) -> Json:
    """A text is one as it stands; all else is JSON. Raises InputError."""
    if said.get("type", "string") == "string":
        return text
    try:
        return loads(text)
    except InvalidJson:
        wanted = _A.get(said["type"], "JSON") if isinstance(said["type"], str) else "JSON"
        raise InputError(f'"{key}" must be {wanted}; it is {text[:60]!r}.', code="skill.input") from None


def _needed(skill: Skill, missing: Sequence[str]) -> Iterator[Problem]:
    if missing:
        names = " and ".join(f'"{name}"' for name in missing)
        yield Problem((), f"{skill.name} needs {names}.", is_of_name=True)
