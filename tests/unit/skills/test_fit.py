"""Whether what a skill names is here and takes what it is given, each complaint with its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.settings import ModelsSettings
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.skills.library import SkillFile, of_models, of_skills, of_tools, read
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry

FILE = Path("FILE")
TOOLS = ToolRegistry(builtin_tools())
MODELS: dict[str, Any] = {
    "providers": {
        "guard": {"driver": "openai", "model": "g", "tags": {"security": 2, "capability": "compliance"}},
        "poet": {"driver": "openai", "model": "p", "tags": {"security": 5}},
    },
    "aliases": {"main": "guard"},
}


def workflow(*steps: str) -> SkillFile:
    lines = ",\n".join(steps)
    return read(FILE, f'{{"name": "w", "type": "workflow", "vars": {{"n": {{}}}}, "steps": [\n{lines}]}}'.encode())


def call(tool: str, args: str) -> SkillFile:
    return workflow(f'{{"id": "a", "call": {{"tool": "{tool}", "args": {args}}}}}')


def told(file: SkillFile) -> list[str]:
    error = file.error(of_tools(file.skill, TOOLS))
    return str(error).splitlines() if error else []


@pytest.mark.parametrize(
    ("tool", "args", "complaints"),
    [
        ("calculator", '{"expr": "1 + 1"}', []),
        ("calculator", '{"expr": "{{n}} + 1"}', []),
        ("read_file", '{"path": "a.md", "first_line": "{{n}}"}', []),
        ("calculator", '{"exp": "1"}', [
            'FILE, line 2, column 44: steps.0.call.args: the argument "expr" is missing.',
            'FILE, line 2, column 53: steps.0.call.args.exp: unknown argument "exp"; did you mean "expr"?',
        ]),
        ("calculator", '{"exp": "{{n}}", "expr": "1"}', [
            'FILE, line 2, column 53: steps.0.call.args.exp: unknown argument "exp"; did you mean "expr"?',
        ]),
        ("calculator", "{}", ['FILE, line 2, column 44: steps.0.call.args: the argument "expr" is missing.']),
        ("calculator", '{"expr": 12}', ["FILE, line 2, column 53: steps.0.call.args.expr: must be text; it is 12."]),
        ("calculator", '{"expr": ["{{n}}"]}', []),
        ("read_file", '{"path": "a.md", "first_line": "x"}', [
            "FILE, line 2, column 68: steps.0.call.args.first_line: must be a whole number; it is 'x'.",
        ]),
    ],
)  # fmt: skip
def test_arguments_that_a_tool_does_not_take_are_told_with_their_places(
    tool: str, args: str, complaints: list[str]
) -> None:
    assert sorted(told(call(tool, args))) == sorted(complaints)


def test_a_call_without_arguments_is_told_where_the_call_stands() -> None:
    file = workflow('{"id": "a", "call": {"tool": "calculator"}}')
    assert told(file) == ['FILE, line 2, column 13: steps.0.call: the argument "expr" is missing.']


def test_what_a_step_gives_to_another_skill_is_looked_at_too() -> None:
    inner = read(FILE, b'{"name": "inner", "vars": {"to": {"required": true}, "many": {"type": "integer"}}}').skill
    file = workflow(
        '{"id": "a", "skill": "inner", "with": {"too": "x", "many": "y"}}',
        '{"id": "b", "skill": "inner", "with": {"to": "{{n}}", "many": "{{n}}"}}',
        '{"id": "c", "skill": "iner"}',
    )
    error = file.error(of_skills(file.skill, {"inner": inner}.get, ["inner"]))
    assert str(error).splitlines() == [
        'FILE, line 2, column 40: steps.0.with.too: inner takes no "too".',
        'FILE, line 2, column 31: steps.0.with: inner needs "to".',
        "FILE, line 2, column 52: steps.0.with.many: must be a whole number.",
        'FILE, line 4, column 13: steps.2.skill: there is no skill "iner"; did you mean "inner"?',
    ]


def test_a_model_and_a_selector_without_a_candidate_are_told_with_the_constraint_that_failed() -> None:
    selector = {"required": [{"key": "security", "op": "Gte", "value": 9}]}
    meets = {"required": [{"key": "security", "op": "Gte", "value": 3}]}
    file = workflow(
        f'{{"id": "a", "instruction": "x", "model_selector": {json.dumps(selector)}}}',
        '{"id": "b", "instruction": "x", "model": "mane"}',
        '{"id": "c", "instruction": "x", "model": "main"}',
        f'{{"id": "d", "instruction": "x", "model_selector": {json.dumps(meets)}}}',
    )
    models = ModelRegistry(ModelsSettings.model_validate(MODELS), {})
    error = file.error(of_models(file.skill, models))
    assert str(error).splitlines() == [
        "FILE, line 2, column 33: steps.0.model_selector: no configured model meets security >= 9.",
        'FILE, line 3, column 33: steps.1.model: there is no model "mane". There are: offline, main, guard, poet.',
    ]
