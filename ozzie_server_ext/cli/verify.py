"""`ozzie events verify` and `accept`: they work on the files themselves, whether or not a gateway runs."""

import argparse
import dataclasses
import os

from ozzie_server_ext.cli.asking import agreed
from ozzie_server_ext.cli.output import counted, local_time, print_json
from ozzie_server_ext.config.home import anchor_key_file, find_home
from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.store.anchor import AnchorFiles
from ozzie_server_ext.store.anchoring import accept
from ozzie_server_ext.store.verifier import Verdict, verify_home

_RESTORE = "Restore a backup of the data folder."


def verify(options: argparse.Namespace) -> int:
    """Print whether the log is what was written, and all of it; 0 if it is. Raises OzzieError."""
    verdict = verify_home(_files())
    if options.json:
        print_json(_as_json(verdict))
        return 0 if verdict.ok else 1
    print(_sentence(verdict))
    record = verdict.evidence.record
    for accepted in record.accepted if record else ():
        print(f"Accepted by you on {local_time(accepted.at)} up to event {accepted.position}: {accepted.reason}")
    return 0 if verdict.ok else 1


def accept_log(options: argparse.Namespace) -> int:
    """Anchor the log as it is, after a yes. Raises OzzieError."""
    files = _files()
    verdict = verify_home(files)
    finding = verdict.finding
    if not verdict.chain.ok:
        raise Conflict(
            f"The log was changed after it was written: {verdict.chain.reason} That can't be accepted.", hint=_RESTORE
        )
    if finding is None:
        if options.json:
            print_json({"accepted": None})
        else:
            print("There is nothing to accept: the log is what was anchored.")
        return 0
    end = verdict.chain.head
    facts = (finding.reason, f"From now on, the log counts as whole as it is, with {counted(end.position, 'event')}.")
    if not options.yes and not agreed("Accept it?", about="accept the log as it is", facts=facts):
        print("Nothing was changed.")
        return 1
    accept(files, finding, verdict.evidence, end, verdict.first, SystemClock().now())
    if options.json:
        print_json({"accepted": finding.reason, "position": end.position})
    else:
        print(f"Accepted: {finding.reason}\nThe log is anchored at event {end.position}; {files.record} notes it.")
    return 0


def _files() -> AnchorFiles:
    return AnchorFiles.of(find_home(os.environ), anchor_key_file(os.environ))


def _sentence(verdict: Verdict) -> str:
    chain, finding = verdict.chain, verdict.finding
    if not chain.ok:
        where = f"first bad event {chain.bad_position}. {chain.reason}"
        return f"The log was changed after it was written: {where}\n{_RESTORE}"
    if finding is not None:
        return f"{finding.reason}\n{finding.hint}"
    erased = f", {chain.erased} of them erased" if chain.erased else ""
    return f"The log is what was written: {chain.events:,} events{erased}."


def _as_json(verdict: Verdict) -> dict[str, object]:
    evidence, finding = verdict.evidence, verdict.finding
    return {
        **dataclasses.asdict(verdict.found),
        "hint": finding.hint if finding else "" if verdict.chain.ok else _RESTORE,
        "anchored": evidence.anchor.position if evidence.anchor else None,
        "recorded": evidence.record.position if evidence.record else None,
        "accepted": [dataclasses.asdict(each) for each in evidence.record.accepted] if evidence.record else [],
    }
