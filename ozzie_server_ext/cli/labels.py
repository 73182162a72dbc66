"""`ozzie labels`: what of a session or a file came from outside, and taking that off."""

import argparse

from ozzie_server_ext.cli.http import Object, get, post
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.cli.terminal import print_json
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.render.text import visible_label


def show_labels(options: argparse.Namespace) -> int:
    """Print where that came from what a session has read. Raises as `find_session` does."""
    session = find_session(options.session)
    found = get(f"sessions/{session['id']}/labels")
    if options.json:
        print_json(found)
        return 0
    if not found["labels"]:
        print("Nothing that this session has read came from outside.")
        return 0
    print(*(f"  {visible_label(source)}" for source in _sources(found)), sep="\n")
    print(f"What may be made from that asks first. If you answer for it: ozzie labels clear {session['id']}")
    return 0


def list_files(options: argparse.Namespace) -> int:
    """Print the files of the project that were made from content from outside. Raises NotRunning."""
    found = get("labels")
    if options.json:
        print_json(found["items"])
        return 0
    for file in found["items"]:
        print(f"{visible_label(file['path'])}  {', '.join(map(visible_label, _sources(file)))}")
    print(
        "Who reads one of them is asked first. If you answer for it: ozzie labels clear --file PATH"
        if found["items"]
        else "No file here was made from content from outside."
    )
    return 0


def clear_labels(options: argparse.Namespace) -> int:
    """Take the labels off a session or a file. Raises InputError where neither or both are named, NotFound."""
    if bool(options.file) is bool(options.session):
        raise InputError(
            "Name a session, or a file with --file.", hint="List both: ozzie sessions list, ozzie labels files."
        )
    if options.file:
        found, what = post("labels/clear", {"path": options.file}), visible_label(options.file)
    else:
        session = find_session(options.session)
        found = post(f"sessions/{session['id']}/labels/clear", {})
        what = f'"{visible_label(session["title"])}"'
    if options.json:
        print_json(found)
    elif found["labels"]:
        print(f"{what} bears no label any more. It came from {', '.join(map(visible_label, _sources(found)))}.")
    else:
        print(f"{what} bears no label.")
    return 0


def _sources(found: Object) -> list[str]:
    return list(found["sources"]) or list(found["labels"])
