"""A session through cells with a model that answers at once, against the replay of the same session; and how the time
of a replay grows with the turns.

The cells run in an Ozzie kernel with a gateway and a model worker of its own. Replays run in this process, after one
that is not counted: starting a process for each, as the gateway does, is not part of these figures.
"""

import argparse
import gc
import statistics
import tempfile
import time
from pathlib import Path

from bench.first_token import home_with
from bench.kernels import kernel
from bench.result import Result, emit
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.replay.record import opened
from ozzie_server_ext.replay.replay import replay
from tests.fakes.openai_server import FakeOpenAI

MODEL = "echo"
TURNS = 200
ROUNDS = 3
FACTOR = 10
"""Turns of the short part are fewer by this factor."""
TARGET = 15.0
GROWTH = 1.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with FakeOpenAI() as provider, home_with(provider, MODEL) as home:
        with kernel("ozzie", dict(home.env)) as cells:
            cells.timed("hello")
            began = time.perf_counter()
            for number in range(options.turns - 1):
                cells.timed(f"hello {number}").first(f"hello {number}")
            cell_s = (time.perf_counter() - began) / (options.turns - 1)
        emit(_measured(Home(Path(home.env["OZZIE_PATH"])), options.turns, options.rounds, cell_s))


def _measured(home: Home, turns: int, rounds: int, cell_s: float) -> list[Result]:
    with opened(home) as reading:
        (session_id,) = reading.sessions()
    short = turns // FACTOR
    _replay_time(home, session_id, short)
    pairs = [
        (_replay_time(home, session_id, turns) / turns, _replay_time(home, session_id, short) / short)
        for _ in range(rounds)
    ]
    long_s, short_s = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio, growth = cell_s / long_s, long_s / short_s
    return [
        Result(
            name=f"a turn in the replay of {turns:,}, against the same through cells with an instant model",
            ours=round(long_s * 1000, 2),
            against=round(cell_s * 1000, 2),
            ratio=round(ratio, 1),
            unit="ms",
            target=f">= {TARGET:g}x as fast",
            met=ratio >= TARGET,
        ),
        Result(
            name=f"a turn's replay in a session of {turns:,} turns, against one in its first {short:,}",
            ours=round(long_s * 1000, 2),
            against=round(short_s * 1000, 2),
            ratio=round(growth, 2),
            unit="ms",
            target=f"<= {GROWTH:g}x",
            met=growth <= GROWTH,
        ),
    ]


def _replay_time(home: Home, session_id: SessionId, turns: int) -> float:
    """Return the seconds from the log to the verdict. Raise ValueError if it differs."""
    gc.collect()  # what the one before left: a gateway's replay has a process of its own
    began = time.perf_counter()
    with opened(home) as reading, tempfile.TemporaryDirectory() as folder:
        found = replay(reading.record(session_id, until_turn=turns), home, folder=Path(folder))
    took = time.perf_counter() - began
    if found.divergence is not None or found.missing is not None:
        raise ValueError(f"the session does not replay: {found}")
    return took


if __name__ == "__main__":
    main()
