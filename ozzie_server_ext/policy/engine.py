"""Decides on a call: the strictest matching rule wins, but a floor may still ask first. A rule that names the tool
overrules most floors.

Pure: the same call, caller, reading and rules give the same verdict.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, RiskLevel, SideEffect, ToolMeta
from ozzie_server_ext.policy.conditions import Contacts
from ozzie_server_ext.policy.decision import UNREAD, Action, Caller, Decision, Reading, Spent, Verdict
from ozzie_server_ext.policy.rules import Rule

READ_ONLY = Verdict(decision=Decision.ALLOW, rule="default.read_only", reason="It changes nothing.")
REVERSIBLE = Verdict(decision=Decision.ALLOW, rule="default.reversible", reason="It can be undone.")
CHANGES = Verdict(decision=Decision.ASK, rule="default.changes", reason="It changes something of yours.")
IRREVERSIBLE = Verdict(decision=Decision.ASK, rule="floor.irreversible", reason="It can't be undone.")
HIGH_RISK = Verdict(decision=Decision.ASK, rule="floor.high_risk", reason="Its risk is high.")
OUTSIDE = Verdict(decision=Decision.ASK, rule="floor.outside", reason="Content from outside may be behind it.")
SENDS_OUTSIDE = replace(OUTSIDE, reason="It sends something out, and content from outside may be behind it.")
STRANGE = Verdict(
    decision=Decision.ASK,
    rule="floor.address",
    reason="Neither you nor a page gave this address, which could carry away what was read.",
)
UNCLASSIFIED = Verdict(
    decision=Decision.DENY, rule="floor.unclassified", reason="Nobody has said yet what this tool does."
)
ASKED_BY_SKILL = Verdict(
    decision=Decision.ASK, rule="skill.asks_first", reason="The skill that is run wants your yes for it."
)
SENDS = replace(STRANGE, reason="It sends something out, which could carry away what was read.")

_CATEGORIES = {
    Category.LIVE_KERNEL: "It runs code in a live kernel, which can do all that you can.",
    Category.HOST_COMMAND: "It runs a command on this machine, which can do all that you can.",
    Category.CODE_CELL: "It writes code into a notebook, which can do all that you can once it is run.",
    Category.PAYMENT: "It pays.",
    Category.DELETE: "It deletes.",
    Category.EXTERNAL_SEND: "It sends something out.",
    Category.CONFIG_CHANGE: "It changes a configuration.",
}
"""Effects that ask unless a rule names the tool (those of `ALWAYS_ASK` even then), most serious first."""
ALWAYS_ASK = frozenset({Category.LIVE_KERNEL, Category.HOST_COMMAND, Category.CODE_CELL})
"""Effects that always need a person's approval: no rule allows them, and no model approves them."""


class Explanation(msgspec.Struct, frozen=True):
    """A verdict, why each rule does not apply ("" if it does), and the rules' own verdict if a floor overruled it."""

    verdict: Verdict
    considered: tuple[tuple[Rule, str], ...]
    overruled: Verdict | None = None


def decide(action: Action, rules: tuple[Rule, ...]) -> Verdict:
    """Decide on a call. `rules` come in the order of their layers; of equally strict ones, the first counts."""
    return explain(action, rules).verdict


def explain(action: Action, rules: tuple[Rule, ...]) -> Explanation:
    """Decide, and return everything that led to the decision."""
    if action.meta.is_unclassified:  # no rule can mean a tool of which nobody knows what it does
        return Explanation(UNCLASSIFIED, ())
    considered = tuple((rule, rule.mismatch(action)) for rule in rules)
    applying = [rule for rule, why in considered if not why]
    meta = action.meta
    verdicts = [rule.says(action) for rule in applying]
    if all(rule.only_tightens for rule in applying):
        verdicts.append(default_for(meta))  # no rule applies, or only a project's, which replace nothing
    verdict = max(verdicts, key=lambda each: each.strictness)
    floors = (
        (effect_floor(meta), _may_lower_effect),
        (source_floor(action), _may_lower_source),
        (address_floor(action), _may_lower_outside_address if action.reading.content else _may_lower_address),
    )
    for floor, lowered in floors:
        if floor is None or verdict.decision.rank >= floor.decision.rank:
            continue
        if not any(lowered(rule, meta) for rule in applying):
            return Explanation(floor, considered, overruled=verdict if verdict.place else None)
    return Explanation(verdict, considered)


def denies_always(meta: ToolMeta, caller: Caller, rules: tuple[Rule, ...]) -> bool:
    """Whether a rule denies every call of the tool by this caller, so that it need not be offered.

    Such a rule denies a call that names nothing and is made from nothing: conditions on paths, hosts, commands or
    sources hold only for calls that have some. Nothing is stricter, so no other rule matters.
    """
    bare = Action(meta=meta, caller=caller)
    return any(rule.verdict.decision is Decision.DENY and not rule.mismatch(bare) for rule in rules)


