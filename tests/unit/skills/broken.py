"""Skill files as people get them wrong, each with the whole message that they read. `FILE` is the file's name."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Broken:
    """`text` is the file; `says` the message, a line for each complaint."""

    text: str
    says: str


def _workflow(*steps: str, more: str = "") -> str:
    """With each step on a line of its own, from the third line on."""
    return '{"name": "w", "type": "workflow", ' + more + '"steps": [\n\n' + ",\n".join(steps) + "\n]}"


def _fsm(*states: str, more: str = "") -> str:
    return '{"name": "f", "type": "fsm", ' + more + '"states": [\n\n' + ",\n".join(states) + "\n]}"


BROKEN = {
    "a comment that is never closed": Broken(
        '{\n  /* what it does\n  "name": "a"}', "FILE, line 2, column 3: this comment is never closed."
    ),
    "a key twice": Broken('{\n  "name": "a",\n  "name": "b"}', 'FILE, line 3, column 3: the key "name" appears twice.'),
    "a list instead of an object": Broken('[{"name": "a"}]', "FILE, line 1, column 1: expected an object in braces."),
    "no name": Broken('{"description": "x"}', 'FILE, line 1, column 1: the key "name" is missing.'),
    "a name with a blank": Broken(
        '{"name": "my skill"}',
        "FILE, line 1, column 2: name: may hold letters, digits, '_' and '-' only, at most 64, and "
        "begins with a letter or digit; it is 'my skill'.",
    ),
    "a mistyped key": Broken(
        '{"name": "a",\n  "instructions": "x"}',
        'FILE, line 2, column 3: instructions: unknown key "instructions"; did you mean "instruction"?',
    ),
    "an unknown type": Broken(
        '{"name": "a",\n  "type": "dag"}',
        'FILE, line 2, column 3: type: must be one of "simple", "workflow", "fsm"; it is \'dag\'.',
    ),
    "a number as text": Broken(
        '{"name": "a",\n  "max_iterations": "many"}',
        "FILE, line 2, column 3: max_iterations: must be a whole number; it is 'many'.",
    ),
    "a model and a selector": Broken(
        '{"name": "a",\n  "model": "x", "model_selector": {"required": []}}',
        'FILE, line 1, column 1: give "model" or "model_selector", not both.',
    ),
    "an unknown operator": Broken(
        '{"name": "a", "model_selector": {"required": [\n  {"key": "security", "op": "Ge", "value": 2}]}}',
        "FILE, line 2, column 3: model_selector.required.0: must be one of 'Eq', 'NotEq', 'In', "
        "'NotIn', 'Gte', 'Lte', 'Exists'; it is 'Ge'.",
    ),
    "tools under both names": Broken(
        '{"name": "a", "tools": ["search"],\n  "tools_allowed": ["search"]}',
        'FILE, line 1, column 1: give "tools" or "tools_allowed", not both.',
    ),
    "a dangerous tool that it has not": Broken(
        '{"name": "a", "tools": ["read_file"],\n  "dangerous_tools": ["read_fil"]}',
        'FILE, line 2, column 23: dangerous_tools.0: "read_fil" is not among "tools"; did you mean "read_file"?',
    ),
    "a cron line of four fields": Broken(
        '{"name": "a", "triggers": {\n  "cron": "0 9 * *"}}',
        "FILE, line 2, column 3: triggers.cron: needs five fields (minute, hour, day, month, day of the "
        "week), as \"0 9 * * 1-5\"; it is '0 9 * *'.",
    ),
    "a required variable with a default": Broken(
        '{"name": "a", "vars": {\n  "env": {"required": true, "default": "x"}}}',
        "FILE, line 2, column 3: vars.env: a variable with a default is not required: give one of the two.",
    ),
    "a default of another type": Broken(
        '{"name": "a", "vars": {\n  "n": {"type": "integer", "default": "x"}}}',
        "FILE, line 2, column 3: vars.n: the default must be of the type integer.",
    ),
    "variables and a schema": Broken(
        '{"name": "a",\n  "vars": {"x": {}}, "input_model": {}}',
        'FILE, line 1, column 1: give "vars" or "input_model", not both.',
    ),
    "an unknown variable": Broken(
        '{"name": "a", "vars": {"topic": {}},\n  "instruction": "Write about {{topik}}."}',
        'FILE, line 2, column 3: instruction: {{topik}}: there is no variable "topik"; did you mean "topic"?',
    ),
    "braces that are never closed": Broken(
        '{"name": "a",\n  "instruction": "Say {{input."}',
        'FILE, line 2, column 3: instruction: "{{" is never closed; literal braces are written {{"{{"}}.',
    ),
    "an environment variable": Broken(
        '{"name": "a",\n  "instruction": "Use ${{ .Env.KEY }}."}',
        "FILE, line 2, column 3: instruction: {{.Env.KEY}}: a skill reads no environment variables.",
    ),
    "no steps": Broken(
        '{"name": "w", "type": "workflow",\n  "steps": []}', "FILE, line 2, column 3: steps: needs at least one."
    ),
    "steps without a type": Broken(
        '{"name": "w",\n  "steps": [{"id": "a", "instruction": "x"}]}',
        'FILE, line 2, column 3: steps: a skill with "steps" says "type": "workflow".',
    ),
    "a step twice": Broken(
        _workflow('{"id": "a", "instruction": "x"}', '{"id": "a", "instruction": "y"}'),
        'FILE, line 4, column 2: steps.1.id: "a" is used twice.',
    ),
    "a step that needs an unknown one": Broken(
        _workflow('{"id": "build", "instruction": "x"}', '{"id": "test", "instruction": "y", "needs": ["biuld"]}'),
        'FILE, line 4, column 46: steps.1.needs.0: there is no step "biuld"; did you mean "build"?',
    ),
    "a step that needs itself": Broken(
        _workflow('{"id": "a", "instruction": "x", "needs": ["a"]}'),
        'FILE, line 3, column 43: steps.0.needs.0: "a" can\'t need itself.',
    ),
    "steps in a circle": Broken(
        _workflow(
            '{"id": "a", "instruction": "x", "needs": ["c"]}',
            '{"id": "b", "instruction": "x", "needs": ["a"]}',
            '{"id": "c", "instruction": "x", "needs": ["b"]}',
        ),
        "FILE, line 3, column 33: steps.0.needs: no step can be the first: a before b before c before a.",
    ),
    "an output of no step": Broken(
        '{"name": "w", "type": "workflow",\n  "output": "reprot", "steps": [{"id": "report", "instruction": "x"}]}',
        'FILE, line 2, column 3: output: there is no step "reprot"; did you mean "report"?',
    ),
    "a step that does nothing": Broken(
        _workflow('{"id": "a"}'),
        'FILE, line 3, column 1: steps.0: "a" does nothing: give it one of instruction, call, skill, '
        "ask, approve, wait.",
    ),
    "a step that does two things": Broken(
        _workflow('{"id": "a", "instruction": "x", "call": {"tool": "search"}}'),
        'FILE, line 3, column 33: steps.0.call: "a" has "instruction" and "call", and may do one thing.',
    ),
    "an output that comes too late": Broken(
        _workflow('{"id": "a", "instruction": "See {{steps.b.output}}."}', '{"id": "b", "instruction": "x"}'),
        'FILE, line 3, column 13: steps.0.instruction: {{steps.b.output}}: "b" may not have ended by '
        'then; name it in "needs".',
    ),
    "an output that is written otherwise": Broken(
        _workflow('{"id": "a", "instruction": "x"}', '{"id": "b", "needs": ["a"], "instruction": "{{steps.a}}"}'),
        "FILE, line 4, column 29: steps.1.instruction: {{steps.a}}: a step's output is written {{steps.ID.output}}.",
    ),
    "a condition with a call": Broken(
        _workflow('{"id": "a", "instruction": "x", "when": "open(\'x\')"}'),
        "FILE, line 3, column 33: steps.0.when: a condition compares values with ==, !=, <, <=, >, >=, "
        "in, not in, and joins with and, or, not; it stops being one at character 1.",
    ),
    "a condition with a bare word": Broken(
        _workflow('{"id": "a", "instruction": "x", "when": "env == \'prod\'"}', more='"vars": {"env": {}}, '),
        'FILE, line 3, column 33: steps.0.when: "env" means nothing here; a variable is written in braces, '
        "{{env}}, and a text in quotes; it stops being one at character 1.",
    ),
    "half a condition": Broken(
        _workflow('{"id": "a", "instruction": "x", "when": "{{env}} =="}', more='"vars": {"env": {}}, '),
        "FILE, line 3, column 33: steps.0.when: a condition compares values with ==, !=, <, <=, >, >=, "
        "in, not in, and joins with and, or, not; it stops being one at character 11.",
    ),
    "a step that is the workflow itself": Broken(
        _workflow('{"id": "a", "skill": "w"}'),
        'FILE, line 3, column 13: steps.0.skill: "w" can\'t be a step of itself.',
    ),
    "a machine without an end": Broken(
        _fsm('{"id": "a", "instruction": "x", "moves": [{"to": "a"}]}'),
        'FILE, line 1, column 30: states: no state is "final", so it could never end.',
    ),
    "a move to nowhere": Broken(
        _fsm('{"id": "draft", "instruction": "x", "moves": [{"to": "don"}]}', '{"id": "done", "final": true}'),
        (
            'FILE, line 3, column 48: states.0.moves.0.to: there is no state "don"; did you mean "done"?\n'
            'FILE, line 4, column 1: states.1: nothing leads to "done".'
        ),
    ),
    "a move on an event that never comes": Broken(
        _fsm(
            '{"id": "ask", "approve": {"question": "Go on?"}, "moves": [{"on": "denied", "to": "end"}]}',
            '{"id": "end", "final": true}',
        ),
        'FILE, line 3, column 61: states.0.moves.0.on: "ask" ends with "approved" or "rejected", never with "denied".',
    ),
    "several mistakes at once": Broken(
        '{"name": "a b", "version": 1,\n  "modle": "x",\n  "max_iterations": 0}',
        (
            "FILE, line 1, column 2: name: may hold letters, digits, '_' and '-' only, at most 64, and "
            "begins with a letter or digit; it is 'a b'.\n"
            'FILE, line 2, column 3: modle: unknown key "modle"; did you mean "model"?\n'
            "FILE, line 3, column 3: max_iterations: must be at least 1; it is 0."
        ),
    ),
}
