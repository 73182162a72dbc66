"""`ozzie sessions replay`: a session run again from its record."""

import argparse
from collections.abc import Sequence

from ozzie_server_ext.cli.http import post
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.cli.terminal import print_json
from ozzie_server_ext.domain.disk import read_text
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.text import visible_prose, wrapped

REPLAYING_S = 630.0
"""How long to wait: half a minute longer than a replay may take in the gateway (`replay.service`)."""


def replay_session(options: argparse.Namespace) -> int:
    """Replay a session; return 0 if all comes out as it was recorded. Raises as `find_session` does; InputError if a
    file can't be read; Answered if there is no such turn or a file is invalid."""
    session = find_session(options.session)
    wanted: JsonObject = {
        "until": options.until,
        "policy": None if options.policy is None else read_text(options.policy),
        "prompt": None if options.prompt is None else read_text(options.prompt),
        "skills": [read_text(path) for path in options.skills],
    }
    body = {name: value for name, value in wanted.items() if value is not None}
    found = post(f"sessions/{session['id']}/replay", body, timeout_s=REPLAYING_S)
    is_same = found["cause"] is None and not found["missing"]
    if options.json:
        print_json(found)
    else:
        for line in _lines(found):
            print(line)
    return 0 if is_same else 1


def _lines(found: JsonObject) -> Sequence[str]:
    lines = list(wrapped(visible_prose(str(found["sentence"]))))
    if found["position"] is not None:
        lines.append(f"Its position in the log is {found['position']}.")
    return lines
