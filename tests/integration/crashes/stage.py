"""One home, one counter, and one gateway after the other: each is killed when all runs of a group are where they are
wanted, and the next one has to see them through."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import Any

from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.database import open_readable
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.sqlite_events import read_stream
from tests.integration.crashes.counter import Client, Counted, counting
from tests.integration.crashes.honest import check_at_death, check_end
from tests.integration.crashes.runs import DECISIONS, DURABLE, LATE, PORT, RECOVERIES, WAITING, Group, Run, SecondKill
from tests.integration.gateway.walk import ask
from tests.integration.kills.watcher import ENDS, Seen, Watcher
from tests.rig import JUPYTER_TOKEN, Gateway, GatewayHome, new_home, ozzie, wait_for_handshake
from tests.verified import verify_file
from tests.warm import WarmPopen

WAIT_S = 40.0
PROGRAM = "tests.integration.crashes.gateway"
RULES = {
    "rules": [
        {
            "id": "asked",
            "decision": "ask",
            "reason": "Somebody is to be asked there.",
            "when": {"tools": ["crash.*"], "paths": ["asked/**"]},
            "examples": {"match": [{"tool": "crash_none", "args": {"path": "asked/r001"}}]},
        }
    ]
}


@dataclass(frozen=True)
class Ended:
    """A run, how often its gateway was killed, and what there is of it in the counter."""

    run: Run
    kills: int
    counted: Counted


@dataclass
class Stage:
    home: GatewayHome
    counter: Client
    watcher: Watcher
    tasks: dict[str, str] = field(default_factory=dict[str, str])
    ended: list[Ended] = field(default_factory=list[Ended])
    _answering: list[Thread] = field(default_factory=list[Thread])
    _running: "subprocess.Popen[bytes] | None" = None
    _gateway: Gateway | None = None

    @property
    def database(self) -> Path:
        return self.home.home / "data" / "ozzie.db"

    def gateway(self) -> Gateway:
        """The one that runs, once it listens and the watcher hears of its events; a new one where none does."""
        if self._gateway is None:
            process = self._begin()
            found = wait_for_handshake(self.home, process, self._log)
            self._gateway = Gateway(self.home, process, found.url, found.token)
            self.watcher.wait_connected(process.pid, WAIT_S)
        return self._gateway

    def play(self, group: Group) -> None:
        """Bring the runs to their points, kill, start again, answer what is asked, and look at what came of it."""
        for run in group.runs:
            self.bring(run)
        time.sleep(group.delay_s)  # for who goes on, to be killed a little further on each time
        self.kill()
        self._check_death(group)
        again = group.again
        if again is not None and again.point in RECOVERIES:
            self._kill_recovering(again)
        for run in group.runs:
            if again is None or run != again.run or again.point not in DECISIONS:
                self.see_through(run)
        if again is not None and again.point in DECISIONS:
            self._kill_answering(again)
            self.see_through(again.run, is_answered=again.point in DURABLE)
        for run in group.runs:
            counted = self.counter.counted(run.name)
            check_end(run, self.events(run), counted)
            self.ended.append(Ended(run, 2 if again else 1, counted))

    def _kill_recovering(self, kill: SecondKill) -> None:
        self.counter.ask("plan", run=kill.run.name, point=kill.point, nth=1, holds=True)
        self._begin()
        self.counter.wait(kill.run.name, kill.point)
        self.kill()

    def _kill_answering(self, kill: SecondKill) -> None:
        """Whoever answers hears nothing any more."""
        run, nth = kill.run, 1 + kill.run.is_allowed_before
        name = "task.waiting_input" if run.is_doubtful else "task.waiting_approval"
        self.gateway()
        self._asks(run, name, 0)
        self.counter.ask("plan", run=run.name, point=kill.point, nth=nth, holds=True)
        self._answer_beside(run, name, run.yes)
        self.counter.wait(run.name, kill.point)
        self.kill()

    def _answer_beside(self, run: Run, name: str, yes: bool) -> None:
        """Answer without waiting for a response, which a held run does not give. `kill` ends that."""

        def answer() -> None:
            with suppress(OSError, HTTPException, AssertionError):
                self._answer(run, name, yes)

        answering = Thread(target=answer, name=f"answer to {run.name}")
        answering.start()
        self._answering.append(answering)

    # --- one run --------------------------------------------------------------------------------------------

    def bring(self, run: Run) -> None:
        point = run.point
        if point != WAITING:
            self.counter.ask("plan", run=run.name, point=point.name, nth=point.nth, holds=point.holds)
        sent = self._post("message", content=run.text, session_name=run.name)
        self.tasks[run.name] = sent["task_id"]
        if point == WAITING:
            self._asks(run, "task.waiting_approval", 0)
            return
        if run.is_allowed_before:
            self._answer_beside(run, "task.waiting_approval", True)
        self.counter.wait(run.name, point.name)

    def see_through(self, run: Run, *, is_answered: bool = False) -> None:
        """Answer whatever the run asks, until its task has ended; its first question is, where `is_answered`."""
        asked = {"task.waiting_approval": int(run.is_allowed_before), "task.waiting_input": 0}
        if is_answered:
            asked["task.waiting_input" if run.is_doubtful else "task.waiting_approval"] += 1
        decisions = [run.yes, run.yes_again][asked["task.waiting_approval"] :]
        self.gateway()
        while not self._has_ended(run):
            self.watcher.wait_for(
                lambda _: self._has_ended(run) or self._asks_anew(run, asked), WAIT_S, f"the end of {run}"
            )
            for name in asked:
                if self._times(run, name) > asked[name]:
                    asked[name] += 1
                    self._answer(run, name, decisions.pop(0) if name == "task.waiting_approval" else False)

    def cancel(self, run: Run) -> None:
        """Stop the run, and wait until that has become of it."""
        self._post(f"tasks/{self.tasks[run.name]}/cancel")
        self.watcher.wait_for(lambda _: self._has_ended(run), WAIT_S, f"the end of {run}")

    def _answer(self, run: Run, name: str, yes: bool) -> None:
        if name == "task.waiting_approval":
            self._decide(run, yes)
        else:
            self._post(f"tasks/{self.tasks[run.name]}/answer", option=run.doubt)

    def _decide(self, run: Run, yes: bool) -> None:
        """Say yes or no to the one thing that the run asks for."""
        task_id = self.tasks[run.name]
        self._asks(run, "task.waiting_approval", 0)
        gateway, path = self.gateway(), f"/ozzie/api/approvals?status=pending&task_id={task_id}"
        status, found = ask(gateway, "GET", path, token=gateway.token)
        assert status == 200, found
        (approval,) = found["items"]
        verb, approval_id = "approve" if yes else "reject", approval["approval_id"]
        if run.in_terminal:
            done = ozzie(self.home, "approvals", verb, approval_id, *(["--yes"] if yes else []))
            assert done.returncode == 0, done.stderr
        else:
            self._post(f"approvals/{approval_id}/{verb}")

    def _asks(self, run: Run, name: str, before: int) -> None:
        self.watcher.wait_for(lambda _: self._times(run, name) > before, WAIT_S, f"{name} of {run}")

    def _asks_anew(self, run: Run, asked: dict[str, int]) -> bool:
        return any(self._times(run, name) > times for name, times in asked.items())

    def _times(self, run: Run, name: str) -> int:
        return sum(seen.task_id == self.tasks[run.name] and seen.name == name for seen in self._seen())

    def _has_ended(self, run: Run) -> bool:
        return any(seen.task_id == self.tasks[run.name] and seen.name in ENDS for seen in self._seen())

    def _seen(self) -> Sequence[Seen]:
        return list(self.watcher.seen)

    # --- the gateways ---------------------------------------------------------------------------------------

    @property
    def _log(self) -> Path:
        return self.home.home.parent / "gateway.log"

    def _begin(self) -> "subprocess.Popen[bytes]":
        if self._running is None:
            with self._log.open("ab") as output:
                self._running = WarmPopen(
                    [sys.executable, "-m", PROGRAM, "--verbose", "--port", "0"],
                    cwd=self.home.project,
                    env=self.home.env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
        return self._running

    def kill(self) -> None:
        assert self._running is not None
        assert self._running.poll() is None, self._log.read_text()
        self.leave()
        while self._answering:
            answering = self._answering.pop()
            answering.join(WAIT_S)
            assert not answering.is_alive(), answering.name

    def leave(self) -> None:
        """kill -9 for the one that runs, if one does."""
        if self._running is not None:
            self._running.kill()
            self._running.wait(20)
            self._running = self._gateway = None

    def stop(self) -> None:
        """Let the one that runs end in order."""
        assert self._running is not None
        self._running.terminate()
        assert self._running.wait(20) == 0, self._log.read_text()

    def _post(self, path: str, **body: Any) -> dict[str, Any]:
        gateway = self.gateway()
        status, found = ask(gateway, "POST", f"/ozzie/api/{path}", token=gateway.token, body=json.dumps(body))
        assert status in (200, 202), found
        return found

    # --- what is left of them -------------------------------------------------------------------------------

    def _check_death(self, group: Group) -> None:
        """What the dead gateway left verifies and can be made anew, in a copy: the next one is to find it as it is."""
        copy = self.home.home.parent / "copy" / "ozzie.db"
        copy.parent.mkdir(exist_ok=True)
        for ending in ("", "-wal"):
            shutil.copyfile(f"{self.database}{ending}", f"{copy}{ending}")
        check_log(copy)
        for run in group.runs:
            if run.point == LATE:
                self.counter.wait(run.name, "effect.was late")
            check_at_death(run, self.events(run, copy), self.counter.counted(run.name))
        shutil.rmtree(copy.parent)

    def events(self, run: Run, database: Path | None = None) -> tuple[Event, ...]:
        connection = open_readable(database or self.database)
        try:
            return tuple(read_stream(connection, task_stream(TaskId(self.tasks[run.name])), 0))
        finally:
            connection.close()


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """A stage on a fresh home below `folder`. In the end its log is looked at whole, by `ozzie events verify` too."""
    folder.mkdir()
    home = new_home(folder)
    with counting() as counter:
        told = {PORT: str(counter.port), "JUPYTER_TOKEN": JUPYTER_TOKEN}
        home = replace(home, env={**home.env, **told})
        (home.home / "policy.jsonc").write_text(json.dumps(RULES))
        with Watcher(home) as watcher:
            stage = Stage(home, counter, watcher)
            try:
                yield stage
                stage.stop()
            finally:
                stage.leave()
        verified = ozzie(home, "events", "verify", "--json")
        assert json.loads(verified.stdout)["ok"], verified.stdout + verified.stderr
        check_log(stage.database)


def check_log(database: Path) -> None:
    """It verifies, and its tables are what it makes of them."""
    found = verify_file(database)
    assert found.ok, found
    asyncio.run(_check_tables(database))


async def _check_tables(database: Path) -> None:
    clock = SystemClock()
    log = await SqliteEventLog.open(database, clock=clock, ids=UlidSource(clock))
    try:
        assert await log.dump() == await log.rebuild(), "the tables are not what the log makes of them"
    finally:
        await log.close()
