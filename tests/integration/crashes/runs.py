"""The matrix: which tool is cut off in which phase, at which point exactly, how it is answered, and what has to come of
it."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

PORT = "CRASH_COUNTER"
_ASKED = re.compile(r"Use (\S+) on (\S+)\.")
_MOST_BEFORE = 4
_SECOND_KILLS = 0.4
MOST_DELAY_S = 0.03


class Kind(StrEnum):
    """Of a tool, by what may be done again."""

    NONE = "none"
    IDEMPOTENT = "idempotent"
    REVERSIBLE = "reversible"
    IRREVERSIBLE = "irreversible"


class Phase(StrEnum):
    """Of a call, when its gateway is killed."""

    BEFORE_INTENT = "before intent"
    AFTER_INTENT = "after intent"
    AFTER_EFFECT = "after the effect"
    AFTER_OUTCOME = "after the outcome"
    PENDING = "approval pending"


@dataclass(frozen=True)
class Point:
    """Where in a phase. `nth`: at which passing; `holds`: the run stays there until its gateway is dead, and else goes
    on for a moment. `blocks`: the writer's thread is held, so nothing else of its gateway gets any further. An empty
    name is no point of the gateway's: the log says that it waits."""

    name: str
    nth: int = 1
    holds: bool = True
    blocks: bool = False

    def __str__(self) -> str:
        return f"{self.name or 'waiting'}{'' if self.nth == 1 else f'[{self.nth}]'}{'' if self.holds else ' and on'}"


PLANNED, PLANNED_AGAIN = Point("plan"), Point("plan", nth=2)
ARRIVED, LATE = Point("effect.arrived"), Point("effect.late")
WAITING, GOES_ON = Point(""), Point("outcome.after", holds=False)
POINTS = {
    Phase.BEFORE_INTENT: (PLANNED, Point("intent.before"), Point("intent.commit", blocks=True)),
    Phase.AFTER_INTENT: (
        Point("intent.committed", blocks=True),
        Point("intent.after"),
        Point("run"),
        ARRIVED,
        LATE,
    ),
    Phase.AFTER_EFFECT: (Point("effect.done"), Point("outcome.before"), Point("outcome.commit", blocks=True)),
    Phase.AFTER_OUTCOME: (Point("outcome.committed", blocks=True), Point("outcome.after"), Point("answer"), GOES_ON),
    Phase.PENDING: (Point("asked.committed", blocks=True), Point("asked.after"), WAITING),
}
AFTER_THE_YES = (Point("claim.before", nth=2), PLANNED_AGAIN)
"""Before the intent of a call that somebody allowed."""
RECOVERIES = ("recovery.before", "recovery.commit", "recovery.committed", "recovery.after")
"""The points of the append by which the next gateway takes up a task."""
DECISIONS = ("decision.before", "decision.commit", "decision.committed", "decision.after")
"""Those of the append that holds a person's answer."""
DURABLE = frozenset(DECISIONS[2:])
"""Where that is given, and need not be given again."""


