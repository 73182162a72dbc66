"""`ozzie events verify`: works on the files themselves, whether or not a gateway runs."""

import argparse
import dataclasses
import os

from ozzie_server_ext.cli.output import print_json
from ozzie_server_ext.config.home import anchor_key_file, find_home
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.store.anchor import load_key, read_anchor
from ozzie_server_ext.store.sqlite_events import verify_file


def verify(options: argparse.Namespace) -> int:
    """Print what the walk along the chain found; 0 if the log is what was written.

    The anchor beside the log shows a cut end too. Raises OzzieError.
    """
    home = find_home(os.environ)
    if not home.database.is_file():
        raise NotFound(f"There is no event log at {home.database}.", hint="Set OZZIE_PATH, or run a first turn.")
    key_file = anchor_key_file(os.environ)
    anchor = read_anchor(home.anchor, load_key(key_file)) if key_file.is_file() else None
    found = verify_file(home.database, anchor=anchor.head if anchor else None)
    if options.json:
        print_json({**dataclasses.asdict(found), "anchored": anchor.position if anchor else None})
    elif found.ok:
        erased = f", {found.erased} of them erased" if found.erased else ""
        print(f"The log is what was written: {found.events:,} events{erased}.")
        if anchor is None:
            print("There is no anchor for it here, so whether its end was cut off can't be told.")
    else:
        where = f": first bad event {found.bad_position}. {found.reason}" if found.bad_position else f". {found.reason}"
        print(f"The log was changed after it was written{where}\nRestore a backup of the data folder.")
    return 0 if found.ok else 1
