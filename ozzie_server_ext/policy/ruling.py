"""The port by which calls are decided upon, and the simplest way to fill it: rules that stay as they are."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.action import Action, Caller
from ozzie_server_ext.policy.decision import Verdict
from ozzie_server_ext.policy.engine import decide
from ozzie_server_ext.policy.reading import UNREAD, Reading
from ozzie_server_ext.policy.rules import Rule


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
    """The same rules for ever, of that version; without any, the defaults of S4 §8.6.2."""

    def __init__(self, rules: tuple[Rule, ...] = (), version: str = "") -> None:
        self._rules = rules
        self._version = version

    async def of(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        if not self._rules:
            return Ruling(decide(Action.of(meta, args, caller, reading), ()), self._version)
        # A path can be long and the rules many: meanwhile the server goes on (THREATS 17).
        verdict = await asyncio.to_thread(lambda: decide(Action.of(meta, args, caller, reading), self._rules))
        return Ruling(verdict, self._version)
