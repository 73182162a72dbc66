"""Counts what the tools of a gateway did, in a process of its own that outlives the gateway; and holds whoever comes by
a point at which the test wants it held, so that the gateway can be killed there.

It speaks lines of JSON over loopback: one connection, one request, one answer. What is held gets no answer; its
connection ends with the gateway. Run as a program it prints its port, and goes on until its input ends.
"""

import asyncio
import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.warm import WarmPopen

ROOT = Path(__file__).parents[3]
WAIT_S = 40.0
READS = "none"
"""The tool that changes nothing: its calls are attempts without an effect."""


@dataclass
class Attempt:
    """A request for an effect: by which call of which run, with which idempotency key, from which process. `had`: the
    effect was had by this very attempt; `answered`: whoever asked was told so."""

    run: str
    call: str
    key: str
    pid: int
    had: bool = False
    answered: bool = False


@dataclass(frozen=True)
class Counted:
    """What there is of one run: its attempts in their order, and its effects, each by the call that had it."""

    attempts: tuple[Attempt, ...] = ()
    effects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Client:
    """Asks the counter that listens on this port."""

    port: int

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """The answer. Raises ConnectionError where the counter is gone, TimeoutError."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as connection:
            # What is held waits for its end; what waits is told by the test's own time-out.
            connection.settimeout(WAIT_S if do == "wait" else None)
            connection.sendall(_line({"do": do, **what}))
            return _answer(connection.makefile("rb").readline())

    async def ask_beside(self, do: str, **what: Any) -> dict[str, Any]:
        """The same for who may not block."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(_line({"do": do, **what}))
            return _answer(await reader.readline())
        finally:
            writer.close()

    def wait(self, run: str, point: str) -> None:
        """Until the run has come by that point."""
        self.ask("wait", run=run, point=point)

    def counted(self, run: str) -> Counted:
        found = self.ask("look", run=run)
        return Counted(tuple(Attempt(**each) for each in found["attempts"]), tuple(found["effects"]))


@contextmanager
def counting() -> Iterator[Client]:
    """A counter in a process of its own."""
    command = [sys.executable, "-m", "tests.integration.crashes.counter"]
    with WarmPopen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Client(int(process.stdout.readline()))
        assert process.poll() is None, "the counter has ended before its time"
        process.communicate(timeout=20)
    assert process.returncode == 0


@dataclass
class _Plan:
    """Where a run is looked for: at the point's passing with this number. `holds`: it goes no further."""

    point: str
    nth: int
    holds: bool


@dataclass
class _Effects:
    """`by_key` are those of the tool that takes one: the same key again gives the same answer, and counts once."""

    attempts: list[Attempt] = field(default_factory=list[Attempt])
    by_run: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    by_key: dict[str, str] = field(default_factory=dict[str, str])

    def have(self, attempt: Attempt, tool: str) -> str:
        """Have the effect; the call that had it."""
        if tool == "idempotent":
            if attempt.key in self.by_key:
                return self.by_key[attempt.key]
            self.by_key[attempt.key] = attempt.call
        if tool != READS:
            attempt.had = True
            self.by_run.setdefault(attempt.run, []).append(attempt.call)
        return attempt.call


class _Gone(Exception):
    """Who was held is no more."""


class _Counter:
    def __init__(self) -> None:
        self._effects = _Effects()
        self._plans: dict[str, _Plan] = {}
        self._runs: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        self._passed: Counter[tuple[str, str]] = Counter()
        self._reached: set[tuple[str, str]] = set()
        self._held: set[str] = set()
        self._changed = asyncio.Condition()
        self._requests: dict[str, Callable[..., Awaitable[Mapping[str, Any] | None]]] = {
            "plan": self._plan,
            "wait": self._wait,
            "look": self._look,
            "name": self._name,
            "pass": self._pass,
            "effect": self._effect,
        }

    async def serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1")
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if not line:
                raise _Gone  # before it could ask
            asked = json.loads(line)
            do = self._requests[asked.pop("do")]
            writer.write(_line(await do(reader, **asked) or {}))
            await writer.drain()
        except (_Gone, ConnectionError):
            pass
        finally:
            writer.close()

    # --- for the test ---------------------------------------------------------------------------------------

    async def _plan(self, _: asyncio.StreamReader, run: str, point: str, nth: int, holds: bool) -> None:
        self._plans[run] = _Plan(point, nth, holds)

    async def _wait(self, _: asyncio.StreamReader, run: str, point: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: (run, point) in self._reached)

    async def _look(self, _: asyncio.StreamReader, run: str) -> Mapping[str, Any]:
        attempts = [asdict(attempt) for attempt in self._effects.attempts if attempt.run == run]
        return {"attempts": attempts, "effects": self._effects.by_run.get(run, [])}

    # --- for the gateway ------------------------------------------------------------------------------------

    async def _name(self, _: asyncio.StreamReader, run: str, task: str) -> None:
        """From now on the task stands for the run."""
        self._runs[task] = run

    async def _pass(
        self, reader: asyncio.StreamReader, point: str, run: str = "", task: str = "", call: str = ""
    ) -> None:
        run = run or self._runs.get(task, "")
        if call:
            self._calls[run] = call
        await self._pass_by(reader, run, point)

    async def _effect(self, reader: asyncio.StreamReader, run: str, tool: str, key: str, pid: int) -> Mapping[str, Any]:
        attempt = Attempt(run, self._calls[run], key, pid)
        self._effects.attempts.append(attempt)
        plan = self._plans.get(run)
        if plan is not None and plan.point == "effect.late":
            # It was sent, and comes to its effect when its sender is dead.
            await self._reach(run, "effect.late")
            await reader.read()
            self._effects.have(attempt, tool)
            await self._reach(run, "effect.was late")
            raise _Gone
        if plan is not None and plan.point == "effect.refused":
            await self._reach(run, "effect.refused")
            return {"refused": True}
        await self._pass_by(reader, run, "effect.arrived")
        had = self._effects.have(attempt, tool)
        await self._pass_by(reader, run, "effect.done")
        attempt.answered = True
        return {"had": had}

    async def _pass_by(self, reader: asyncio.StreamReader, run: str, point: str) -> None:
        self._passed[run, point] += 1
        plan = self._plans.get(run)
        if plan is not None and (plan.point, plan.nth) == (point, self._passed[run, point]):
            if plan.holds:
                self._held.add(run)
            await self._reach(run, point)
        if run in self._held:  # here, or elsewhere: who hears of a durable answer goes on beside the one who gave it
            await reader.read()
            self._held.discard(run)
            raise _Gone

    async def _reach(self, run: str, point: str) -> None:
        self._plans.pop(run, None)
        async with self._changed:
            self._reached.add((run, point))
            self._changed.notify_all()


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _answer(line: bytes) -> dict[str, Any]:
    if not line:
        raise ConnectionError("the counter gave no answer")
    return json.loads(line)


if __name__ == "__main__":
    asyncio.run(_Counter().serve())