def default_for(meta: ToolMeta) -> Verdict:
    """Return the verdict if no rule applies. Reversible effects run unless their risk is medium, as for changes of the
    user's own files: a project may ask for those."""
    floor = effect_floor(meta)
    if floor is not None:
        return floor
    if meta.side_effect is SideEffect.NONE:
        return READ_ONLY
    return REVERSIBLE if meta.risk_level is RiskLevel.LOW else CHANGES


def effect_floor(meta: ToolMeta) -> Verdict | None:
    """Return the floor of the tool's effects: the verdict that a call gets at least, unless a rule of the user's names
    the tool, which counts for all but ALWAYS_ASK. None if there is none."""
    for category, reason in _CATEGORIES.items():
        if category in meta.categories:
            return Verdict(decision=Decision.ASK, rule=f"floor.{category}", reason=reason)
    if meta.side_effect is SideEffect.IRREVERSIBLE:
        return IRREVERSIBLE
    return HIGH_RISK if meta.risk_level is RiskLevel.HIGH else None


def source_floor(action: Action) -> Verdict | None:
    """Return the floor of a call that outside content may be behind. It is to ask before effects (except
    in Ozzie's own store, where labels are kept), and before anything leaves this machine. A literally given address
    leaks nothing."""
    meta, content = action.meta, action.reading.content
    if not content:
        return None
    changes = meta.side_effect is not SideEffect.NONE and not meta.keeps_labels
    sends = meta.is_outbound and not action.given
    if not changes and not sends:
        return None
    return SENDS_OUTSIDE if sends else OUTSIDE


def address_floor(action: Action) -> Verdict | None:
    """Return the floor of an address that nobody gave, or that has the model's own words: both could
    leak data."""
    if not action.meta.is_outbound:
        return None
    if action.given:
        return None if all(action.given) else SENDS if action.meta.typed else STRANGE
    return SENDS if action.reading.has_read else None


def _may_lower_effect(rule: Rule, meta: ToolMeta) -> bool:
    """Whether a rule that applies overrules the floor of the tool's effects."""
    is_meant = rule.is_class or (rule.names(meta) and not rule.only_tightens)
    return is_meant and not meta.categories & ALWAYS_ASK


def _may_lower_address(rule: Rule, meta: ToolMeta) -> bool:
    """Whether a rule that applies overrules the floor of the address. One that states sources is only about outside
    content, and no class is about addresses."""
    return _may_lower_effect(rule, meta) and not rule.states_sources and not rule.is_class


def _may_lower_source(rule: Rule, meta: ToolMeta) -> bool:
    """Whether a rule that applies overrules the floor of outside content: it has to state the sources, or is a class,
    which says what outside content may not decide."""
    return _may_lower_effect(rule, meta) and (rule.states_sources or rule.is_class)


def _may_lower_outside_address(rule: Rule, meta: ToolMeta) -> bool:
    """The same for an address, of which no class speaks."""
    return _may_lower_source(rule, meta) and not rule.is_class


def tightened(verdict: Verdict, *, is_outside: bool, asks_first: bool) -> Verdict:
    """Return the verdict of the rules, made stricter for this call. Outside content may speak to a model, so such a
    call goes to a person, not a second model. A skill's `asks_first` turns a yes into a question; a no stays a no."""
    if verdict.decision is Decision.CHECK and is_outside:
        return replace(verdict, decision=Decision.ASK)
    if verdict.decision in (Decision.ALLOW, Decision.CHECK) and asks_first:
        return ASKED_BY_SKILL
    return verdict


class Ruling(msgspec.Struct, frozen=True):
    """A verdict, the version of the rules that gave it, what had been spent that day, if the call has amounts, and whom
    the user vouches for. `asking` is the version that a yes is for: a rule that a person makes on one card must not
    void the yes to another."""

    verdict: Verdict
    version: str = ""
    spent: Spent = {}
    asking: str = ""
    contacts: tuple[Contacts, ...] = ()


class Rulings(Protocol):
    """Decides on calls."""

    async def of(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        """Return the ruling on a call with checked arguments. If the rules are broken, it denies and says so."""
        ...

    def deciding(self, meta: ToolMeta) -> AbstractAsyncContextManager[object]:
        """Hold back other calls whose decision depends on this one, until its start is recorded; by default none."""
        return nullcontext()


class FixedRulings(Rulings):
    """Constant rules of one version; without any, the defaults (docs/policy.md). `tasks.spent.SpentToday` makes one
    for each call, from the rules that count then (`tasks.rules.RulesInForce`)."""

    def __init__(self, rules: tuple[Rule, ...] = (), version: str = "", spent: Spent | None = None) -> None:
        self._rules = rules
        self._version = version
        self._spent = spent or {}

    async def of(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        if meta.side_effect is SideEffect.NONE and all(rule.is_class for rule in self._rules):
            here = decide(Action.of(meta, args, caller, reading, self._spent), self._rules)
            return Ruling(here, self._version, self._spent, self._version)
        # Long paths, many rules and all that was read take time: keep the event loop free.
        verdict = await asyncio.to_thread(
            lambda: decide(Action.of(meta, args, caller, reading, self._spent), self._rules)
        )
        return Ruling(verdict, self._version, self._spent, self._version)
