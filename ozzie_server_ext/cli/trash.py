"""`ozzie trash`: what `trash_file` moved away, and taking it back; on the project's folder, without a gateway."""

import argparse
from dataclasses import asdict
from pathlib import Path

from ozzie_server_ext.cli.terminal import cell, local_time, print_json
from ozzie_server_ext.render.text import visible_label, visible_prose
from ozzie_server_ext.tools.changes.trash import all_notes, restore


def list_trash(options: argparse.Namespace) -> int:
    """Print what lies in the trash of a project, the newest first. Raises ToolFailed."""
    notes = sorted(all_notes(_project(options)), key=lambda note: note.trashed_at, reverse=True)
    if options.json:
        print_json([asdict(note) for note in notes])
        return 0
    for note in notes:
        print(f"{local_time(note.trashed_at)}  {cell(note.id, 32)}  {visible_label(note.path)}")
    if not notes:
        print("Nothing lies in the trash of this project.")
    return 0


def restore_from_trash(options: argparse.Namespace) -> int:
    """Put a file back to where it lay. Raises ToolFailed where something is there now, Unsettled."""
    done = restore(_project(options), options.id)
    if options.json:
        print_json({"restored": done.place, "notes": list(done.notes)})
        return 0
    print(f"{visible_label(done.place)} is back.")
    for note in done.notes:
        print(visible_prose(note))
    return 0


def _project(options: argparse.Namespace) -> Path:
    return Path(options.project or ".").resolve()
