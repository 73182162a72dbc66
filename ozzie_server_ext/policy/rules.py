"""Rules: as written in a file, and as the engine applies them. What they state of a call is in `policy.conditions`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal, Protocol, Self, TypeAlias

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ozzie_server_ext.config.validation import like
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.content import MOST_SOURCES, Content
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import Channel
from ozzie_server_ext.domain.toolmeta import Category, RiskLevel, SideEffect, TargetKind, ToolMeta, ToolSpec
from ozzie_server_ext.policy import conditions
from ozzie_server_ext.policy.conditions import Condition, Tools, folder_named
from ozzie_server_ext.policy.decision import NO_WORDS, Action, Caller, Decision, Reading, Verdict, Words
from ozzie_server_ext.policy.people import MAX_NAME, NOBODY, Contact, People, contact_of
from ozzie_server_ext.policy.sources import ANY, SourcePattern
from ozzie_server_ext.policy.targets import amount_in
from ozzie_server_ext.policy.words import said_in

MAX_RULES = 500
MAX_PATTERNS = 100
MAX_PATTERNS_IN_FILE = 2000
"""The number of patterns that a call is compared with before it runs."""
MAX_CONTACTS = 2000
"""Of one kind. They are looked up, not compared one by one, but for those with a `*`."""


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
MAX_PATTERN = 512
"""Characters."""
Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN)]
Patterns = Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=MAX_PATTERNS)]
Contacts = Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=MAX_CONTACTS)]
Command = Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=64)]


class _Text(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AmountText(_Text):
    """A limit for the amounts of a call, such as "50 EUR": up to it, or above it."""

    at_most: Pattern | None = None
    above: Pattern | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.at_most is None) is (self.above is None):
            raise ValueError('takes one of "at_most" and "above"')
        return self


class WhenText(_Text):
    """The conditions of a rule; one that is not stated always holds. `attended`: somebody is there to be asked;
    `spent_today`: what the calls of the day have spent, this one included; `in_contacts`: whom the call names is among
    the file's `contacts`; `in_your_words`: your own words name all that the call names; `in_this_message`: those of the
    message that led to it do, its paths included; `once`: no other call of the tool was made
    for that message; `reads_named`: that message names all that the model has read by name; `new_in_text`: a text of it
    has an address, a link or a long number that no message of yours has; `formulas`: a text of it has what a program
    runs that opens it as a table; `own_data`: it changes your own data alone;
    `sources`: where the content came from that the call is made from; `project`: that very folder, while `projects` are
    those below a folder, too."""

    tools: Patterns | None = None
    side_effects: Annotated[tuple[SideEffect, ...], Field(min_length=1)] | None = None
    categories: tuple[Category, ...] | None = None
    risks: Annotated[tuple[RiskLevel, ...], Field(min_length=1)] | None = None
    channels: Annotated[tuple[Channel, ...], Field(min_length=1)] | None = None
    users: Patterns | None = None
    attended: bool | None = None
    projects: Patterns | None = None
    project: Pattern | None = None
    paths: Patterns | None = None
    hosts: Patterns | None = None
    commands: Annotated[tuple[Command, ...], Field(min_length=1, max_length=MAX_PATTERNS)] | None = None
    recipients: Patterns | None = None
    accounts: Patterns | None = None
    people: Patterns | None = None
    calendars: Patterns | None = None
    chat_channels: Patterns | None = None
    objects: Patterns | None = None
    amount: AmountText | None = None
    spent_today: AmountText | None = None
    in_contacts: bool | None = None
    in_your_words: bool | None = None
    in_this_message: Literal[True] | None = None
    once: bool | None = None
    reads_named: bool | None = None
    new_in_text: bool | None = None
    formulas: bool | None = None
    own_data: bool | None = None
    names_nothing: bool | None = None
    sources: Patterns | None = None


class ExampleText(_Text):
    """A call that a rule must match, or must not. `spent_today`: what was spent on the day before it; `your_words`: a
    message that you have written before it."""

    tool: Pattern
    args: dict[str, Any] = {}
    channel: Channel | None = None
    user: str = ""
    project: str = ""
    attended: bool = True
    sources: Annotated[tuple[Pattern, ...], Field(max_length=MOST_SOURCES)] = ()
    spent_today: Annotated[str, Field(max_length=64)] = ""
    your_words: Annotated[str, Field(max_length=2000)] = ""


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


ContactName = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class ContactText(_Text):
    """What reaches somebody. `people` are their names as services have them. No patterns."""

    recipients: Patterns | None = None
    accounts: Patterns | None = None
    people: Patterns | None = None


class ContactsText(_Text):
    """Those that the author of a file vouches for, all at once. `people` are names as services have them; `named` are
    contacts by the name that the author calls them by."""

    recipients: Contacts | None = None
    accounts: Contacts | None = None
    people: Contacts | None = None
    named: Annotated[dict[ContactName, ContactText], Field(max_length=MAX_CONTACTS)] = {}

    def by_kind(self) -> dict[TargetKind, tuple[str, ...]]:
        """Return the patterns by what they are for, those of contacts with names included."""
        listed = (self, *self.named.values())
        kinds = {
            TargetKind.RECIPIENT: [pattern for each in listed for pattern in each.recipients or ()],
            TargetKind.ACCOUNT: [pattern for each in listed for pattern in each.accounts or ()],
            TargetKind.PERSON: [pattern for each in listed for pattern in each.people or ()],
        }
        return {kind: tuple(patterns) for kind, patterns in kinds.items() if patterns}

    def with_names(self) -> tuple[Contact, ...]:
        """Return the contacts that have names. Raises ValueError with a message for the author."""
        return tuple(
            contact_of(
                name,
                {
                    TargetKind.RECIPIENT: each.recipients or (),
                    TargetKind.ACCOUNT: each.accounts or (),
                    TargetKind.PERSON: each.people or (),
                },
            )
            for name, each in self.named.items()
        )


class PolicyText(_Text):
    """The content of a policy file. A rule sees the contacts of its own file alone. `profile`: whether the classes that
    come with Ozzie count."""

    profile: Literal["everyday", "strict"] = "everyday"
    contacts: ContactsText = ContactsText()
    rules: Annotated[tuple[RuleText, ...], Field(max_length=MAX_RULES)] = ()


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled rule. A CHECK rule both lowers and raises the decision, so it matches twice: `conditions` miss no call
    that is meant, `sure` matches no other. `only_tightens`: from a project; `states_sources`: about outside content;
    `is_class`: it comes with Ozzie, for each tool whose calls are like that (docs/policy.md, Classes)."""

    verdict: Verdict
    tools: Tools | None
    conditions: tuple[Condition, ...]
    sure: tuple[Condition, ...]
    only_tightens: bool = False
    states_sources: bool = False
    is_class: bool = False

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
    stated = (when.tools, when.paths, when.hosts, when.commands, when.recipients, when.accounts, when.people)
    stated += (when.calendars, when.chat_channels, when.objects, when.sources)
    return sum(len(patterns or ()) for patterns in stated)


