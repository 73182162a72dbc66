"""What is said of a step or a group of steps: in a node's second line, in a list, below the dots (UX §3, §5)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ozzie_server_ext.render.graphview import ASKING, GraphStep, GraphView, state_of_all
from ozzie_server_ext.render.text import duration, elapsed, money

COST_UNKNOWN = "cost unknown"
_NAMED = 2


def as_one(steps: Sequence[GraphStep], name: str = "") -> GraphStep:
    """Several steps told as if they were one called `name`: how many have settled or failed is its note."""
    first = steps[0]
    if len(steps) == 1:
        return replace(first, title=name or first.title)
    starts = [step.started_at for step in steps if step.started_at]
    ends = [step.finished_at for step in steps if step.finished_at]
    settled = sum(step.is_settled for step in steps)
    return replace(
        first,
        title=name or first.title,
        state=state_of_all(step.state for step in steps),
        needs=tuple(dict.fromkeys(need for step in steps for need in step.needs)),
        model=first.model if len({step.model for step in steps}) == 1 else "",
        started_at=min(starts, default=None),
        finished_at=max(ends, default=None) if settled == len(steps) else None,
        cost=sum(step.cost for step in steps),
        cost_known=all(step.cost_known for step in steps),
        note=counted(steps),
        attempt=0,
        problem=next((step.problem for step in steps if step.problem), ""),
    )


def counted(steps: Sequence[GraphStep]) -> str:
    """What of several steps is worth telling: "28 of 60, 2 failed"; empty once all went well."""
    settled = sum(step.is_settled for step in steps)
    failed = sum(step.state == "Failed" for step in steps)
    asking = sum(step.state in ASKING for step in steps)
    told = [f"{settled:,} of {len(steps):,}"] if settled < len(steps) or failed else []
    told += [f"{failed:,} failed"] if failed else []
    return ", ".join([*told, *([f"{asking:,} waiting for you"] if asking else [])])


def titles(view: GraphView, named: Iterable[tuple[tuple[str, ...], str]]) -> dict[str, str]:
    """What each step is called where it is told of: by its title, or by the name of its group where that has one."""
    called = {step.step_id: step.title for step in view.steps}
    return called | {each: name for ids, name in named if name for each in ids}


def awaited(step: GraphStep, steps: Mapping[str, GraphStep], called: Mapping[str, str]) -> list[str]:
    """ "After check claims and merge", "After check claims + 1": what is to settle before this step, fullest first;
    none where nothing is."""
    names = [called[each] for each in step.needs if each in steps and not steps[each].is_settled]
    names = list(dict.fromkeys(names))
    if len(names) < 2:
        return [f"After {name}" for name in names]
    whole = f"{names[0]} and {len(names) - 1} more" if len(names) > _NAMED else " and ".join(names)
    return [f"After {whole}", f"After {names[0]} + {len(names) - 1}"]


def second_lines(step: GraphStep, after: Sequence[str], now: datetime | None = None) -> Iterator[str]:
    """The second line of a node, fullest first: model, cost and note are dropped in turn where there is no room."""
    match step.state:
        case "Waiting":
            yield from after or ("Waiting",)
        case "Waiting for you" | "Waiting for your answer" | "Needs a decision":
            yield step.state
        case "Skipped":
            yield "Skipped"
        case "Paused":
            told = step.note or tried(step) or "Paused"
            yield from (" · ".join(filter(None, [told, time_of(step)])), told)
        case "Failed":
            yield step.problem or (step.note or "Failed")
        case "Working" | "Done" | "Stopped":
            took, model, note, cost = time_of(step, now), step.model, step.note or tried(step), cost_of(step)
            word = step.state if step.state == "Stopped" or not took else ""
            for parts in ([word, took, model, note, cost], [word, took, note, cost], [word, took, note], [word, took]):
                yield " · ".join(filter(None, parts))


def time_of(step: GraphStep, now: datetime | None = None) -> str:
    """ "2.1 s"; while it runs "6 s"; empty where nothing was measured."""
    seconds = step.seconds(now)
    if seconds is None:
        return ""
    return duration(seconds) if step.finished_at else elapsed(seconds)


def cost_of(step: GraphStep) -> str:
    """What it cost, where it cost anything; an unknown cost never reads as nothing."""
    if not step.cost_known:
        return COST_UNKNOWN
    return money(step.cost) if step.cost else ""


def tried(step: GraphStep) -> str:
    """ "attempt 2 of 3", from the second one on."""
    return f"attempt {step.attempt} of {step.attempts}" if step.attempt > 1 else ""


def trouble(step: GraphStep) -> str:
    """What is to be seen to, in a few words: why a step failed, or that it waits for a person."""
    if step.state != "Failed":
        return step.state
    attempts = f"{step.attempt} of {step.attempts} attempts" if step.attempt > 1 else ""
    return "; ".join(filter(None, (step.problem.removesuffix("."), attempts))) or "Failed"


def summary(view: GraphView) -> list[str]:
    """ "150 of 200", "12 running", "2 failed", "1 waiting for you"."""
    told = [view.counts]
    told += [f"{view.running:,} running"] if view.running else []
    told += [f"{view.failed:,} failed"] if view.failed else []
    return told + ([f"{view.asking:,} waiting for you"] if view.asking else [])
