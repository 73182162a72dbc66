"""kill -9 around a call, in each of its phases, for each kind of tool: an effect is had once, is never silently
repeated, and the log says what is so. The effects are counted in a process that is not killed."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.crashes.runs import (
    AFTER_THE_YES,
    POINTS,
    Answer,
    Kind,
    Phase,
    grouped,
    seeded_runs,
)
from tests.integration.crashes.stage import Ended, staged

EACH = 20
"""Runs of each tool in each phase, under `make soak`."""
A_HOME = 50
"""Runs in one home: all that a log has is looked at for each kill."""
SEED = int(os.environ.get("OZZIE_SOAK_SEED", "6"))


@pytest.mark.timeout(180)
def test_a_call_that_is_cut_off_anywhere_has_its_effect_once(tmp_path: Path, say: Callable[[str], None]) -> None:
    ended = play(tmp_path, 1, say)

    assert Counter((each.run.kind, each.run.phase) for each in ended) == dict.fromkeys(CELLS, 1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_runs_of_each_tool_in_each_phase(tmp_path: Path, say: Callable[[str], None]) -> None:
    ended = play(tmp_path, EACH, say)

    assert Counter((each.run.kind, each.run.phase) for each in ended) == dict.fromkeys(CELLS, EACH)
    everywhere = {point for points in POINTS.values() for point in points} | set(AFTER_THE_YES)
    assert {each.run.point for each in ended} == everywhere, "a point was not hit"
    answered = {(each.run.kind, each.run.point, each.run.doubt) for each in ended if each.run.is_doubtful}
    cut = (*POINTS[Phase.AFTER_INTENT], *POINTS[Phase.AFTER_EFFECT])
    doubtful = (Kind.REVERSIBLE, Kind.IRREVERSIBLE)
    assert answered == {(kind, point, answer) for kind in doubtful for point in cut for answer in Answer}


CELLS = [(kind, phase) for kind in Kind for phase in Phase]


def play(folder: Path, each: int, say: Callable[[str], None]) -> list[Ended]:
    """All runs, group after group; a line for each cell of the matrix."""
    chance, began = random.Random(SEED), time.monotonic()
    runs = seeded_runs(chance, each)
    say(f"{len(runs)} calls cut off, seed {SEED}")
    ended: list[Ended] = []
    kills, again = 0, Counter[str]()
    for first in range(0, len(runs), A_HOME):
        with staged(folder / f"from-{first}") as stage:
            for group in grouped(chance, runs[first : first + A_HOME]):
                stage.play(group)
                kills += 1 + (group.again is not None)
                again.update([group.again.point] if group.again else [])
        ended += stage.ended
    for kind, phase in CELLS:
        say(_line(kind, phase, [one for one in ended if (one.run.kind, one.run.phase) == (kind, phase)]))
    took = time.monotonic() - began
    second = ", ".join(f"{again[point]} at {point}" for point in sorted(again)) or "none"
    say(f"{len(ended)} runs in {kills} kills, {took:.0f} s; of the gateway that came after one: {second}\n")
    return ended


def _line(kind: Kind, phase: Phase, ended: list[Ended]) -> str:
    attempts = sum(len(each.counted.attempts) for each in ended)
    effects = Counter(len(each.counted.effects) for each in ended)
    asked = Counter(str(each.run.doubt) for each in ended if each.run.is_doubtful)
    told = ", ".join(f"{asked[answer]} {answer}" for answer in Answer) if asked else "-"
    return (
        f"{kind:12} {phase:17} {len(ended):3} runs {sum(each.kills for each in ended):3} kills {attempts:3} attempts "
        f"{effects[0]:3} x 0 {effects[1]:3} x 1 {effects[2]:3} x 2 effects, {sum(asked.values()):2} uncertain: {told}"
    )
