"""One home with a real gateway, model worker, kernel and provider, on which turns are killed one after the other."""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import Request, urlopen

import psutil

from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.store.database import open_readable
from ozzie_server_ext.store.sqlite_events import read_stream
from tests.integration.kills import story
from tests.integration.kills.watcher import BEGIN, Seen, Watcher
from tests.rig import GatewayHome, Kernel, Output, new_home, start_kernel

UP_S = 60.0
TURN_S = 90.0
SESSION_NAME = "killed.ipynb"


T = TypeVar("T")


@dataclass(frozen=True)
class Moment:
    """The event of a turn at which something is killed: the one of that name after `before` others. `behind`: the
    turn is the second of its session at that time, so that it waits."""

    name: str
    before: int = 0
    behind: bool = False

    def __str__(self) -> str:
        return f"{self.name}[{self.before}]{' of the one behind' if self.behind else ''}"


WAITS = Moment("task.queued", behind=True)
MOMENTS = (
    WAITS,
    Moment("message.received"),
    Moment("task.started"),
    Moment("model.call.started"),
    Moment("reply.delta"),
    Moment("reply.delta", 1),
    Moment("model.call.completed"),
    Moment("tool.call.requested"),
    Moment("tool.call.started"),
    Moment("tool.call.completed"),
    Moment("tool.call.completed", 1),
    Moment("model.call.started", 1),
    Moment("reply.delta", 3),
    Moment("reply.delta", 5),
    Moment("reply.delta", 8),
    Moment("message.completed", 1),
    Moment("task.succeeded"),
)
"""Every phase of a turn: queued, claimed, asked, answering, answered, the tools before, in and after their work, asked
again, answering again, answered, ended."""


@dataclass
class Death:
    """One kill: of what, at which event, and what the log ended with for that turn when the process was gone. `before`
    is the marker of the turn that this one waited behind."""

    victim: str
    moment: Moment
    marker: str
    before: str = ""
    task_id: str = ""
    last: str = ""
    ended: str = ""
    output: Output | None = None

    def __str__(self) -> str:
        return f"{self.victim:8} at {self.moment!s:34} log at {self.last:22} {self.ended or 'lost'} ({self.marker})"