class Answer(StrEnum):
    """To the question whether a call was had."""

    DONE = "done"
    AGAIN = "again"
    LEAVE = "leave"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One turn with one call. `asks`: a person has to allow the call. `doubt` is the answer to the question whether it
    was had; `yes` the one to a first question that is still open when the gateway dies, or comes later; `yes_again`
    the one to the question before it is made again. `in_terminal`: with `ozzie approvals`, not over REST."""

    name: str
    kind: Kind
    phase: Phase
    point: Point
    asks: bool
    doubt: Answer
    yes: bool
    yes_again: bool
    in_terminal: bool

    @property
    def path(self) -> str:
        return f"{'asked' if self.asks else 'free'}/{self.name}"

    @property
    def text(self) -> str:
        return f"Use crash_{self.kind} on {self.path}."

    @property
    def is_allowed_before(self) -> bool:
        """Whether a person had said yes when the gateway died."""
        return self.asks and self.phase is not Phase.PENDING and self.point != PLANNED

    @property
    def is_last(self) -> bool:
        """Of those whose gateway is killed together: it would keep the others from their point, or not wait."""
        return self.point.blocks or not self.point.holds

    @property
    def is_doubtful(self) -> bool:
        """Whether nobody but the counter can know what became of the call."""
        cut = self.phase in (Phase.AFTER_INTENT, Phase.AFTER_EFFECT)
        return cut and self.kind in (Kind.REVERSIBLE, Kind.IRREVERSIBLE)

    def __str__(self) -> str:
        asked = " asked" if self.asks else ""
        return f"{self.name} {self.kind} {self.phase} at {self.point}{asked}, {self.doubt}"


@dataclass(frozen=True)
class Expected:
    """Of a run: attempts and effects in the counter, intents and questions in the log, and the end of its task."""

    attempts: int
    effects: int
    intents: int
    approvals: int
    doubts: int
    end: str


def at_death(run: Run) -> tuple[int, int, int]:
    """Attempts, effects and intents that are there before the gateway is started again."""
    sent = run.phase in (Phase.AFTER_EFFECT, Phase.AFTER_OUTCOME) or run.point in (ARRIVED, LATE)
    had = sent and run.point != ARRIVED and run.kind is not Kind.NONE
    return int(sent), int(had), int(run.phase not in (Phase.BEFORE_INTENT, Phase.PENDING))


def expected(run: Run) -> Expected:
    attempts, effects, intents = at_death(run)
    again = run.is_doubtful and run.doubt is Answer.AGAIN
    match run.phase:
        case Phase.AFTER_OUTCOME:
            more = False
        case Phase.BEFORE_INTENT | Phase.PENDING:
            more = not run.asks or run.is_allowed_before or run.yes
        case _ if run.is_doubtful:
            more = again and (run.yes_again or not run.asks)
        case _:
            more = True
    if more and run.kind is not Kind.NONE:
        effects = 1 if run.kind is Kind.IDEMPOTENT else effects + 1
    return Expected(
        attempts=attempts + more,
        effects=effects,
        intents=intents + more,
        approvals=int(run.asks) + int(run.asks and again),
        doubts=int(run.is_doubtful),
        end="task.failed" if run.is_doubtful and run.doubt is Answer.LEAVE else "task.succeeded",
    )


@dataclass(frozen=True)
class SecondKill:
    """Of the next gateway: at a point of the recovery of a run, or of the answer to it."""

    run: Run
    point: str


@dataclass(frozen=True)
class Group:
    """Runs whose gateway is killed once for all of them. `delay_s` lies between the last one's point and the kill."""

    runs: tuple[Run, ...]
    again: SecondKill | None
    delay_s: float


def seeded_runs(chance: random.Random, each: int) -> list[Run]:
    """`each` runs of every tool in every phase, in an order of chance; with enough of them every point and every
    answer comes in each, and with one the tools are cut off at different points."""
    found: list[Run] = []
    for phase in Phase:
        begin = chance.randrange(60)
        for first, kind in enumerate(chance.sample(tuple(Kind), len(Kind)), begin):
            turn = chance.randrange(3)
            for number in range(first, first + each):
                asks = kind is Kind.IRREVERSIBLE or phase is Phase.PENDING or chance.random() < 0.3
                points = POINTS[phase] + (AFTER_THE_YES if asks and phase is Phase.BEFORE_INTENT else ())
                found.append(
                    Run(
                        name="",
                        kind=kind,
                        phase=phase,
                        point=points[number % len(points)],
                        asks=asks,
                        doubt=tuple(Answer)[(number // len(points) + turn) % 3],
                        yes=chance.random() < 0.8,
                        yes_again=chance.random() < 0.8,
                        in_terminal=chance.random() < 0.1,
                    )
                )
    chance.shuffle(found)
    return [replace(run, name=f"r{number:03d}") for number, run in enumerate(found, 1)]


def grouped(chance: random.Random, runs: Sequence[Run]) -> Iterator[Group]:
    """Some runs at a time, with one of those that have to be the last while there are any."""
    last = [run for run in runs if run.is_last]
    others = [run for run in runs if not run.is_last]
    while last or others:
        count = chance.randint(0 if last else 1, _MOST_BEFORE)
        together = [*others[:count], *last[:1]]
        del others[:count], last[:1]
        yield Group(tuple(together), _second_kill(chance, together), chance.uniform(0, MOST_DELAY_S))


def _second_kill(chance: random.Random, runs: Sequence[Run]) -> SecondKill | None:
    """The first run that is taken up is the one, so that no other goes on before the kill; the last one to be answered,
    so that all others have ended."""
    if chance.random() >= _SECOND_KILLS:
        return None
    begun = [run for run in runs if run.phase is not Phase.PENDING and run.point.holds]
    waiting = [run for run in runs if run.phase is Phase.PENDING or run.is_doubtful]
    kills = [SecondKill(begun[0], point) for point in RECOVERIES] if begun else []
    kills += [SecondKill(waiting[-1], point) for point in DECISIONS] if waiting else []
    return chance.choice(kills) if kills else None


def asked_for(text: str) -> tuple[str, str]:
    """The tool and the path that a message names. Raises ValueError."""
    found = _ASKED.search(text)
    if found is None:
        raise ValueError(f"not a run's message: {text}")
    return found[1], found[2]


def run_of(path: str) -> str:
    return path.partition("/")[2]
