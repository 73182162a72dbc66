"""`ozzie policy`: check rule files, explain a decision, trust a project's rules, take back what a card let through. No
gateway is needed."""

import argparse
import os
from pathlib import Path
from typing import Any

from ozzie_server_ext.cli.terminal import print_json, print_result
from ozzie_server_ext.config.home import STANDING, find_home
from ozzie_server_ext.config.jsonc import content_of
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy import standing
from ozzie_server_ext.policy.decision import Action, Caller, Decision, Reading, Verdict
from ozzie_server_ext.policy.engine import ALWAYS_ASK, OUTSIDE, Explanation, explain
from ozzie_server_ext.policy.files import (
    CLASSES,
    PROJECT_FILE,
    Policy,
    RuleFile,
    classes_of,
    load,
    read,
    trust_rules,
    untrust_rules,
)
from ozzie_server_ext.policy.rules import Rule
from ozzie_server_ext.policy.sources import SourcePattern
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.render.questions import NEEDS, RULINGS
from ozzie_server_ext.render.text import counted, visible_label, visible_prose
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry


def check_rules(options: argparse.Namespace) -> int:
    """Print the rules of all files in force, or of the file that is named. Raises ConfigError, JsoncError."""
    registry = ToolRegistry(builtin_tools())
    if options.file:
        path = Path(options.file).absolute()
        file = read(path, content_of(path), registry.find)
        policy = Policy(files=(file, *classes_of((file,))))
    else:
        policy = load(find_home(os.environ), Path(options.project or ".").resolve(), registry.find)
    if options.json:
        print_json({"files": [_file(file) for file in policy.files], "ignored": [str(path) for path in policy.ignored]})
        return 0
    own = [file for file in policy.files if file.path != CLASSES]
    for file in own:
        is_of_cards = file.path.name == STANDING
        tried = "made on cards" if is_of_cards else "all examples hold"
        print(f"{visible_label(str(file.path))}: {counted(len(file.rules), 'rule')}, {tried}.")
        for rule in file.rules:
            said = f". {visible_prose(rule.verdict.reason)}" if is_of_cards else ""
            print(f"  {_rule_line(rule)}{said}")
        for warning in file.warnings:
            print(visible_prose(warning))
    for path in policy.ignored:
        print(f"{visible_label(str(path))} is not used: nobody has trusted it yet (ozzie policy trust).")
    if not own and not policy.ignored:
        print("Only Ozzie's built-in rules apply: reading runs, changes ask first.")
    classes = [rule.verdict.rule for file in policy.files if file.path == CLASSES for rule in file.rules]
    if classes:
        print(f"These classes of calls run if you asked for them: {', '.join(classes)}.")
    return 0


def explain_call(options: argparse.Namespace) -> int:
    """Print the decision on a call, and why. Raises NotFound, InputError, ConfigError, JsoncError."""
    registry = ToolRegistry(builtin_tools())
    tool = registry.find(options.tool)
    if tool is None:
        names = ", ".join(each.meta.name for each in registry.all())
        raise NotFound(f"There is no tool {visible_label(options.tool)}.", hint=f"There are: {names}.")
    project = Path(options.project or ".").resolve()
    policy = load(find_home(os.environ), project, registry.find)
    caller = Caller(project=str(project), channel=options.channel, user=options.user, attended=not options.unattended)
    reading = Reading(content=_content(options.source), has_read=bool(options.source))
    found = explain(Action.of(tool.meta, _checked(tool, options.args), caller, reading), policy.rules)
    if options.json:
        print_json(_explained(found))
        return 0
    verdict = found.verdict
    ruling = RULINGS[verdict.decision.value]
    if options.unattended and verdict.decision is Decision.ASK:
        ruling = "never runs unattended: it would ask first"
    if options.unattended and verdict.decision is Decision.CHECK:
        ruling = "is checked by a second model, and runs unattended only if that approves"
    print(f"{tool.meta.name} {ruling}. {visible_prose(verdict.reason)}")
    print(f"  by {verdict.rule}{f' in {visible_label(verdict.place)}' if verdict.place else ''}")
    if verdict.needs is not AuthStrength.MODEL:
        print(f"  approval has to be given {NEEDS[verdict.needs]}")
    if found.overruled is not None:
        print(f"  {overruled(found.overruled, tool.meta, verdict)}")
    for rule, why in found.considered:
        if rule.is_class and why:
            continue
        print(f"  {_rule_line(rule)}: {visible_label(why) if why else 'applies'}")
    return 0


