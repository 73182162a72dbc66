"""Golden streams: recorded appends, one per line, played into a log that gives the same ids, times and salts each time.

To write what they come to: python -m tests.replay.golden. Read the change line by line.

A line is {"after_s", "stream", "drafts": [{"type", "body", ...envelope}]}; what is left out of an envelope is empty.
"""

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec

from ozzie_server_ext.domain.events import EVENT_CLASSES, Draft, EventBody
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.memory import InMemoryEventLog

STREAMS = Path(__file__).parent / "streams"

_CLASSES = {cls.type: cls for cls in EVENT_CLASSES}


def fixed_salt() -> bytes:
    return bytes(range(16))


async def play(lines: list[str], log: EventLog, clock: FakeClock) -> None:
    """Append what the lines say."""
    for line in lines:
        recorded = loads_object(line)
        clock.advance(cast(float, recorded["after_s"]))
        drafts = [_draft(item) for item in cast("list[dict[str, Any]]", recorded["drafts"])]
        await log.append(cast(str, recorded["stream"]), drafts)


async def account(log: EventLog) -> str:
    """What a stream comes to: where its chain ends, and all projections."""
    head = await log.head()
    return f"# head\n{head.position} {head.hash}\n{await log.dump()}"


def _draft(recorded: dict[str, Any]) -> Draft:
    envelope = {name: value for name, value in recorded.items() if name not in {"type", "body"}}
    body = msgspec.convert(recorded["body"], _CLASSES[recorded["type"]])
    for name in ("labels", "sources"):
        envelope[name] = tuple(envelope.get(name, ()))
    return Draft(body=cast(EventBody, body), **envelope)


async def _write_accounts() -> None:
    for stream in STREAMS.glob("*.jsonl"):
        clock = FakeClock()
        log = InMemoryEventLog(clock, CountingIds(), salts=fixed_salt)
        await play(stream.read_text("utf-8").splitlines(), log, clock)
        stream.with_suffix(".expected.txt").write_text(await account(log), "utf-8")
        await log.close()


if __name__ == "__main__":
    asyncio.run(_write_accounts())
