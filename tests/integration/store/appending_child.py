"""Appends from several clients for as long as it lives, and tells of each append once it is acknowledged."""

import asyncio
import sys
from pathlib import Path

from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.replay.histories import Histories

CLIENTS = 4


async def main(path: Path, seed: int) -> None:
    clock = SystemClock()
    ids = UlidSource(clock)
    log = await SqliteEventLog.open(path, clock=clock, ids=ids)

    async def client(number: int) -> None:
        prefix = ids.new()
        for stream, drafts in Histories(seed * CLIENTS + number, prefix=prefix):
            for event in await log.append(stream, drafts):
                sys.stdout.write(f"{event.position} {event.hash}\n")
            sys.stdout.flush()

    await asyncio.gather(*[client(number) for number in range(CLIENTS)])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
