"""A skill's input: as a schema, as typed words (`key=value`), and as checked values."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ozzie_server_ext.config.validation import Problem
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject, is_of
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads
from ozzie_server_ext.skills.spec import SimpleSkill, Skill, Var

INPUT = "input"
"""The input of a skill without variables: a text, optional for a skill with steps."""
_FREE = Var(description="What to do, in a sentence or more.", required=True)
_MAY_BE_LEFT_OUT = Var(description="What it is about, in a sentence or more.")


def parameters_of(skill: Skill) -> JsonObject:
    """Return a JSON Schema of the input, as tools have one."""
    if skill.input_model is not None:
        return {"type": "object", **skill.input_model}
    properties: JsonObject = {}
    variables = _vars(skill)
    for name, var in variables.items():
        described: JsonObject = {"type": var.type}
        if var.description:
            described["description"] = var.description
        if var.enum:
            described["enum"] = list(var.enum)
        if var.default is not None:
            described["default"] = var.default
        properties[name] = described
    required: list[Json] = [name for name, var in variables.items() if var.required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def variables_of(skill: Skill) -> Collection[str] | None:
    """Return the names that may stand between braces; None if the skill's own schema leaves them open."""
    if skill.input_model is None:
        return _vars(skill)
    properties = skill.input_model.get("properties")
    return properties if isinstance(properties, dict) else None


def typed(skill: Skill, words: Sequence[str]) -> JsonObject:
    """Return the input from words of a command line or cell: `key=value` pairs, or one text for a skill with one input.

    Raises InputError.
    """
    schema = parameters_of(skill)
    properties: Any = schema.get("properties") or {}
    given: JsonObject = {}
    if words and len(properties) == 1 and not any(_key(word) in properties for word in words):
        (only,) = properties  # even if the text contains "="
        return {only: _read(only, " ".join(words), properties[only])}
    for word in words:
        key, text = _key(word), word.partition("=")[2]
        if not key:
            raise InputError(f'"{word[:60]}" is not key=value.', hint=usage(skill), code="skill.input")
        if key in given:
            raise InputError(f'"{key}" is given twice.', hint=usage(skill), code="skill.input")
        given[key] = _read(key, text, properties.get(key) or {})
    return given


def fitted(skill: Skill, given: Mapping[str, Json]) -> JsonObject:
    """Return the input with its defaults. Variables are checked fully. For a skill with its own schema, only the
    required keys are: another process validates by schemas.

    Raises InputError.
    """
    for problem in input_problems(skill, given):
        message = problem.sentence if problem.is_of_name else f'"{problem.path[0]}" {problem.sentence}'
        raise InputError(message, hint=usage(skill), code="skill.input")
    if skill.input_model is not None:
        return dict(given)
    return {name: var.default if given.get(name) is None else given[name] for name, var in _vars(skill).items()}


def input_problems(skill: Skill, given: Mapping[str, Json]) -> Iterator[Problem]:
    """Yield what is wrong with an input, as far as `fitted` checks it."""
    if skill.input_model is not None:
        required = skill.input_model.get("required")
        yield from _needed(
            skill, [str(name) for name in required if name not in given] if isinstance(required, list) else []
        )
        return
    variables = _vars(skill)
    for name in given:
        if name not in variables:
            yield Problem((name,), f'{skill.name} takes no "{name[:60]}".', is_of_name=True)
    yield from _needed(skill, [name for name, var in variables.items() if var.required and given.get(name) is None])
    for name, var in variables.items():
        value = given.get(name)
        if value is None:
            continue
        if not is_of(var.type, value):
            yield Problem((name,), f"must be {_A[var.type]}.")
        elif var.enum and value not in var.enum:
            choices = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in var.enum)
            yield Problem((name,), f"must be one of {choices}.")


def usage(skill: Skill) -> str:
    """Return a hint that shows how to call the skill."""
    return f"Call it like this: {called(skill)}"


def called(skill: Skill) -> str:
    """Show the call in one line: `deploy env=… [focus="all"]`."""
    schema = parameters_of(skill)
    properties: Any = schema.get("properties") or {}
    required: Any = schema.get("required") or []
    words = [skill.name]
    for name, described in properties.items():
        default = described.get("default") if isinstance(described, dict) else None
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
    """Return what is before the "=", or ""."""
    key, sign, _ = word.partition("=")
    return key if sign else ""


def _read(key: str, text: str, schema: Mapping[str, Any]) -> Json:
    """Read a value: a text as it stands, everything else as JSON. Raises InputError."""
    type_ = schema.get("type", "string")
    if type_ == "string":
        return text
    try:
        return loads(text)
    except InvalidJson:
        wanted = _A.get(type_, "JSON") if isinstance(type_, str) else "JSON"
        raise InputError(f'"{key}" must be {wanted}; it is {text[:60]!r}.', code="skill.input") from None


def _needed(skill: Skill, missing: Sequence[str]) -> Iterator[Problem]:
    if missing:
        names = " and ".join(f'"{name}"' for name in missing)
        yield Problem((), f"{skill.name} needs {names}.", is_of_name=True)
