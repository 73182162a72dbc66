"""What the rules say to a call: ALLOW < CHECK < ASK < DENY, the strictest wins (S4 §8.6.1, ADR 29)."""

from dataclasses import dataclass
from enum import StrEnum

from ozzie_server_ext.domain.approvals import Way
from ozzie_server_ext.render.text import inside


class Decision(StrEnum):
    """CHECK: a second model may say yes; where it does not, it is an ASK."""

    ALLOW = "ALLOW"
    CHECK = "CHECK"
    ASK = "ASK"
    DENY = "DENY"

    @property
    def rank(self) -> int:
        """How strict it is; more is stricter."""
        return _RANKS[self]


_RANKS = {decision: rank for rank, decision in enumerate(Decision)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision, the rule that made it, and its reason, a sentence for people. `place` names file and line of a rule
    that stands in a file; it is empty for one of Ozzie's own. `needs`: the weakest way that a yes may come by, where a
    rule wants one that the tool's contract does not."""

    decision: Decision
    rule: str
    reason: str
    place: str = ""
    needs: Way = Way.MODEL

    @property
    def strictness(self) -> tuple[int, int]:
        """Of two verdicts, the one that counts has more."""
        return self.decision.rank, self.needs.strength

    @property
    def refusal(self) -> str:
        """Why the call does not run, where it is refused (UX §10, string 14)."""
        where = f" Rule {self.rule} in {self.place}." if self.place else ""
        return f"Not allowed: {inside(self.reason)}.{where}"
