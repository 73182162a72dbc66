"""`ozzie sessions export`, `verify` and `key`: sessions as files, and the proof that these are as recorded."""

import argparse
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from ozzie_server_ext.cli.http import get_bytes
from ozzie_server_ext.cli.sessions import EXPORTING_S, find_session
from ozzie_server_ext.cli.terminal import local_time, print_json, print_result
from ozzie_server_ext.config.home import anchor_key_file, find_home
from ozzie_server_ext.domain.disk import write_new
from ozzie_server_ext.domain.errors import InputError, NotFound, Unavailable
from ozzie_server_ext.domain.exports import form_of
from ozzie_server_ext.export.checking import Check, check
from ozzie_server_ext.export.proof import MAX_BYTES, Finding, read_export
from ozzie_server_ext.export.signing import expect_key, is_key, public_key, signing_key
from ozzie_server_ext.render.text import byte_count, counted, visible_label
from ozzie_server_ext.store.anchor import read_key

_NAMES = 200
"""Characters of names in a list."""
_SIGNATURES = {
    "unknown": "It is signed with a key that you have not named. With --key and the key that its author gave you, it "
    "can be told whether it is theirs.",
    "bad": "The proof in the file was changed after it was signed: nothing in it can be relied on.",
    "missing": "The proof is not signed: anybody could have written it.",
}


def export_session(options: argparse.Namespace) -> int:
    """Write a session into a new file. Raises as `find_session` does; InputError for another ending; Conflict if the
    file exists; Unavailable if it can't be written."""
    form = form_of(options.to)
    session = find_session(options.session)
    content = get_bytes(f"sessions/{session['id']}/export?form={form}", timeout_s=EXPORTING_S)
    path = Path(options.to).absolute()
    write_new(path, content)
    done = {"session": session["id"], "file": str(path), "size": len(content)}
    return print_result(done, f"{byte_count(len(content))} written to {path}.", as_json=options.json)


def print_public_key(options: argparse.Namespace) -> int:
    """Print the public key of this home's exports. Raises NotFound before there is one, Unavailable."""
    key = _own_key()
    if not key:
        raise NotFound("There is no key yet.", hint="It is made when Ozzie starts for the first time.")
    return print_result({"key": key}, key, as_json=options.json)


def verify_export(options: argparse.Namespace) -> int:
    """Check an exported file; return 0 if all is as recorded. Raises InputError for a file without a proof, and what
    `check` raises."""
    path = Path(options.file)
    export = read_export(_read(path))
    found = check(export, _trusted(options.key), find_home(os.environ).database)
    if options.json:
        _print_as_json(found)
        return 0 if found.ok else 1
    noun = "cell" if export.kind == "notebook" else "line"
    print(f"{visible_label(path.name)}: the session {found.proof.session}")
    print(f"exported on {local_time(found.proof.at)}, up to event {found.proof.head:,}.")
    if found.signature == "trusted":
        print(
            "It is signed with the key that you named."
            if options.key is not None
            else "It is signed with the key of this home."
        )
    else:
        print(_SIGNATURES[found.signature])
    if found.log == "other":
        print("The log of this home is another one, so it can't be told what was erased since.")
    if found.further:
        names = visible_label(", ".join(found.further))[:_NAMES]
        print(f"The notebook has further metadata, which may have it shown in another way: {names}.")
    for line in _lines(found.findings, noun):
        print(line)
    print(_summary(found, noun))
    return 0 if found.ok else 1


def _print_as_json(found: Check) -> None:
    proof = msgspec.to_builtins(found.proof)
    head = {name: proof[name] for name in ("kind", "session", "log", "head", "at", "version", "key")}
    cells = [
        {
            "number": each.number,
            "was": None if each.item is None else each.item + 1,
            "verdict": each.verdict,
            "note": each.note,
            "further": [*each.further],
        }
        for each in found.findings
    ]
    print_json(
        {
            "ok": found.ok,
            "signature": found.signature,
            "log_at_hand": found.log,
            "further": [*found.further],
            "proof": head,
            "cells": cells,
        }
    )


def _lines(findings: Sequence[Finding], noun: str) -> Iterator[str]:
    """Yield a line for each cell; those of the same verdict that follow each other share one."""
    for (verdict, note, is_there), group in groupby(
        findings, lambda each: (each.verdict, each.note, each.number is not None)
    ):
        same = list(group)
        numbers = "-"
        if is_there:
            numbers = f"{same[0].number}" if len(same) == 1 else f"{same[0].number}-{same[-1].number}"
        for shown in [numbers] if is_there else ["-"] * len(same):
            yield f"  {noun} {shown:>9}  {verdict}{f': {note}' if note else ''}"


def _summary(found: Check, noun: str) -> str:
    there = [each for each in found.findings if each.number is not None]
    right = sum(each.is_as_it_was for each in there)
    missing = len(found.findings) - len(there)
    lost = f", and {counted(missing, noun)} {'is' if missing == 1 else 'are'} missing" if missing else ""
    what = f"{right:,} of {counted(len(there), noun)} {'is' if len(there) == 1 else 'are'} as exported{lost}."
    return what if found.signature == "trusted" else f"{what} By whom is not proven."


def _trusted(given: str | None) -> list[str]:
    """Return the keys that count: the one that was named, as text or as a file with it, else that of this home."""
    if given is None:
        return list(filter(None, [_own_key()]))
    if is_key(given) or not _is_file(given):  # a key first: whoever sends a file may send one with that name
        return [expect_key(given)]
    return [expect_key(_read(Path(given))[:1000].decode(errors="replace"))]


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long, or with characters that no name has
        return False


def _own_key() -> str:
    key = read_key(anchor_key_file(os.environ))
    return "" if key is None else public_key(signing_key(key))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unavailable(
            f"{path} can't be read: {error.strerror or error}.", hint="Check its name and whose it is."
        ) from None
    if len(content) > MAX_BYTES:
        raise InputError(f"{path} is larger than {byte_count(MAX_BYTES)}.", hint="Exports are smaller.")
    return content
