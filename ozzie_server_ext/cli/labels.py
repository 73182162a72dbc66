"""`ozzie labels`: which content of a session or file came from outside, and removing that label."""

import argparse

from ozzie_server_ext.cli.http import Object, get, post
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.cli.terminal import named_folder, print_json
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.render.text import visible_label


def show_labels(options: argparse.Namespace) -> int:
    """Print the outside sources that a session has read. Raises as `find_session` does."""
    session = find_session(options.session)
    found = get(f"sessions/{session['id']}/labels")
    if options.json:
        print_json(found)
        return 0
    if not found["labels"]:
        print("Nothing that this session has read came from outside.")
        return 0
    print(*(f"  {visible_label(source)}" for source in _sources(found)), sep="\n")
    print(f"Calls that may use that content ask first. If you trust it: ozzie labels clear {session['id']}")
    return 0


def list_files(options: argparse.Namespace) -> int:
    """Print the project's files that were made from outside content. Raises NotRunning."""
    found = get("labels", project=named_folder(options))
    if options.json:
        print_json(found["items"])
        return 0
    for file in found["items"]:
        print(f"{visible_label(file['path'])}  {', '.join(map(visible_label, _sources(file)))}")
    print(
        "Calls that follow from reading one of them ask first. If you trust it: ozzie labels clear --file PATH"
        if found["items"]
        else "No file here was made from outside content."
    )
    return 0


def clear_labels(options: argparse.Namespace) -> int:
    """Remove the labels of a session or a file. Raises InputError unless exactly one is named, NotFound."""
    if bool(options.file) is bool(options.session):
        raise InputError(
            "Name a session, or a file with --file.", hint="List both: ozzie sessions list, ozzie labels files."
        )
    if options.file:
        body = {"path": options.file, "project": named_folder(options)}
        found, name = post("labels/clear", body), visible_label(options.file)
    else:
        session = find_session(options.session)
        found = post(f"sessions/{session['id']}/labels/clear", {})
        name = f'"{visible_label(session["title"])}"'
    if options.json:
        print_json(found)
    elif found["labels"]:
        print(f"{name} has no label any more. It came from {', '.join(map(visible_label, _sources(found)))}.")
    else:
        print(f"{name} has no label.")
    return 0


def _sources(found: Object) -> list[str]:
    return list(found["sources"]) or list(found["labels"])
