"""Rules: as written in a file, and as the engine applies them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from ozzie_server_ext.config.validation import like
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.content import MOST_SOURCES, Content, Label
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import Channel
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.domain.toolmeta import Category, RiskLevel, SideEffect, ToolMeta, ToolSpec
from ozzie_server_ext.policy.decision import Action, Caller, Decision, Reading, Verdict
from ozzie_server_ext.policy.patterns import MANY, Glob, HostPattern, SequenceGlob, canonical_host, folded
from ozzie_server_ext.render.text import visible_label

ANY = "*"
_KINDS = ", ".join(Label)
_LABEL_NAMES: dict[str, str] = {
    Label.WEB: "web content",
    Label.FILE: "a file outside the project",
    Label.MCP: "what a server of tools said",
    Label.CHANNEL: "a message from a channel",
    Label.REMOTE: "what a remote agent said",
    Label.OUTPUT: "what a program printed",
}
_MOST_PLACES = 3


class SourcePattern(msgspec.Struct, frozen=True):
    """A pattern for sources of content. An empty `label` means any source, `place` None any place of that label."""

    label: str
    place: HostPattern | SequenceGlob | Glob | None

    @classmethod
    def of(cls, pattern: str) -> "SourcePattern":
        """Raises ValueError with a message for the author of the pattern."""
        if pattern == ANY:
            return cls("", None)
        label, colon, place = pattern.partition(":")
        if not colon or label not in list(Label) or not place:
            raise ValueError(
                f'"{pattern}" is not a source: write the kind and the place, as in "web:example.org", or "*". '
                f"Kinds are {_KINDS}"
            )
        if place == ANY:
            return cls(label, None)
        if label == Label.WEB:
            return cls(label, HostPattern.of(place))
        if label == Label.FILE:
            if not place.startswith("/"):
                raise ValueError(f'"{pattern}" is not a source: a file is written from the root, as in "file:/data/**"')
            return cls(label, SequenceGlob.of(PurePosixPath(place).parts[1:]))
        return cls(label, Glob.of(place))

    def matches(self, source: str, *, sure: bool) -> bool:
        """Whether a source matches. An unknown place matches unless `sure` is set."""
        if not self.label:
            return True
        label, _, place = source.partition(":")
        if label != self.label:
            return False
        match self.place:
            case None:
                return True
            case HostPattern():
                host = canonical_host(place)
                return not sure if host is None else self.place.matches(host)
            case SequenceGlob():
                parts = path_parts(place.removeprefix("/")) if place.startswith("/") else None
                return not sure if parts is None else self.place.matches(parts)
            case Glob():
                return self.place.matches(place) if place else not sure


def origin_text(content: Content) -> str:
    """Return the origin of content, for people: "web content (example.org, example.net, a.example and 2 more)"."""
    kinds = ", ".join(_LABEL_NAMES.get(label, label) for label in content.labels)
    places = [source.partition(":")[2] for source in content.sources if source.partition(":")[2]]
    if not places:
        return kinds
    shown = ", ".join(visible_label(place) for place in places[:_MOST_PLACES])
    left = len(content.sources) - min(len(places), _MOST_PLACES)
    return f"{kinds} ({shown}{f' and {left} more' if left else ''})"


T = TypeVar("T")

MAX_COMPONENTS = 32
"""Components of a path pattern."""

Condition = Callable[[Action], str]
"""Returns why a rule does not apply to a call, in a few words; "" if the condition holds."""


class Tools(msgspec.Struct, frozen=True):
    """Names of tools: ids, names for the model, or patterns for both."""

    patterns: tuple[str, ...]

    def __call__(self, action: Action) -> str:
        if any(_names(pattern, action.meta) for pattern in self.patterns):
            return ""
        return f"{action.meta.tool_id} is not {', '.join(self.patterns)}"

    def name(self, meta: ToolMeta) -> bool:
        """Whether the tool is named itself, not only matched by a pattern."""
        return any(pattern in _all_names(meta) for pattern in self.patterns)


def attended(wanted: bool) -> Condition:
    def condition(action: Action) -> str:
        if action.caller.attended is wanted:
            return ""
        return "somebody is there to be asked" if action.caller.attended else "nobody is there to be asked"

    return condition


def categories(wanted: Iterable[Category], *, sure: bool) -> Condition:
    """An ALLOW must state all categories: a rule about sending does not allow a tool that sends and deletes."""
    allowed = frozenset(wanted)

    def condition(action: Action) -> str:
        has = action.meta.categories
        if has and (has <= allowed if sure else has & allowed):
            return ""
        return f"its categories are {', '.join(sorted(has)) or 'none'}"

    return condition


def projects(names: Iterable[str]) -> Condition:
    folders = [_folder(name) for name in names]

    def condition(action: Action) -> str:
        here = PurePosixPath(action.caller.project)
        if any(here.is_relative_to(folder) for folder in folders):
            return ""
        return f"the project is {here}"

    return condition


def paths(patterns: Iterable[str], *, sure: bool) -> Condition:
    """Raises ValueError for a pattern that no path can match."""
    globs = [_glob(_path_pattern(pattern), sure) for pattern in patterns]
    return _targets(
        "path",
        lambda action: action.paths if sure else action.folded_paths,
        lambda parts: any(glob.matches(parts) for glob in globs),
        sure,
    )


def hosts(patterns: Iterable[str], *, sure: bool) -> Condition:
    """Raises ValueError for a pattern that is no host."""
    known = [HostPattern.of(pattern) for pattern in patterns]
    return _targets(
        "host", lambda action: action.hosts, lambda host: any(pattern.matches(host) for pattern in known), sure
    )


def commands(patterns: Iterable[Sequence[str]], *, sure: bool) -> Condition:
    """Raises ValueError for a pattern that names no program."""
    globs = [_glob(_command_pattern(words), sure) for words in patterns]

    def matches(words: tuple[str, ...]) -> bool:
        program, *rest = words
        # Denying git covers /usr/bin/git too; allowing git says nothing about a program elsewhere.
        names = [program] if sure else [program, program.rsplit("/", 1)[-1]]
        return any(glob.matches((name, *rest)) for glob in globs for name in names)

    return _targets("command", lambda action: action.commands if sure else action.folded_commands, matches, sure)


def sources(patterns: Iterable[str], *, sure: bool) -> Condition:
    """The sources of a call's content. An ALLOW must cover all of them. Raises ValueError for an invalid pattern."""
    known = [SourcePattern.of(pattern) for pattern in patterns]

    def condition(action: Action) -> str:
        found = action.reading.content.completed().sources
        matched = [any(pattern.matches(source, sure=sure) for pattern in known) for source in found]
        if all(matched) if sure else any(matched):
            return ""
        unmatched = next((source for source, is_match in zip(found, matched, strict=True) if not is_match), "")
        return f"it is made from {unmatched}" if unmatched else "nothing that it is made from came from outside"

    return condition


