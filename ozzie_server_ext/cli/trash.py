"""`ozzie trash`: list the files that `trash_file` moved away, and restore one. It needs no gateway."""

import argparse
from pathlib import Path

from msgspec.structs import asdict

from ozzie_server_ext.cli.terminal import cell, local_time, print_json, print_result
from ozzie_server_ext.render.text import visible_label, visible_prose
from ozzie_server_ext.tools.changes.trash import all_notes, restore


def list_trash(options: argparse.Namespace) -> int:
    """Print a project's trash, the newest first. Raises ToolFailed."""
    notes = sorted(all_notes(Path(options.project or ".").resolve()), key=lambda note: note.trashed_at, reverse=True)
    if options.json:
        print_json([asdict(note) for note in notes])
        return 0
    for note in notes:
        print(f"{local_time(note.trashed_at)}  {cell(note.id, 32)}  {visible_label(note.path)}")
    if not notes:
        print("The trash of this project is empty.")
    return 0


def restore_from_trash(options: argparse.Namespace) -> int:
    """Move a file back to where it was. Raises ToolFailed if something is there now, Unsettled."""
    done = restore(Path(options.project or ".").resolve(), options.id)
    lines = [f"{visible_label(done.place)} is back.", *map(visible_prose, done.notes)]
    return print_result({"restored": done.place, "notes": list(done.notes)}, *lines, as_json=options.json)