def patterns_of(contacts: ContactsText) -> int:
    """Return the number of contacts to compare each call with: those that stand for many."""
    return sum(ANY in pattern for patterns in contacts.by_kind().values() for pattern in patterns)


def compile_rule(
    text: RuleText,
    place: str,
    *,
    contacts: conditions.Contacts | None = None,
    only_tightens: bool = False,
    is_class: bool = False,
) -> Rule:
    """Compile a rule that stands at `place` in a file with these contacts. Raises ValueError with a message for its
    author."""
    decision = Decision(text.decision.upper())
    lowers = decision in (Decision.ALLOW, Decision.CHECK)
    tools = Tools(text.when.tools) if text.when.tools else None
    conditions, sure = (
        (*([tools] if tools else []), *_conditions(text.when, contacts, is_sure))
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
        is_class=is_class,
    )


def _mismatch(conditions: tuple[Condition, ...], action: Action) -> str:
    for condition in conditions:
        if why := condition(action):
            return why
    return ""


def _conditions(when: WhenText, contacts: conditions.Contacts | None, sure: bool) -> list[Condition]:
    stated: list[tuple[Any, Callable[[Any], Condition]]] = [
        (when.side_effects, partial(conditions.one_of, "its side effect", lambda action: action.meta.side_effect)),
        (when.categories, partial(conditions.categories, sure=sure)),
        (when.risks, partial(conditions.one_of, "its risk", lambda action: action.meta.risk_level)),
        (when.channels, partial(conditions.one_of, "the channel", lambda action: action.caller.channel)),
        (when.users, partial(conditions.one_of, "the user", lambda action: action.caller.user)),
        (when.attended, conditions.attended),
        (when.projects, conditions.projects),
        (when.project, conditions.project),
        (when.paths, partial(conditions.paths, sure=sure)),
        (when.hosts, partial(conditions.hosts, sure=sure)),
        (when.commands, partial(conditions.commands, sure=sure)),
        (when.recipients, partial(conditions.recipients, sure=sure)),
        (when.accounts, partial(conditions.names, TargetKind.ACCOUNT, sure=sure)),
        (when.people, partial(conditions.names, TargetKind.PERSON, sure=sure)),
        (when.calendars, partial(conditions.names, TargetKind.CALENDAR, sure=sure)),
        (when.chat_channels, partial(conditions.names, TargetKind.CHANNEL, sure=sure)),
        (when.objects, partial(conditions.names, TargetKind.OBJECT, sure=sure)),
        (when.amount and when.amount.at_most, partial(_amounts, above=False, sure=sure)),
        (when.amount and when.amount.above, partial(_amounts, above=True, sure=sure)),
        (when.spent_today and when.spent_today.at_most, partial(_spent, above=False, sure=sure)),
        (when.spent_today and when.spent_today.above, partial(_spent, above=True, sure=sure)),
        (when.in_contacts, partial(_contacts, contacts, sure=sure)),
        (when.in_your_words, partial(conditions.said, sure=sure)),
        (when.in_this_message, lambda _: conditions.in_message(sure=sure)),
        (when.once, conditions.once),
        (when.reads_named, conditions.reads_named),
        (when.new_in_text, conditions.new_in_text),
        (when.formulas, conditions.formulas),
        (when.own_data, conditions.own_data),
        (when.names_nothing, conditions.names_nothing),
        (when.sources, partial(conditions.sources, sure=sure)),
    ]
    return [condition(wanted) for wanted, condition in stated if wanted is not None]


