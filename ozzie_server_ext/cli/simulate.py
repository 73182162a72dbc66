"""`ozzie policy simulate`: what a file of rules would have decided about the calls in the log. No gateway is needed."""

import argparse
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ozzie_server_ext.cli.terminal import cell, local_time, print_json
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.config.jsonc import content_of
from ozzie_server_ext.domain.clock import moment_in
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.policy.files import load, read
from ozzie_server_ext.policy.rules import Rule
from ozzie_server_ext.render.questions import RULINGS
from ozzie_server_ext.render.text import counted, visible_label, visible_prose, wrapped
from ozzie_server_ext.render.toolrows import called
from ozzie_server_ext.replay.record import opened
from ozzie_server_ext.replay.simulation import Change, Simulation, Simulator
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.cards import redacted
from ozzie_server_ext.tools.registry import ToolRegistry

DAYS = 30
"""How far back the calls go, unless a day is named."""
MOST_SHOWN = 20
"""Calls that are listed one by one."""


def simulate_policy(options: argparse.Namespace) -> int:
    """Print which recorded calls a file of rules would decide differently. It is tried in place of the user's own; the
    system's rules and those of trusted projects count as they are now.

    Raises InputError for no day; ConfigError or JsoncError for a file that is invalid; Unavailable without a log.
    """
    since = datetime.now(UTC) - timedelta(days=DAYS) if options.since is None else _since(options.since)
    home, tried = find_home(os.environ), Path(options.file).absolute()
    registry = ToolRegistry(builtin_tools())

    def rules_of(project: str) -> tuple[Rule, ...]:
        return load(home, Path(project), registry.find, instead=tried).rules

    warnings = read(tried, content_of(tried), registry.find).warnings
    with opened(home) as reading:
        found = Simulator(registry, rules_of).run(reading, since)
    if options.json:
        print_json(_json(found, since))
        return 0
    for warning in warnings:
        print(visible_prose(warning))
    for line in _lines(found, tried, options.since or f"{since.astimezone():%Y-%m-%d}"):
        print(line)
    return 0


def _since(text: str) -> datetime:
    try:
        return moment_in(text)
    except ValueError:
        raise InputError(
            f"{visible_label(text)} is no day.", hint="Write it as in --since 2026-01-31.", code="input.day"
        ) from None


def _lines(found: Simulation, tried: Path, since: str) -> Iterator[str]:
    groups = Counter((each.tool, each.was, each.would.decision.value, _rule(each, tried)) for each in found.changes)
    if groups:
        yield _row("CALLS", "TOOL", "WAS", "WITH THIS FILE", "RULE")
    for (tool, was, would, rule), count in groups.most_common():
        yield _row(f"{count:>5,}", tool, RULINGS[was], RULINGS[would], rule)
    if groups:
        yield ""
    for change in reversed(found.changes[-MOST_SHOWN:]):
        yield f"{local_time(time_text(change.at))}  {change.session_id}  {visible_label(change.title)}"
        yield f"    {called(change.tool, redacted(change.call.requested.args, ()))}: {_how(change)}"
    if len(found.changes) > MOST_SHOWN:
        yield f"These are the newest {MOST_SHOWN} of {len(found.changes):,}; --json has all."
    yield from wrapped(_summary(found, since))
    for tool, calls in sorted(found.unknown.items()):
        yield from wrapped(f"Left out: {counted(calls, 'call')} of {visible_label(tool)}, a tool that is not here.")
    for project, why in found.unread.items():
        yield from wrapped(f"Left out: the calls in {visible_label(project)}. {visible_prose(why)}")
    if found.cut:
        yield from wrapped(f"Left out: what follows something that was erased, in {counted(found.cut, 'session')}.")


def _row(calls: str, tool: str, was: str, would: str, rule: str) -> str:
    return "  ".join([calls, cell(tool, 16), cell(was, 16), cell(would, 16), visible_label(rule)]).rstrip()


def _how(change: Change) -> str:
    return f"{RULINGS[change.would.decision.value]}. {visible_prose(change.would.reason)}"


def _rule(change: Change, tried: Path) -> str:
    """The rule and its line, with the file if it is another one than the one that is tried."""
    place = change.would.place
    return f"{change.would.rule} ({place.removeprefix(f'{tried}, ')})" if place else change.would.rule


def _summary(found: Simulation, since: str) -> str:
    if not found.calls:
        return f"No call has been decided since {since}."
    of = f"{counted(found.calls, 'call')} of {counted(found.sessions, 'session')} since {since}"
    if not found.changes:
        return f"All decisions stay the same: {of}."
    return f"Of {of}, {len(found.changes):,} would be decided differently."


def _json(found: Simulation, since: datetime) -> JsonObject:
    return {
        "since": time_text(since),
        "calls": found.calls,
        "sessions": found.sessions,
        "changes": [_change(each) for each in found.changes],
        "unknown_tools": dict(found.unknown),
        "unread_projects": dict(found.unread),
        "cut_sessions": found.cut,
    }


def _change(change: Change) -> JsonObject:
    decided, would = change.call.decided, change.would
    return {
        "at": time_text(change.at),
        "session_id": change.session_id,
        "title": change.title,
        "task_id": change.call.task_id,
        "call_id": decided.call_id,
        "tool": change.tool,
        "args": redacted(change.call.requested.args, ()),
        "project": change.call.caller.project,
        "sources": list(change.call.reading.content.sources),
        "was": {"decision": decided.decision, "rule": decided.rule, "reason": decided.reason, "place": decided.place},
        "would": {
            "decision": would.decision.value,
            "rule": would.rule,
            "reason": would.reason,
            "place": would.place,
        },
    }
