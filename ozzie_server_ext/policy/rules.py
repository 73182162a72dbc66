"""Rules as they stand in a file, and as the engine applies them (TL-3)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ozzie_server_ext.config.wording import like
from ozzie_server_ext.domain.approvals import Way
from ozzie_server_ext.domain.channels import Channel
from ozzie_server_ext.domain.content import MOST_SOURCES, Content
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, RiskLevel, SideEffect, ToolMeta, ToolSpec
from ozzie_server_ext.policy import conditions
from ozzie_server_ext.policy.action import Action, Caller
from ozzie_server_ext.policy.conditions import Condition, Tools
from ozzie_server_ext.policy.decision import Decision, Verdict
from ozzie_server_ext.policy.reading import Reading
from ozzie_server_ext.policy.sources import SourcePattern

MAX_RULES = 500
MAX_PATTERNS = 100
MAX_PATTERNS_IN_FILE = 2000
"""As many as a call is compared with before it runs (THREATS 15)."""


class KnownTool(Protocol):
    """What the examples of rules are tried with: a tool's contract, and what arguments it takes."""

    @property
    def meta(self) -> ToolMeta: ...

    @property
    def spec(self) -> ToolSpec: ...


FindTool: TypeAlias = Callable[[str], KnownTool | None]

RuleId = Annotated[
    str,
    like(
        r"[a-z0-9][a-z0-9._-]{0,63}",
        "may hold small letters, digits, '.', '_' and '-' only, at most 64, and begins with a letter or digit",
    ),
]
Pattern = Annotated[str, Field(min_length=1, max_length=512)]
Patterns = Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=MAX_PATTERNS)]
Command = Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=64)]