@dataclass
class Stage:
    home: GatewayHome
    watcher: Watcher
    kernel: Kernel
    say: Callable[[str], None]
    deaths: list[Death] = field(default_factory=list)
    spawned: set[int] = field(default_factory=set)
    _numbers: int = 0

    # --- what runs ----------------------------------------------------------------------------------------

    def gateway_pid(self) -> int:
        """The gateway's process, once one is ready and the watcher follows it."""
        handshake = until(self.home.handshake, UP_S, "a gateway")
        self.watcher.wait_connected(handshake.pid, UP_S)
        self.spawned.add(handshake.pid)
        return handshake.pid

    def worker_pid(self) -> int:
        """The model worker's process, once one runs."""
        self.gateway_pid()
        return until(self._worker, UP_S, "a model worker")

    def _worker(self) -> int | None:
        running: int | None = None
        for item in list(self.watcher.seen):
            if item.name in ("worker.started", "worker.lost"):
                pid = int(str(item.payload["pid"]))
                self.spawned.add(pid)
                if item.name == "worker.started":
                    running = pid
                elif running == pid:
                    running = None
        return running if running is not None and is_alive(running) else None

    def new_kernel(self) -> None:
        """Another kernel of the same notebook in the place of the one that was killed."""
        provisioner: Any = self.kernel.manager.provisioner
        provisioner.process.wait(20)
        self.kernel.client.stop_channels()
        self.kernel.manager.cleanup_resources()
        self.kernel = start_kernel(self.home)

    # --- a kill -------------------------------------------------------------------------------------------

    def kill(self, victim: str, moment: Moment) -> Death:
        """Run a turn in a cell, kill `victim` at `moment`, and wait until the turn has ended all the same."""
        self._numbers += 1
        if self.home.handshake() is None:  # killed when the turn had ended: then nobody missed it yet
            self.kernel.run("%session")
        death = Death(victim, moment, f"m{self._numbers:03d}")
        pid = {"gateway": self.gateway_pid, "worker": self.worker_pid, "kernel": lambda: self.kernel.pid}[victim]()
        if victim != "worker":
            self.worker_pid()
        hit = self._watch_for(death, pid)
        if moment.behind:
            death.before = f"{death.marker}-before"
            request = self._send(death.before)
            self._send_behind(death)
        else:
            request = self._send(death.marker)
        self.watcher.wait_for(lambda _: bool(hit), TURN_S, f"the moment of {death}")
        self.watcher.on_event = lambda seen: None
        until(lambda: not is_alive(pid) or None, 20, f"the end of the {victim}")
        death.last = self._last_event(death.task_id)
        if victim != "kernel":
            death.output = self.kernel.output(request)
            if not self.watcher.ended(death.task_id) and self.home.handshake() is None:
                self.kernel.run("%session")  # the cell had its end before the kill: nobody else misses the gateway
        self.watcher.wait_for(lambda watcher: bool(watcher.ended(death.task_id)), TURN_S, f"an end of {death}")
        death.ended = self.watcher.ended(death.task_id)
        if victim == "kernel":
            self.new_kernel()
        self.deaths.append(death)
        self.say(str(death))
        return death

    def kill_each_attempt(self, deaths: int) -> Output:
        """Run a turn in a cell, and kill each gateway as soon as it asks the model; what the cell shows in the end."""
        self._numbers += 1
        marker = f"m{self._numbers:03d}"
        self.worker_pid()
        killed: list[int] = []

        def look(seen: Seen) -> None:
            handshake = self.home.handshake()
            if seen.name == "model.call.started" and len(killed) < deaths and handshake is not None:
                os.kill(handshake.pid, signal.SIGKILL)
                killed.append(handshake.pid)

        self.watcher.on_event = look
        output = self.kernel.output(self._send(marker))
        self.watcher.on_event = lambda seen: None
        assert len(killed) == deaths
        return output

    def _send(self, marker: str) -> str:
        return self.kernel.send(story.prompt(marker), cell_id=f"cell-{marker}")

    def _send_behind(self, death: Death) -> None:
        """Send the message to the same session, while the cell's own turn runs there. No answer may come any more."""
        text = story.prompt(death.before)
        self.watcher.wait_for(lambda watcher: watcher.task(text) is not None, TURN_S, "the turn before")
        first = self.watcher.task(text)
        handshake = self.home.handshake()
        assert first is not None
        assert handshake is not None
        # Of a sender that does not wait for an answer, it would be an update of the running turn.
        body = {"content": story.prompt(death.marker), "session_id": first.session_id, "wait": True}
        headers = {"Authorization": f"token {handshake.token}", "Content-Type": "application/json"}
        request = Request(f"{handshake.url}ozzie/api/message", json.dumps(body).encode(), headers)
        with suppress(OSError, HTTPException), urlopen(request, timeout=20) as answer:
            answer.read()

    def _watch_for(self, death: Death, pid: int) -> list[Seen]:
        hit: list[Seen] = []

        def look(seen: Seen) -> None:
            if seen.name == BEGIN and seen.payload.get("text") == story.prompt(death.marker):
                death.task_id = seen.task_id
            wanted = death.moment
            if not hit and seen.task_id == death.task_id and (seen.name, seen.before) == (wanted.name, wanted.before):
                os.kill(pid, signal.SIGKILL)
                hit.append(seen)

        self.watcher.on_event = look
        return hit

    def _last_event(self, task_id: str) -> str:
        connection = open_readable(self.home.home / "data" / "ozzie.db")
        try:
            return read_stream(connection, task_stream(TaskId(task_id)), 0)[-1].type
        finally:
            connection.close()

    # --- the end ------------------------------------------------------------------------------------------

    def restart_gateway(self) -> None:
        """End the gateway in order; the kernel starts the next with its next cell."""
        pid = self.gateway_pid()
        os.kill(pid, signal.SIGTERM)
        until(lambda: not is_alive(pid) or None, 20, "the end of the gateway")
        self.kernel.run("%session")
        self.gateway_pid()

    def stop(self) -> None:
        """Let the kernel and its gateway end in order."""
        self.kernel.stop()
        if (handshake := self.home.handshake()) is not None:
            os.kill(handshake.pid, signal.SIGTERM)
            until(lambda: not is_alive(handshake.pid) or None, 20, "the end of the gateway")


@contextmanager
def staged(folder: Path, say: Callable[[str], None]) -> Iterator[Stage]:
    """A stage on a fresh home below `folder`, empty of processes again at the end; `say` gets a line for each kill."""
    home = new_home(folder)
    home = replace(home, env={**home.env, "JPY_SESSION_NAME": SESSION_NAME})
    story.fill(home.project)
    with story.provider() as provider, Watcher(home) as watcher:
        home.use_provider(provider.url, story.MODEL)
        stage = Stage(home, watcher, start_kernel(home), say)
        try:
            yield stage
        finally:
            stage.stop()


def seeded_moments(seed: int, count: int, moments: tuple[Moment, ...] = MOMENTS) -> list[Moment]:
    """`count` moments in an order of chance, each as often as the others."""
    chance = random.Random(seed)
    found: list[Moment] = []
    while len(found) < count:
        found += chance.sample(moments, len(moments))
    return found[:count]


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that nobody reaps has ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(look: Callable[[], T | None], seconds: float, what: str) -> T:
    """What `look` gives as soon as it gives something."""
    end = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() > end:
            raise TimeoutError(f"not there in {seconds:g} s: {what}")
        time.sleep(0.02)
    return found
