"""`ozzie events verify`, `accept` and `rebuild`, and `ozzie store compact`: they work on the files, with or without a
gateway."""

import argparse
import os

import msgspec

from ozzie_server_ext.cli.terminal import agreed, local_time, print_json, print_result
from ozzie_server_ext.config.home import anchor_key_file, find_home
from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.render.text import byte_count, counted, visible_prose
from ozzie_server_ext.store.anchor import AnchorFiles, accept
from ozzie_server_ext.store.checks import RESTORE, DeepVerdict, Verdict, check_deeply, verify_home
from ozzie_server_ext.store.compacting import compact
from ozzie_server_ext.store.database import forget_tables
from ozzie_server_ext.store.readable_disk import renewal_of


def verify(options: argparse.Namespace) -> int:
    """Verify the log, and with `deep` everything that is stored; return 0 if all is as written.

    Raises OzzieError.
    """
    home, files = find_home(os.environ), _files()
    # Without a log there is nothing to check deeply.
    deep = check_deeply(files, home.blobs) if options.deep and files.database.is_file() else None
    verdict = deep.verdict if deep is not None else verify_home(files)
    ok = verdict.ok and (deep is None or deep.ok)
    if options.json:
        print_json(_as_json(verdict, deep, ok=ok))
        return 0 if ok else 1
    chain, record = verdict.chain, verdict.evidence.record
    erased = f", {chain.erased} of them erased" if chain.erased else ""
    print(verdict.sentence or f"The log is what was written: {chain.events:,} events{erased}.")
    for accepted in record.accepted if record else ():
        print(f"Accepted by you on {local_time(accepted.at)} up to event {accepted.position}: {accepted.reason}")
    if deep is not None:
        _print_deep(deep)
    return 0 if ok else 1


def _print_deep(deep: DeepVerdict) -> None:
    for fault in deep.faults:
        print(visible_prose(str(fault)))
    if deep.note:
        print(deep.note)
    if not deep.faults:
        compared = "" if deep.note else ", and the tables match the log"
        print(f"The database's pages and {counted(deep.blobs, 'blob')} are intact{compared}.")


def rebuild(options: argparse.Namespace) -> int:
    """Have the tables and the readable files rebuilt from the log at the next start. Raises OzzieError."""
    forget_tables(_files().database)
    renewal_of(find_home(os.environ).root).touch(mode=0o600)
    line = "The tables and the readable files are rebuilt from the log at the next start of Ozzie. "
    line += "If it is running, restart it."
    return print_result({"at": "next start"}, line, as_json=options.json)


def compact_store(options: argparse.Namespace) -> int:
    """Move blobs that an earlier Ozzie kept as files into the database; return 1 if some are damaged. Raises
    OzzieError."""
    done = compact(_files().database, find_home(os.environ).blobs)
    became = (
        f"{counted(done.files, 'file')} of {byte_count(done.before)} became {byte_count(done.after)} in the database."
    )
    hint = "It is not what was put there, and stays: see ozzie events verify --deep."
    print_result(
        {"files": done.files, "before": done.before, "after": done.after, "damaged": done.damaged},
        became if done.files else "There is nothing to compact.",
        *(f"{ref}: {hint}" for ref in done.damaged),
        as_json=options.json,
    )
    return 1 if done.damaged else 0


def accept_log(options: argparse.Namespace) -> int:
    """Anchor the log as it is, after confirmation. Raises OzzieError."""
    files = _files()
    verdict = verify_home(files)
    finding = verdict.finding
    if not verdict.chain.ok:
        raise Conflict(
            f"The log was changed after it was written: {verdict.chain.reason} That can't be accepted.", hint=RESTORE
        )
    if finding is None:
        line = "There is nothing to accept: the log is what was anchored."
        return print_result({"accepted": None}, line, as_json=options.json)
    end = verdict.chain.head
    facts = (finding.reason, f"From now on, this log counts as complete, with {counted(end.position, 'event')}.")
    if not options.yes and not agreed("Accept it?", about="accept the log as it is", facts=facts):
        print("Nothing was changed.")
        return 1
    accept(files, finding, verdict.evidence, end, verdict.first, SystemClock().now())
    lines = [
        f"Accepted: {finding.reason}",
        f"The log is anchored at event {end.position}; {files.record} records this.",
    ]
    return print_result({"accepted": finding.reason, "position": end.position}, *lines, as_json=options.json)


def _files() -> AnchorFiles:
    return AnchorFiles.of(find_home(os.environ), anchor_key_file(os.environ))


def _as_json(verdict: Verdict, deep: DeepVerdict | None, *, ok: bool) -> dict[str, object]:
    evidence, finding = verdict.evidence, verdict.finding
    found: dict[str, object] = {
        **msgspec.to_builtins(verdict.found),
        "ok": ok,
        "hint": finding.hint if finding else "" if verdict.chain.ok else RESTORE,
        "anchored": evidence.anchor.position if evidence.anchor else None,
        "recorded": evidence.record.position if evidence.record else None,
        "accepted": [msgspec.to_builtins(each) for each in evidence.record.accepted] if evidence.record else [],
    }
    if deep is not None:
        found["faults"] = [msgspec.to_builtins(fault) for fault in deep.faults]
        found["blobs"], found["note"] = deep.blobs, deep.note
    return found
