"""`ozzie artifacts`: list, show, save and erase artifacts."""

import argparse
import base64
import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from ozzie_server_ext.cli.http import Answered, Object, delete, expect_id, get, get_bytes, items
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.cli.terminal import agreed, cell, local_time, print_json, print_result
from ozzie_server_ext.domain.disk import write_new
from ozzie_server_ext.domain.errors import Gone, InputError, Unavailable
from ozzie_server_ext.render.text import byte_count, cut_columns, visible_label, visible_prose


def list_artifacts(options: argparse.Namespace) -> int:
    """Print the newest artifacts. Raises NotRunning, or Answered."""
    session_id = find_session(options.session)["id"] if options.session else None
    if options.task:
        expect_id(options.task, "task")
    found = list(
        items("artifacts", options.limit, session_id=session_id, task_id=options.task, kind=options.kind or None)
    )
    if options.json:
        print_json(found)
        return 0
    if not found:
        print("No artifacts. Files and long outputs that Ozzie makes appear here.")
    for artifact in found:
        size = "erased" if artifact["erased"] else byte_count(artifact["size"])
        version = f"v{artifact['version']}"
        print(
            f"{artifact['artifact_id']}  {cell(artifact['kind'], 8)}  {cell(size, 9)}  {cell(version, 4)}  "
            f"{cell(artifact['name'], 25)}".rstrip()
        )
    return 0


def show_artifact(options: argparse.Namespace) -> int:
    """Print an artifact's facts. Raises NotRunning, NotFound."""
    artifact = _artifact(options.artifact_id)
    if options.json:
        print_json(artifact)
        return 0
    further = {"sha256": artifact["hash"], "outside": ", ".join(artifact["labels"]), "erased": _erased_note(artifact)}
    print(cell(artifact["name"], 70).rstrip())
    print(*_lines({**_facts(artifact), **further}), sep="\n")
    return 0


def get_artifact(options: argparse.Namespace) -> int:
    """Print the content of an artifact, or write it into a new file. Raises NotRunning, NotFound, Gone if it was
    erased, Conflict if the file exists, Unavailable if it can't be written or the content does not match its hash,
    InputError if a terminal can't show it."""
    artifact = _artifact(options.artifact_id)
    _expect_there(artifact)
    content = get_bytes(f"artifacts/{options.artifact_id}/content")
    if hashlib.sha256(content).hexdigest() != artifact["hash"]:
        raise Unavailable(
            f"The content received is not artifact {options.artifact_id}: its SHA-256 does not match.",
            hint="Something else may be answering instead of the gateway. Try again.",
        )
    if options.output:
        path = Path(options.output).absolute()
        write_new(path, content)
        saved = {"artifact_id": options.artifact_id, "file": str(path), "size": len(content)}
        return print_result(saved, f"{byte_count(len(content))} written to {path}.", as_json=options.json)
    if options.json:
        print_json({"artifact_id": options.artifact_id, "base64": base64.b64encode(content).decode()})
    elif not sys.stdout.isatty():
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    elif artifact["mime"].startswith("text/") or artifact["mime"] == "application/json":
        print(visible_prose(content.decode("utf-8", "replace")))
    else:
        raise InputError(
            f"A terminal can't show {visible_label(artifact['mime'])}.", hint="Write it into a file: --output FILE"
        )
    return 0


def erase_artifact(options: argparse.Namespace) -> int:
    """Erase the content of an artifact, after asking back. Raises NotRunning, NotFound, Gone, Misused without a
    terminal to ask at, or Answered if it is still needed."""
    artifact = _artifact(options.artifact_id)
    _expect_there(artifact)
    name, size = visible_label(artifact["name"]), byte_count(artifact["size"])
    question = f"Erase {name}, version {artifact['version']}, {size}? It can't be undone."
    if not options.yes and not agreed(question, about="erase it", facts=_lines(_facts(artifact))):
        print("Nothing was erased.", file=sys.stderr)
        return 1
    delete(f"artifacts/{options.artifact_id}")
    return print_result({"erased": options.artifact_id}, f"{name} is erased.", as_json=options.json)


def _facts(artifact: Object) -> dict[str, str]:
    """Return what the artifact is and where it came from, for recognising it when the name is not enough."""
    newer, task_id, call_id = artifact["superseded_by"], artifact["task_id"], artifact["call_id"]
    task = _task(task_id) if task_id else None
    calls = {step["call_id"]: step["name"] for step in task["steps"]} if task else {}
    return {
        "artifact": artifact["artifact_id"],
        "kind": f"{artifact['kind']}, {artifact['mime']}, {byte_count(artifact['size'])}",
        "version": f"{artifact['version']}, the next is {newer}" if newer else str(artifact["version"]),
        "made": local_time(artifact["ts"], "%Y-%m-%d %H:%M:%S"),
        "session": artifact["session_id"] or "",
        "task": ", ".join(filter(None, [task_id, cut_columns(visible_label(task["title"]), 40) if task else ""])),
        "call": ", ".join(filter(None, [call_id, calls.get(call_id, "")])),
    }


def _task(task_id: str) -> Object | None:
    """Return the artifact's task, or None if the gateway does not know it."""
    try:
        return get(f"tasks/{task_id}")
    except Answered:
        return None


def _lines(facts: Mapping[str, str]) -> Iterator[str]:
    for name, value in facts.items():
        if value:
            yield f"  {name:<8}  {visible_label(value)}"


def _expect_there(artifact: Object) -> None:
    if artifact.get("erased"):
        raise Gone(f"{visible_label(artifact['name'])} has no content any more. {_erased_note(artifact)}")


def _erased_note(artifact: Object) -> str:
    return visible_label(artifact["erased"]["told"]) if artifact["erased"] else ""


def _artifact(artifact_id: str) -> Object:
    expect_id(artifact_id, "artifact")
    return get(f"artifacts/{artifact_id}")