def _targets(
    noun: str, targets: Callable[[Action], tuple[T | None, ...]], matches: Callable[[T], bool], sure: bool
) -> Condition:
    def condition(action: Action) -> str:
        found = targets(action)
        if not found:
            return f"the call names no {noun}"
        matched = [not sure if each is None else matches(each) for each in found]
        return "" if (all(matched) if sure else any(matched)) else f"its {noun} is another one"

    return condition


def _one_of(what: str, found: Callable[[Action], T], wanted: Sequence[T]) -> Condition:
    def condition(action: Action) -> str:
        here = found(action)
        return "" if here in wanted else f"{what} is {str(here) or 'not known'}"

    return condition


def _names(pattern: str, meta: ToolMeta) -> bool:
    names = _all_names(meta)
    return pattern in names or ("*" in pattern and any(map(Glob.of(pattern).matches, names)))


def _all_names(meta: ToolMeta) -> tuple[str, ...]:
    return (meta.tool_id, meta.name, *meta.further_names)


def _path_pattern(pattern: str) -> tuple[str, ...]:
    parts = PurePosixPath(pattern).parts
    if not parts or parts[0] in ("/", "//") or parts[0].startswith("~") or ".." in parts:
        raise ValueError(f'"{pattern}" matches no path: paths are relative to the project folder, as in "notes/**"')
    if len(parts) > MAX_COMPONENTS:
        raise ValueError(f"a pattern has at most {MAX_COMPONENTS} folders, and one has {len(parts)}")
    for part in parts:
        if MANY in part and part != MANY:
            raise ValueError(f'in "{pattern}", ** stands for whole folders: write it between slashes')
    return parts


def _command_pattern(words: Sequence[str]) -> tuple[str, ...]:
    if not words or words[0] == MANY:
        raise ValueError('a command begins with a program, as in ["git", "status"]')
    if any(MANY in word and word != MANY for word in words) or MANY in words[:-1]:
        raise ValueError("** is allowed only at the end of a command, for all remaining words")
    return tuple(words)


def _glob(patterns: tuple[str, ...], sure: bool) -> SequenceGlob:
    return SequenceGlob.of(patterns if sure else tuple(map(folded, patterns)))


MAX_RULES = 500
MAX_PATTERNS = 100
MAX_PATTERNS_IN_FILE = 2000
"""The number of patterns that a call is compared with before it runs."""


class KnownTool(Protocol):
    """A tool for trying the examples of rules: its contract and arguments."""

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
    """The conditions of a rule; one that is not stated always holds. `attended`: somebody is there to be asked;
    `sources`: where the content came from that the call is made from."""

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
    """A call that a rule must match, or must not."""

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
    """A rule as written. `needs`: the weakest way to approve, without step-up, which does not exist yet."""

    id: RuleId
    decision: Literal["allow", "check", "ask", "deny"]
    needs: Literal["cli", "browser"] | None = None
    reason: Annotated[str, Field(min_length=3, max_length=300)]
    when: WhenText
    examples: ExamplesText


