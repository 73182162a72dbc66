"""The decision on a call: the strictest rule that applies, above a floor that a rule lowers by naming the tool only.

Pure: the same call, caller and rules always give the same verdict.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Protocol

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, RiskLevel, SideEffect, ToolMeta
from ozzie_server_ext.policy.decision import UNREAD, Action, Caller, Decision, Reading, Verdict
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
"""Effects that are never allowed silently, the gravest first."""
ALWAYS = frozenset({Category.LIVE_KERNEL, Category.HOST_COMMAND, Category.CODE_CELL})
"""What no rule allows unasked, and no model instead of a person."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict, and how it came to be: each rule with why it does not apply, "" where it does; and what the rules had
    said, where a floor stood in the way."""

    verdict: Verdict
    considered: tuple[tuple[Rule, str], ...]
    overruled: Verdict | None = None


def decide(action: Action, rules: tuple[Rule, ...]) -> Verdict:
    """What is to be done with the call. `rules` come in the order of their layers; of equally strict ones, the first
    counts."""
    return explain(action, rules).verdict


def explain(action: Action, rules: tuple[Rule, ...]) -> Explanation:
    """The decision with all that led to it."""
    considered = tuple((rule, rule.mismatch(action)) for rule in rules)
    applying = [rule for rule, why in considered if not why]
    meta = action.meta
    said = [rule.says(action) for rule in applying]
    if all(rule.only_tightens for rule in applying):
        said.append(default_for(meta))  # a project's rules take the place of nothing
    verdict = max(said, key=lambda each: each.strictness)
    lets_out = _lets_out if action.reading.content else _lets_go
    floors = ((floor_of(meta), _reaches_below), (outside(action), _lets_out), (strange(action), lets_out))
    for floor, lowered in floors:
        if floor is None or verdict.decision.rank >= floor.decision.rank:
            continue
        if not any(lowered(rule, meta) for rule in applying):
            return Explanation(floor, considered, overruled=verdict if verdict.place else None)
    return Explanation(verdict, considered)


def denies_always(meta: ToolMeta, caller: Caller, rules: tuple[Rule, ...]) -> bool:
    """Whether a rule denies every call of that tool by that caller, so that it need not be offered at all.

    It is one that denies a call which names nothing and is made from nothing: what states paths, hosts, commands or
    sources applies only where a call has one. Nothing is stricter than it, so no other rule matters."""
    bare = Action(meta=meta, caller=caller)
    return any(rule.verdict.decision is Decision.DENY and not rule.mismatch(bare) for rule in rules)


def default_for(meta: ToolMeta) -> Verdict:
    """What holds where no rule applies. What can be undone runs, unless its risk is medium, as where the
    user's own files change: a project may ask for those."""
    floor = floor_of(meta)
    if floor is not None:
        return floor
    if meta.side_effect is SideEffect.NONE:
        return READ_ONLY
    return REVERSIBLE if meta.risk_level is RiskLevel.LOW else CHANGES


def floor_of(meta: ToolMeta) -> Verdict | None:
    """What is asked for at least, unless a rule names the tool; None where nothing is."""
    for category, reason in _CATEGORIES.items():
        if category in meta.categories:
            return Verdict(decision=Decision.ASK, rule=f"floor.{category}", reason=reason)
    if meta.side_effect is SideEffect.IRREVERSIBLE:
        return IRREVERSIBLE
    return HIGH_RISK if meta.risk_level is RiskLevel.HIGH else None


def outside(action: Action) -> Verdict | None:
    """What is asked for where content from outside may be behind the call: effects, but for those in Ozzie's own store,
    where its labels stay with it, and what leaves this machine. An address that somebody gave to the letter
    carries nothing away."""
    meta, content = action.meta, action.reading.content
    if not content:
        return None
    changes = meta.side_effect is not SideEffect.NONE and not meta.keeps_labels
    sends = meta.is_outbound and not action.given
    if not changes and not sends:
        return None
    return SENDS_OUTSIDE if sends else OUTSIDE


def strange(action: Action) -> Verdict | None:
    """What is asked for where a call leads to an address that nobody gave, or sends out words of the model's own: they
    could carry away what was read."""
    if not action.meta.is_outbound:
        return None
    if action.given:
        return None if all(action.given) else STRANGE
    return SENDS if action.reading.has_read else None


def _reaches_below(rule: Rule, meta: ToolMeta) -> bool:
    return rule.names(meta) and not rule.only_tightens and not meta.categories & ALWAYS


def _lets_go(rule: Rule, meta: ToolMeta) -> bool:
    """Whether it allows that sink. One that states sources speaks of content from outside alone."""
    return _reaches_below(rule, meta) and not rule.states_sources


def _lets_out(rule: Rule, meta: ToolMeta) -> bool:
    """Whether it allows that sink for that source."""
    return _reaches_below(rule, meta) and rule.states_sources


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was decided, and by which version of the rules."""

    verdict: Verdict
    version: str = ""


class Rulings(Protocol):
    """Decides upon calls."""

    async def of(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        """What is to be done with the call of that tool, whose arguments were checked, made from what was read. Where
        something is wrong with the rules, the ruling says so and denies."""
        ...


class FixedRulings:
    """The same rules for ever, of that version; without any, the defaults (docs/policy.md)."""

    def __init__(self, rules: tuple[Rule, ...] = (), version: str = "") -> None:
        self._rules = rules
        self._version = version

    async def of(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        if not self._rules:
            return Ruling(decide(Action.of(meta, args, caller, reading), ()), self._version)
        # A path can be long and the rules many: meanwhile the server goes on.
        verdict = await asyncio.to_thread(lambda: decide(Action.of(meta, args, caller, reading), self._rules))
        return Ruling(verdict, self._version)