def _amounts(text: str, *, above: bool, sure: bool) -> Condition:
    return conditions.amounts(amount_in(text), above=above, sure=sure)


def _spent(text: str, *, above: bool, sure: bool) -> Condition:
    return conditions.spent_today(amount_in(text), above=above, sure=sure)


def _contacts(contacts: conditions.Contacts | None, wanted: bool, *, sure: bool) -> Condition:
    if contacts is None:
        raise ValueError('it states "in_contacts", and the file has no "contacts"')
    return conditions.in_contacts(contacts, wanted, sure=sure)


def failing_example(rule: Rule, text: RuleText, find: FindTool, people: People = NOBODY) -> str:
    """Return in words the first example that does not hold, or "". Unknown tools, perhaps of a plugin, are skipped.
    `people` are the contacts of the file that have names."""
    examples = [(each, True) for each in text.examples.match] + [(each, False) for each in text.examples.no_match]
    for example, wanted in examples:
        tool = find(example.tool)
        if tool is None:
            continue
        # Otherwise a rule could fail to match a misspelt example for the wrong reason.
        if strangers := sorted(example.args.keys() - _arguments(tool)):
            return f"the example {_shown(example)} names unknown arguments of that tool: {', '.join(strangers)}"
        why = rule.surely(_action(tool.meta, example, people))
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


def _reading(content: Content, your_words: str, people: People) -> Reading:
    own = Words(said_in(your_words, people=people), (your_words,)) if your_words else NO_WORDS
    return Reading(content=content, words=own, message=own)


def _action(meta: ToolMeta, example: ExampleText, people: People) -> Action:
    project = str(folder_named(example.project)) if example.project else ""
    args: Mapping[str, Any] = example.args
    caller = Caller(project=project, channel=example.channel or "", user=example.user, attended=example.attended)
    for source in example.sources:
        SourcePattern.of(source)  # a misspelt one would match for the wrong reason
    content = Content(
        labels=tuple(sorted({each.partition(":")[0] for each in example.sources})), sources=example.sources
    )
    spent = amount_in(example.spent_today) if example.spent_today else None
    return Action.of(
        meta,
        args,
        caller,
        _reading(content, example.your_words, people),
        {} if spent is None else {spent.currency: spent.value},
    )


def _shown(example: ExampleText) -> str:
    args: JsonObject = example.args
    shown = ", ".join(f"{key} {str(value)[:60]!r}" for key, value in args.items())
    return f"{example.tool} with {shown}" if shown else example.tool
