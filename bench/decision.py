"""What a decision costs under many rules: a call that names a hundred recipients, or a hundred files, against 200 rules
with five patterns each. Either a tenth of them speak of its tool, or all: then none may be skipped.

The same call is decided again and again, so its addresses have been read before, as by a call's second decision.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.result import Result, emit
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import Category, Idempotency, RiskLevel, SideEffect, Target, TargetKind, ToolMeta
from ozzie_server_ext.policy.decision import Action, Caller
from ozzie_server_ext.policy.engine import decide
from ozzie_server_ext.policy.files import read
from ozzie_server_ext.policy.rules import Rule
from ozzie_server_ext.protocol.jsontext import dumps

CALLS = 1000
WARM = 50
RULES = 200
TARGETS = 100
MOST_US = 1000
"""The target: a decision is not felt beside the two appends of a call."""
_MAIL = ToolMeta(
    tool_id="mail.send",
    name="send_mail",
    side_effect=SideEffect.IRREVERSIBLE,
    risk_level=RiskLevel.MEDIUM,
    timeout_s=5,
    idempotency=Idempotency.NOT_SUPPORTED,
    categories=frozenset({Category.EXTERNAL_SEND}),
    targets=(Target("to", TargetKind.RECIPIENT), Target("files", TargetKind.PATH)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    calls = parser.parse_args().calls
    to: list[Json] = [f"Person {n} <p{n}@firm{n % 5}.example>" for n in range(TARGETS)]
    files: list[Json] = [f"data/{n % 10}/part{n}.csv" for n in range(TARGETS)]
    emit(
        [
            _row("recipients", {"to": to}, _rules("recipients", _addresses, tools=10), "a tenth of its tool", calls),
            _row("recipients", {"to": to}, _rules("recipients", _addresses, tools=1), "all of its tool", calls),
            _row("files", {"files": files}, _rules("paths", _files, tools=10), "a tenth of its tool", calls),
            _row("files", {"files": files}, _rules("paths", _files, tools=1), "all of its tool", calls),
        ]
    )


def _addresses(rule: int) -> list[Json]:
    """Of an allowed rule all that the call names and others; of the others none that it names."""
    if rule % 2:
        return [f"*@firm{n}.example" for n in range(5)]
    return [f"*@*.bad{rule}.example", f"*@bad{rule}.example", *(f"x{n}@other{rule}.example" for n in range(3))]


def _files(rule: int) -> list[Json]:
    if rule % 2:
        return [*(f"notes{rule}/{n}/**" for n in range(4)), "data/**"]
    return [f"private{rule}/**", *(f"**/secret{rule}-{n}*" for n in range(4))]


def _rules(condition: str, patterns: Callable[[int], list[Json]], *, tools: int) -> tuple[Rule, ...]:
    """Rules that allow and deny in turns, for that many tools, of which the call's is one. The examples are of a tool
    that is not here, and so are not tried."""
    rules: list[Json] = [
        {
            "id": f"r{number}",
            "decision": "allow" if number % 2 else "deny",
            "reason": "It is so.",
            "when": {
                "tools": [_MAIL.tool_id if number // 2 % tools == 0 else "a.stranger"],
                condition: patterns(number),
            },
            "examples": {"match": [{"tool": "nobody.knows"}]},
        }
        for number in range(RULES)
    ]
    return read(Path("/rules.jsonc"), dumps({"rules": rules}).encode(), lambda name: None).rules


def _row(what: str, args: JsonObject, rules: tuple[Rule, ...], of_them: str, calls: int) -> Result:
    times: list[float] = []
    for number in range(WARM + calls):
        began = time.perf_counter()
        verdict = decide(Action.of(_MAIL, args, Caller(project="/work")), rules)
        if number >= WARM:
            times.append((time.perf_counter() - began) * 1e6)
        assert verdict.rule == "r1", "the first of those that allow it"
    p99 = _p99(times)
    return Result(
        name=f"a decision on a call that names {TARGETS} {what}, {RULES} rules, {of_them}, p99",
        ours=round(p99),
        against=None,
        ratio=None,
        unit="us",
        target=f"<= {MOST_US} us",
        met=p99 <= MOST_US,
        note=f"p50 {round(statistics.median(times))} us; one recipient and no rule: {_least(calls):.0f} us",
    )


def _least(calls: int) -> float:
    """The median of a decision on one recipient without rules, in microseconds: the floor."""
    times: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        decide(Action.of(_MAIL, {"to": ["a@firm.example"]}, Caller(project="/work")), ())
        times.append((time.perf_counter() - began) * 1e6)
    return statistics.median(times)


def _p99(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


if __name__ == "__main__":
    main()