def trust_project_rules(options: argparse.Namespace) -> int:
    """Trust a project's rules. Raises NotFound, ConfigError, JsoncError."""
    home = find_home(os.environ)
    project = Path(options.folder).resolve()
    if not (project / PROJECT_FILE).is_file():
        raise NotFound(
            f"There is no {project / PROJECT_FILE}.", hint="Name the folder that has it: ozzie policy trust FOLDER."
        )
    home.create()
    file = trust_rules(home, project, ToolRegistry(builtin_tools()).find)
    number, where = len(file.rules), visible_label(str(file.path))
    rules = f"The rule in {where} applies" if number == 1 else f"The {number:,} rules in {where} apply"
    line = (
        f"{rules} from now on, as written. If the file changes, nothing runs in this project until it is trusted again."
    )
    return print_result({"trusted": str(file.path), "rules": number}, line, as_json=options.json)


def untrust_project_rules(options: argparse.Namespace) -> int:
    """Stop trusting a project's rules. Raises NotFound, ConfigError."""
    project = Path(options.folder).resolve()
    home = find_home(os.environ)
    home.create()
    file = untrust_rules(home, project)
    if file is None:
        raise NotFound(f"The rules of {project} are not trusted.", hint="Name the folder that they were trusted for.")
    line = f"{visible_label(str(file))} is no longer used. Its rules forbid nothing any more."
    return print_result({"untrusted": str(file)}, line, as_json=options.json)


def revoke_rule(options: argparse.Namespace) -> int:
    """Take back a rule that was made on a card. Raises NotFound, ConfigError, JsoncError."""
    home = find_home(os.environ)
    home.create()
    if not standing.revoke(home, options.rule):
        raise NotFound(
            f"No rule {visible_label(options.rule)} was made on a card.",
            hint=f"ozzie policy check lists them, below {home.standing_file.name}.",
        )
    return print_result(
        {"revoked": options.rule},
        "Taken back. Such calls ask again, unless another rule lets them run.",
        as_json=options.json,
    )


def _checked(tool: Tool, text: str) -> JsonObject:
    """Return the arguments with the tool's defaults. Raises InputError for arguments that the tool does not take."""
    try:
        given = loads_object(text)
    except InputError as error:
        raise InputError(
            f"The arguments are not a JSON object: {error}", hint='Write them as \'{"path": "a.txt"}\'.'
        ) from None
    return tool.check(given)


def _content(sources: list[str]) -> Content:
    """Return the outside content with these sources. Raises InputError for an invalid source."""
    for source in sources:
        try:
            SourcePattern.of(source)
        except ValueError as error:
            raise InputError(f"{error}.") from None
    labels = {source.partition(":")[0] for source in sources}
    return Content(labels=tuple(sorted(labels)), sources=tuple(sorted(set(sources))))


def _rule_line(rule: Rule) -> str:
    verdict = rule.verdict
    line = verdict.place.rpartition(", ")[2]
    return f"{visible_label(verdict.rule)} ({line}): {RULINGS[verdict.decision.value]}"


def overruled(verdict: Verdict, meta: ToolMeta, floor: Verdict) -> str:
    """Explain why a rule that allows or checks was overruled by the floor."""
    would = "have it checked" if verdict.decision is Decision.CHECK else "let it run"
    rule = f"Rule {visible_label(verdict.rule)} would {would}, but"
    if meta.categories & ALWAYS_ASK:
        return f"{rule} commands on this machine and code in a live kernel always ask first."
    if floor.rule == OUTSIDE.rule:
        return f'{rule} does not say which outside content it covers: name {meta.tool_id} and state "sources".'
    return f"{rule} does not name {meta.tool_id}, which is required for such a tool."


def _file(file: RuleFile) -> dict[str, Any]:
    return {
        "path": str(file.path),
        "rules": [
            {"id": rule.verdict.rule, "decision": rule.verdict.decision.value, "reason": rule.verdict.reason}
            for rule in file.rules
        ],
        "warnings": list(file.warnings),
    }


def _explained(found: Explanation) -> dict[str, Any]:
    return {
        "decision": found.verdict.decision.value,
        "rule": found.verdict.rule,
        "reason": found.verdict.reason,
        "place": found.verdict.place,
        "needs": None if found.verdict.needs is AuthStrength.MODEL else found.verdict.needs.value,
        "overruled": found.overruled.rule if found.overruled else None,
        "considered": [
            {"rule": rule.verdict.rule, "decision": rule.verdict.decision.value, "applies": not why, "why_not": why}
            for rule, why in found.considered
        ],
    }