class PolicyText(_Text):
    """The content of a policy file."""

    rules: Annotated[tuple[RuleText, ...], Field(max_length=MAX_RULES)] = ()


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled rule. A CHECK rule both lowers and raises the decision, so it matches twice: `conditions` miss no call
    that is meant, `sure` matches no other. `only_tightens`: from a project; `states_sources`: about outside content."""

    verdict: Verdict
    tools: Tools | None
    conditions: tuple[Condition, ...]
    sure: tuple[Condition, ...]
    only_tightens: bool = False
    states_sources: bool = False

    def mismatch(self, action: Action) -> str:
        """Return why the rule does not apply to the call, in a few words; "" if it does."""
        return _mismatch(self.conditions, action)

    def surely(self, action: Action) -> str:
        """The same by the strict conditions, which examples must fit."""
        return _mismatch(self.sure, action)

    def says(self, action: Action) -> Verdict:
        """Return its verdict on a matching call: a person is asked if a model's approval is not surely meant."""
        if self.verdict.decision is Decision.CHECK and self.surely(action):
            return replace(self.verdict, decision=Decision.ASK)
        return self.verdict

    def names(self, meta: ToolMeta) -> bool:
        """Whether the rule names the tool itself, not only by a pattern."""
        return self.tools is not None and self.tools.name(meta)


def patterns_in(text: RuleText) -> int:
    """Return the number of patterns to compare each call with."""
    when = text.when
    return sum(
        map(len, (when.tools or (), when.paths or (), when.hosts or (), when.commands or (), when.sources or ()))
    )


def compile_rule(text: RuleText, place: str, *, only_tightens: bool = False) -> Rule:
    """Compile a rule that stands at `place`. Raises ValueError with a message for its author."""
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
    needs = AuthStrength(text.needs) if text.needs else AuthStrength.MODEL
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
    conditions: list[tuple[Any, Callable[[Any], Condition]]] = [
        (when.side_effects, partial(_one_of, "its side effect", lambda action: action.meta.side_effect)),
        (when.categories, partial(categories, sure=sure)),
        (when.risks, partial(_one_of, "its risk", lambda action: action.meta.risk_level)),
        (when.channels, partial(_one_of, "the channel", lambda action: action.caller.channel)),
        (when.users, partial(_one_of, "the user", lambda action: action.caller.user)),
        (when.attended, attended),
        (when.projects, projects),
        (when.paths, partial(paths, sure=sure)),
        (when.hosts, partial(hosts, sure=sure)),
        (when.commands, partial(commands, sure=sure)),
        (when.sources, partial(sources, sure=sure)),
    ]
    return [condition(wanted) for wanted, condition in conditions if wanted is not None]


def _folder(name: str) -> Path:
    try:
        folder = Path(name).expanduser()
    except RuntimeError:
        raise ValueError(f'"{name}" names a home folder that is not there') from None
    if not folder.is_absolute():
        raise ValueError(f'"{name}" is not a folder: write it from the root, or with ~')
    try:
        return folder.resolve()
    except (OSError, RuntimeError):  # RuntimeError before Python 3.13
        raise ValueError(f'"{name}" can\'t be followed: its links lead in a circle, or its name is too long') from None


def failing_example(rule: Rule, text: RuleText, find: FindTool) -> str:
    """Return in words the first example that does not hold, or "". Unknown tools, perhaps of a plugin, are skipped."""
    examples = [(each, True) for each in text.examples.match] + [(each, False) for each in text.examples.no_match]
    for example, wanted in examples:
        tool = find(example.tool)
        if tool is None:
            continue
        # Otherwise a rule could fail to match a misspelt example for the wrong reason.
        if strangers := sorted(example.args.keys() - _arguments(tool)):
            return f"the example {_shown(example)} names unknown arguments of that tool: {', '.join(strangers)}"
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
    """Return the tools that the rule or its examples name and that are unknown."""
    names = [*(text.when.tools or ()), *(each.tool for each in (*text.examples.match, *text.examples.no_match))]
    return tuple(dict.fromkeys(name for name in names if "*" not in name and find(name) is None))


def _action(meta: ToolMeta, example: ExampleText) -> Action:
    project = str(_folder(example.project)) if example.project else ""
    args: Mapping[str, Any] = example.args
    caller = Caller(project=project, channel=example.channel or "", user=example.user, attended=example.attended)
    for source in example.sources:
        SourcePattern.of(source)  # a misspelt one would match for the wrong reason
    content = Content(
        labels=tuple(sorted({each.partition(":")[0] for each in example.sources})), sources=example.sources
    )
    return Action.of(meta, args, caller, Reading(content=content))


def _shown(example: ExampleText) -> str:
    args: JsonObject = example.args
    shown = ", ".join(f"{key} {str(value)[:60]!r}" for key, value in args.items())
    return f"{example.tool} with {shown}" if shown else example.tool