class _Text(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WhenText(_Text):
    """The conditions of a rule; what is not stated does not matter. `attended`: somebody is there to be asked;
    `sources`: where the content came from that the call is made from (see `policy.sources`)."""

    tools: Patterns | None = None
    side_effects: Annotated[tuple[SideEffect, ...], Field(min_length=1)] | None = None
    categories: Annotated[tuple[Category, ...], Field(min_length=1)] | None = None
    risks: Annotated[tuple[RiskLevel, ...], Field(min_length=1)] | None = None
    channels: Annotated[tuple[Channel, ...], Field(min_length=1)] | None = None
    users: Patterns | None = None
    attended: bool | None = None
    projects: Patterns | None = None
    paths: Patterns | None = None
    hosts: Patterns | None = None
    commands: Annotated[tuple[Command, ...], Field(min_length=1, max_length=MAX_PATTERNS)] | None = None
    sources: Patterns | None = None


class ExampleText(_Text):
    """A call that a rule must or must not apply to."""

    tool: Pattern
    args: dict[str, Any] = {}
    channel: Channel | None = None
    user: str = ""
    project: str = ""
    attended: bool = True
    sources: Annotated[tuple[Pattern, ...], Field(max_length=MOST_SOURCES)] = ()


class ExamplesText(_Text):
    match: Annotated[tuple[ExampleText, ...], Field(min_length=1, max_length=MAX_PATTERNS)]
    no_match: Annotated[tuple[ExampleText, ...], Field(max_length=MAX_PATTERNS)] = ()


class RuleText(_Text):
    """A rule as somebody wrote it. `needs`: the weakest way that a yes may come by; a step-up is none of them, as there
    is no way yet to prove once more who one is."""

    id: RuleId
    decision: Literal["allow", "check", "ask", "deny"]
    needs: Literal["cli", "browser"] | None = None
    reason: Annotated[str, Field(min_length=3, max_length=300)]
    when: WhenText
    examples: ExamplesText


class PolicyText(_Text):
    """What a file of rules may say."""

    rules: Annotated[tuple[RuleText, ...], Field(max_length=MAX_RULES)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule as it is applied. One that checks lowers and raises what is asked, so it looks twice at a call: by
    `conditions` it misses nothing, by `sure` it takes no call for one that it means. `only_tightens`: a project's;
    `states_sources`: it speaks of content from outside."""

    verdict: Verdict
    tools: Tools | None
    conditions: tuple[Condition, ...]
    sure: tuple[Condition, ...]
    only_tightens: bool = False
    states_sources: bool = False

    def mismatch(self, action: Action) -> str:
        """Why it does not apply to the call, in a few words; "" where it does."""
        return _mismatch(self.conditions, action)

    def surely(self, action: Action) -> str:
        """The same, by what an example has to fit: that the call is the very one that is meant."""
        return _mismatch(self.sure, action)

    def says(self, action: Action) -> Verdict:
        """Its verdict on a call that it applies to: a person is asked where it is not sure that a model may be."""
        if self.verdict.decision is Decision.CHECK and self.surely(action):
            return replace(self.verdict, decision=Decision.ASK)
        return self.verdict

    def names(self, meta: ToolMeta) -> bool:
        """Whether it states the tool itself, and not a pattern that happens to cover it."""
        return self.tools is not None and self.tools.name(meta)


def patterns_in(text: RuleText) -> int:
    """How many patterns its conditions have that a call is compared with."""
    when = text.when
    return sum(
        map(len, (when.tools or (), when.paths or (), when.hosts or (), when.commands or (), when.sources or ()))
    )


def compile_rule(text: RuleText, place: str, *, only_tightens: bool = False) -> Rule:
    """The rule of that text, which stands at `place`.

    Raises ValueError, whose words say what can't be.
    """
    decision = Decision(text.decision.upper())
    lowers = decision in (Decision.ALLOW, Decision.CHECK)
    tools = Tools(text.when.tools) if text.when.tools else None
    conditions, sure = (
        (*([tools] if tools else []), *_conditions(text.when, is_sure))
        for is_sure in (decision is Decision.ALLOW, lowers)
    )
    if lowers and not conditions:
        raise ValueError(f'a rule that {text.decision}s has to state a condition in "when"')
    if text.needs and decision is not Decision.ASK:
        raise ValueError('"needs" tells how a yes has to come: only a rule with the decision "ask" can say it')
    if text.when.sources and decision is Decision.CHECK:
        raise ValueError('content from outside may speak to a model: a rule that checks can\'t state "sources"')
    needs = Way(text.needs) if text.needs else Way.MODEL
    return Rule(
        verdict=Verdict(decision=decision, rule=text.id, reason=text.reason, place=place, needs=needs),
        tools=tools,
        conditions=conditions,
        sure=sure,
        only_tightens=only_tightens,
        states_sources=bool(text.when.sources),
    )


def _mismatch(conditions: tuple[Condition, ...], action: Action) -> str:
    return next((why for condition in conditions if (why := condition(action))), "")


def _conditions(when: WhenText, sure: bool) -> list[Condition]:
    found: list[Condition] = []
    if when.side_effects:
        found.append(conditions.side_effects(when.side_effects))
    if when.categories:
        found.append(conditions.categories(when.categories, sure=sure))
    if when.risks:
        found.append(conditions.risks(when.risks))
    if when.channels:
        found.append(conditions.channels(when.channels))
    if when.users:
        found.append(conditions.users(when.users))
    if when.attended is not None:
        found.append(conditions.attended(when.attended))
    if when.projects:
        found.append(conditions.projects([_folder(name) for name in when.projects]))
    if when.paths:
        found.append(conditions.paths(when.paths, sure=sure))
    if when.hosts:
        found.append(conditions.hosts(when.hosts, sure=sure))
    if when.commands:
        found.append(conditions.commands(when.commands, sure=sure))
    if when.sources:
        found.append(conditions.sources(when.sources, sure=sure))
    return found


def _folder(name: str) -> Path:
    try:
        folder = Path(name).expanduser()
    except RuntimeError:
        raise ValueError(f'"{name}" names a home folder that is not there') from None
    if not folder.is_absolute():
        raise ValueError(f'"{name}" is no folder: write it from the root, or with ~')
    try:
        return folder.resolve()
    except (OSError, RuntimeError):  # RuntimeError before Python 3.13
        raise ValueError(f'"{name}" can\'t be followed: its links lead in a circle, or its name is too long') from None


def failing_example(rule: Rule, text: RuleText, find: FindTool) -> str:
    """The first of its examples that is not so, in words; "" where all are. Those of tools that are not here now are
    passed over: they may come with a plugin."""
    for example, wanted in [(each, True) for each in text.examples.match] + [
        (each, False) for each in text.examples.no_match
    ]:
        tool = find(example.tool)
        if tool is None:
            continue
        # Without this, a rule would not match a misspelt example for the wrong reason.
        if strangers := sorted(example.args.keys() - _arguments(tool)):
            return f"the example {_shown(example)} names what is no argument of that tool: {', '.join(strangers)}"
        why = rule.surely(_action(tool.meta, example))
        if wanted and why:
            return f"it says that it matches {_shown(example)}, and does not: {why}"
        if not wanted and not why:
            return f"it says that it does not match {_shown(example)}, and does"
    return ""


def _arguments(tool: KnownTool) -> frozenset[str]:
    properties = tool.spec.parameters.get("properties")
    return frozenset(properties if isinstance(properties, dict) else ())


def unknown_tools(text: RuleText, find: FindTool) -> tuple[str, ...]:
    """Tools that the rule or its examples name, and that are not here."""
    named = [*(text.when.tools or ()), *(each.tool for each in (*text.examples.match, *text.examples.no_match))]
    return tuple(dict.fromkeys(name for name in named if "*" not in name and find(name) is None))


def _action(meta: ToolMeta, example: ExampleText) -> Action:
    project = str(_folder(example.project)) if example.project else ""
    args: Mapping[str, Any] = example.args
    caller = Caller(project=project, channel=example.channel or "", user=example.user, attended=example.attended)
    for source in example.sources:
        SourcePattern.of(source)  # as for a pattern: what is misspelt would match for the wrong reason
    content = Content(
        labels=tuple(sorted({each.partition(":")[0] for each in example.sources})), sources=example.sources
    )
    return Action.of(meta, args, caller, Reading(content=content))


def _shown(example: ExampleText) -> str:
    args: JsonObject = example.args
    said = ", ".join(f"{key} {str(value)[:60]!r}" for key, value in args.items())
    return f"{example.tool} with {said}" if said else example.tool
