"""Runs that people do something to while gateways die: starts and asks these, and looks at the log that they leave."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.events import Event, EventBody
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.database import open_readable
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.tables import Row
from tests.integration.crashes.counter import Client
from tests.warm import WarmPopen

ROOT = Path(__file__).parents[3]
WAIT_S = 60.0
T = TypeVar("T", bound=EventBody)
Answer = dict[str, Any]

MOMENTS = {"before": 1, "writing": 12, "request": 3, "answered": 1, "commit": 16}
"""Where a gateway may die around what it is asked for, and how often it comes by there at the most before it does."""


@dataclass(frozen=True)
class Moment:
    """See `asked_gateway`."""

    name: str = "never"
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.name} {self.nth}"


def some_moment(chance: random.Random) -> Moment:
    name = chance.choice(list(MOMENTS))
    return Moment(name, chance.randint(1, MOMENTS[name]))


class Gateway:
    """One gateway's process."""

    def __init__(self, folder: Path, counter: Client, holds: bool) -> None:
        command = [sys.executable, "-m", "tests.integration.runs.asked_gateway", str(folder), str(counter.port)]
        env = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config")}
        self._process = WarmPopen(
            [*command, *(["holds"] if holds else [])],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.died = ""

    def ask(self, do: str, **request: Any) -> Answer | None:
        """The answer to a request, see `asked_gateway.Asked`; None where the gateway died over it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if line.startswith("{"):
            return json.loads(line)
        self.died = line.strip()
        self._process.communicate(timeout=WAIT_S)
        assert self._process.returncode == -9, f"it was to kill itself, and ended with {self._process.returncode}"
        return None

    def answer(self, do: str, **request: Any) -> Answer:
        """The same where it is to live."""
        answer = self.ask(do, **request)
        return answer if answer is not None else _fail(f"it died over {do}: {self.died}")

    def ask_for(self, what: str, task: str, moment: Moment, at: int = 0, **more: Any) -> Answer | None:
        return self.ask("ask_for", what=what, task=task, at=at, moment=moment.name, nth=moment.nth, **more)

    def stop(self) -> None:
        self._process.communicate(timeout=WAIT_S)
        assert self._process.returncode == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=WAIT_S)


def _fail(why: str) -> NoReturn:
    raise AssertionError(why)


@dataclass
class RunsHome:
    """A home with skills, whose gateways come and go."""

    folder: Path
    counter: Client
    started: list[Gateway] = field(default_factory=list[Gateway])

    def write(self, **skill: Any) -> None:
        (self.folder / "home" / "skills" / f"{skill['name']}.jsonc").write_text(json.dumps(skill))

    def start(self, holds: bool = False) -> Gateway:
        self.started.append(Gateway(self.folder, self.counter, holds))
        return self.started[-1]

    def effects(self, *names: str) -> dict[str, int]:
        return {name: len(self.counter.counted(name).effects) for name in names}

    @property
    def deaths(self) -> int:
        return sum(bool(gateway.died) for gateway in self.started)

    def going_on(self) -> int:
        """How many tasks have not ended by the log."""
        return self._read("SELECT count(*) FROM tasks WHERE status NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')")

    def head(self) -> int:
        """The position of the last event."""
        return self._read("SELECT max(position) FROM events")

    def count(self, task: str, fact: str) -> int:
        """How often the log has that of the task."""
        return self._read("SELECT count(*) FROM events WHERE stream = ? AND type = ?", task_stream(TaskId(task)), fact)

    def _read(self, query: str, *values: str) -> int:
        reading = open_readable(Home(self.folder / "home").database)
        try:
            return reading.execute(query, values).fetchone()[0]
        finally:
            reading.close()

    def left(self, run: str) -> "Left":
        """The log, when no gateway runs any more."""
        return asyncio.run(_left(self.folder, TaskId(run)))


@contextmanager
def runs_home(folder: Path, counter: Client) -> Iterator[RunsHome]:
    folder.mkdir(exist_ok=True)
    Home(folder / "home").create()
    home = RunsHome(folder, counter)
    yield home
    for gateway in home.started:
        gateway.kill()


@dataclass(frozen=True)
class Left:
    """What a log has of its tasks: the facts of each, and its row."""

    run: TaskId
    events: dict[TaskId, tuple[Event, ...]]
    rows: dict[TaskId, Row]

    def facts(self, kind: type[T], task: TaskId | None = None) -> list[T]:
        return [event.body for event in self.events[task or self.run] if isinstance(event.body, kind)]

    def below(self, kind: type[T]) -> list[T]:
        return [fact for task in self.events for fact in self.facts(kind, task)]

    def at(self, kind: type[EventBody], task: TaskId | None = None) -> list[int]:
        """The positions of these facts."""
        return [event.position for event in self.events[task or self.run] if isinstance(event.body, kind)]

    @property
    def runs(self) -> list[TaskId]:
        return [task for task, row in self.rows.items() if row["mode"] == "GRAPH"]


async def _left(folder: Path, run: TaskId) -> Left:
    clock = SystemClock()
    log = await SqliteEventLog.open(Home(folder / "home").database, clock=clock, ids=UlidSource(clock))
    try:
        assert (await log.verify()).ok
        assert await log.dump() == await log.rebuild()
        rows = {TaskId(str(row["task_id"])): row for row in await log.rows("tasks")}
        return Left(run, {task: await log.read_stream(task_stream(task)) for task in rows}, rows)
    finally:
        await log.close()
