"""`ozzie events verify`: works on the files themselves, whether or not a gateway runs."""

import asyncio
import dataclasses
import json
import os

from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.log import Verification
from ozzie_server_ext.store.sqlite import SqliteEventLog


def verify(*, as_json: bool) -> int:
    """Print what the walk along the chain found; 0 if the log is what was written. Raises OzzieError."""
    home = find_home(os.environ)
    if not home.database.is_file():
        raise NotFound(f"There is no event log at {home.database}.", hint="Set OZZIE_PATH, or run a first turn.")
    found = asyncio.run(_verify())
    if as_json:
        print(json.dumps(dataclasses.asdict(found)))
    elif found.ok:
        erased = f", {found.erased} of them erased" if found.erased else ""
        print(f"The log is what was written: {found.events:,} events{erased}.")
    else:
        print(
            f"The log was changed after it was written: first bad event {found.bad_position}. {found.reason}\n"
            "Restore a backup of the data folder."
        )
    return 0 if found.ok else 1


async def _verify() -> Verification:
    clock = SystemClock()
    log = await SqliteEventLog.open(find_home(os.environ).database, clock=clock, ids=UlidSource(clock))
    try:
        return await log.verify()
    finally:
        await log.close()
