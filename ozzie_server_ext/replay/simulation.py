"""What other rules would have decided about the calls that the log has (`ozzie policy simulate`, docs/policy.md).

The log alone is read: no tool is called, and no rule in force is changed. Only the rules and Ozzie's own floors decide
again. A tool's contract is the present one, with what the plan of the call added.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.policy.decision import Action, Verdict
from ozzie_server_ext.policy.engine import decide, tightened
from ozzie_server_ext.policy.rules import Rule
from ozzie_server_ext.replay.decisions import Decided, Decisions
from ozzie_server_ext.replay.record import Reading
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.tasks.spent import spent_of
from ozzie_server_ext.tools.registry import ToolRegistry


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A call that would be decided differently, and how."""

    session_id: SessionId
    title: str
    call: Decided
    would: Verdict

    @property
    def at(self) -> datetime:
        return self.call.at

    @property
    def tool(self) -> str:
        return self.call.requested.name

    @property
    def was(self) -> str:
        return self.call.decided.decision


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: how many calls of how many sessions were decided again, and which would be decided differently.
    Left out are the calls of tools that are not here (`unknown`, by name), those in projects whose rules can't be read
    (`unread`, with the reason), and in `cut` sessions those after something that was erased."""

    calls: int
    sessions: int
    changes: tuple[Change, ...]
    unknown: Mapping[str, int]
    unread: Mapping[str, str]
    cut: int


class Simulator:
    """Decides again by the rules that are tried."""

    def __init__(self, registry: ToolRegistry, rules_of: Callable[[str], tuple[Rule, ...]]) -> None:
        """`rules_of` returns the rules of calls in a project folder; it may raise OzzieError, and then these calls are
        left out."""
        self._registry = registry
        self._rules_of = rules_of
        self._rules: dict[str, tuple[Rule, ...]] = {}
        self._unread: dict[str, str] = {}

    def run(self, reading: Reading, since: datetime) -> Simulation:
        """Decide again about all calls since a moment. Raises DamagedStore."""
        decisions = Decisions(self._registry)
        changes: list[Change] = []
        sessions: set[SessionId] = set()
        calls = cut = 0
        for row in reading.touched(time_text(since)):
            session_id = SessionId(str(row["session_id"]))
            record = reading.record(session_id)
            cut += record.missing is not None
            for call in decisions.of(record, reading.tasks(session_id), since):
                rules = self._rules_in(call.caller.project)
                if rules is None:
                    continue
                calls += 1
                sessions.add(session_id)
                would = _verdict(call, rules)
                if would.decision.value != call.decided.decision:
                    changes.append(Change(session_id=session_id, title=str(row["title"]), call=call, would=would))
        return Simulation(
            calls=calls,
            sessions=len(sessions),
            changes=tuple(sorted(changes, key=lambda change: change.at)),
            unknown=decisions.unknown,
            unread=self._unread,
            cut=cut,
        )

    def _rules_in(self, project: str) -> tuple[Rule, ...] | None:
        if project not in self._rules and project not in self._unread:
            try:
                self._rules[project] = self._rules_of(project)
            except OzzieError as error:
                self._unread[project] = " ".join(filter(None, [str(error), error.hint]))
        return self._rules.get(project)


def _verdict(call: Decided, rules: tuple[Rule, ...]) -> Verdict:
    action = Action.of(call.meta, call.requested.args, call.caller, call.reading, spent_of(call.decided.spent))
    return tightened(decide(action, rules), is_outside=bool(call.reading.content), asks_first=call.asks_first)
