"""One side of `bench.workers`: many streamed answers at once, in a process that does nothing else.

`python -m bench.streaming ours|in-process URL` reads from standard input a line for each round, `STREAMS MODEL`, and
prints what it saw. Ours asks the model workers as the gateway does; the other calls litellm in this very process.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from bench.probe import Lag
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.models.driver import ChatMessage, ModelChoice, ModelRequest, ProviderAccess, TextDelta
from ozzie_server_ext.models.worker_client import WORKER_ARGV, WorkerDriver
from ozzie_server_ext.planes.pool import Pool, usual_limit
from ozzie_server_ext.planes.supervisor import Supervisor

PROMPT = "Tell me about streams."
SETTLE_S = 0.3


@dataclass(frozen=True, kw_only=True)
class Round:
    """`first_ms`: the median over the streams; `cpu_s`: of all processes of the side; `processes` that call litellm."""

    streams: int
    first_ms: float
    worst_first_ms: float
    total_s: float
    cpu_s: float
    words: int
    lag_p99_ms: float
    lag_max_ms: float
    processes: int


class Side(Protocol):
    def answer(self, model: str) -> AsyncIterator[str]:
        """The pieces of one answer."""
        ...

    def cpu_s(self) -> float: ...

    @property
    def processes(self) -> int: ...


class Workers:
    """Ours: the pool, as the gateway has it."""

    def __init__(self, url: str) -> None:
        self._pool = Pool(
            lambda _: Supervisor("model worker", WORKER_ARGV, log_file=Path(os.devnull)), limit=usual_limit
        )
        access = ProviderAccess(driver="openai", base_url=f"{url}/v1")
        self._driver = WorkerDriver(self._pool, lambda _: access)
        self._number = 0

    async def answer(self, model: str) -> AsyncIterator[str]:
        self._number += 1
        request = ModelRequest(
            call_id=CallId(f"bench{self._number}"),
            choice=ModelChoice(alias="bench", provider="bench", driver="openai", model=model),
            messages=(ChatMessage(role="user", content=PROMPT),),
        )
        async for event in self._driver.generate(request):
            if isinstance(event, TextDelta):
                yield event.text

    def cpu_s(self) -> float:
        used = [psutil.Process(child.pid).cpu_times() for child in self._pool.children]
        return time.process_time() + sum(each.user + each.system for each in used)

    @property
    def processes(self) -> int:
        return sum(child.ready for child in self._pool.children)


class InProcess:
    """The rival: litellm's own streams as tasks of the loop that has everything else to do too."""

    processes = 1

    def __init__(self, url: str) -> None:
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        import litellm

        litellm.suppress_debug_info = True
        self._litellm: Any = litellm
        self._url = url

    async def answer(self, model: str) -> AsyncIterator[str]:
        stream = await self._litellm.acompletion(
            model=f"openai/{model}",
            api_base=f"{self._url}/v1",
            api_key="none",
            messages=[{"role": "user", "content": PROMPT}],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            for choice in chunk.choices:
                if choice.delta.content:
                    yield choice.delta.content

    def cpu_s(self) -> float:
        return time.process_time()


async def _round(side: Side, streams: int, model: str) -> Round:
    lag = Lag()
    watching = asyncio.create_task(lag.watch())
    await asyncio.sleep(SETTLE_S)
    lag.take()
    cpu, began = side.cpu_s(), time.perf_counter()
    seen = await asyncio.gather(*(_read(side, model) for _ in range(streams)))
    total_s, cpu = time.perf_counter() - began, side.cpu_s() - cpu
    watching.cancel()
    firsts = [first_s * 1000 for first_s, _ in seen]
    late = lag.take()
    return Round(
        streams=streams,
        first_ms=statistics.median(firsts),
        worst_first_ms=max(firsts),
        total_s=total_s,
        cpu_s=cpu,
        words=sum(words for _, words in seen),
        lag_p99_ms=late["p99_ms"],
        lag_max_ms=late["max_ms"],
        processes=side.processes,
    )


async def _read(side: Side, model: str) -> tuple[float, int]:
    """Seconds to the first piece of an answer, and how many words all of it has."""
    began, first_s, pieces = time.perf_counter(), 0.0, list[str]()
    async for piece in side.answer(model):
        first_s = first_s or time.perf_counter() - began
        pieces.append(piece)
    return first_s, len("".join(pieces).split())


async def _serve(side: Side) -> None:
    """Runs until it is terminated; the workers end with this process."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        streams, model = line.split()
        print(json.dumps(asdict(await _round(side, int(streams), model))), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("ours", "in-process"))
    parser.add_argument("url", help="of a provider that speaks OpenAI's format")
    options = parser.parse_args()

    async def run() -> None:
        await _serve(Workers(options.url) if options.side == "ours" else InProcess(options.url))

    asyncio.run(run())


if __name__ == "__main__":
    main()
