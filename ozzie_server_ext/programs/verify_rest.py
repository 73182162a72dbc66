"""Verifies the rest of a log's chain, while another process verifies its beginning.

`python -m ozzie_server_ext.programs.verify_rest` reads a JSON object: the `database`, the `position` and `hash` of the
last event of the beginning, the position `until` which to verify, and the id of the `parent` that started it. It writes
the `Verification` as JSON. `store.checks` starts it.
"""

import sys
from contextlib import closing
from pathlib import Path

import msgspec

from ozzie_server_ext.planes.child import tie_to
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.store import sqlite_events
from ozzie_server_ext.store.database import open_readable
from ozzie_server_ext.store.log import Head


def main() -> None:
    task = loads_object(sys.stdin.buffer.read())
    tie_to(int(str(task["parent"])))
    after = Head(int(str(task["position"])), str(task["hash"]))
    with closing(open_readable(Path(str(task["database"])))) as connection:
        found = sqlite_events.verify(connection, after=after, until=int(str(task["until"])))
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
