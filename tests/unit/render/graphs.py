"""Workflows to draw: the one of the mockup, larger ones, and whatever hypothesis makes of their pieces."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from hypothesis import strategies as st

from ozzie_server_ext.render.graph.view import GraphStep, GraphView, Move, StepState

START = datetime(2026, 11, 24, 14, 5, tzinfo=UTC)
NOW = START + timedelta(seconds=21)
STATES: tuple[StepState, ...] = get_args(StepState)


def step(title: str, *needs: str, seconds: float | None = None, start: float = 0.0, **more: Any) -> GraphStep:
    """A step whose id is its title; done where it took some `seconds`, running where these began only."""
    began = START + timedelta(seconds=start)
    ended = began + timedelta(seconds=seconds or 0)
    state: StepState = more.pop("state", "Waiting" if seconds is None else "Done")
    return GraphStep(
        step_id=more.pop("step_id", title),
        title=title,
        needs=needs,
        state=state,
        started_at=None if seconds is None and state != "Working" else began,
        finished_at=None if seconds is None else ended,
        **more,
    )


def weekly_review() -> GraphView:
    """The mockup's graph: plan, four, two, two, with a stack of 24 in it."""
    tenders = [f"tender {number}" for number in range(24)]
    like = {"seconds": 9.2, "model": "cheap", "skill": "summarise", "cost": 11_000_000 // 24}
    return GraphView(
        name="weekly-review",
        steps=(
            step("plan", seconds=2.1, model="main", cost=4_000_000),
            step("read sources", "plan", seconds=0.8, note="14 files"),
            step("search web", "plan", seconds=3.4, model="cheap"),
            *(step(title, "plan", **like) for title in tenders),
            step("last week", "plan", seconds=0.3),
            step("check claims", "read sources", "search web", state="Working", start=15, model="main", note="3 of 8"),
            step("merge", *tenders, "last week", seconds=1.9, model="main", cost=6_000_000),
            step("write report", "check claims"),
            step("publish", "merge", state="Waiting for you"),
        ),
    )


def tender_scan() -> GraphView:
    """200 steps in five layers, as in the mockup: two have failed, twelve run, one asks."""
    steps: list[GraphStep] = []
    before: list[str] = []
    for skill, count, done in (
        ("fetch", 40, 40),
        ("extract", 80, 80),
        ("score", 60, 26),
        ("group", 16, 2),
        ("report", 4, 0),
    ):
        ids = [f"{skill} {number}" for number in range(count)]
        for number, each in enumerate(ids):
            needs = before[number :: len(ids)] or before[number % len(before) :][:1] if before else []
            seconds = 14.0 if number < done else None
            steps.append(step(f"tender {number:04}.pdf", *needs, step_id=each, skill=skill, seconds=seconds))
        before = ids
    told = {
        **{f"score {number}": {"state": "Working"} for number in range(28, 40)},
        "score 26": {
            "state": "Failed",
            "problem": "The answer had no number for “total”.",
            "attempt": 3,
            "attempts": 3,
        },
        "score 27": {"state": "Failed", "problem": "The file is empty."},
        "score 40": {"state": "Waiting for you"},
    }
    return changed(
        GraphView(name="tender-scan", steps=tuple(steps)), lambda each: replace(each, **told.get(each.step_id, {}))
    )


def reworked() -> GraphView:
    """A state machine that went back twice."""
    moves = (("draft", "review", ""), ("review", "rework", "not good"), ("rework", "review", "again"))
    more = (("review", "publish", "approved"), ("publish", "draft", "next week"))
    return GraphView(
        name="article",
        kind="fsm",
        current="rework",
        steps=(
            step("draft", seconds=8.2, visits=1),
            step("publish"),
            step("review", seconds=3.1, visits=3),
            step("rework", state="Working", start=15, visits=3),
        ),
        moves=tuple(Move(source=source, to=to, label=label) for source, to, label in moves + more),
    )


def chain(count: int) -> GraphView:
    """Steps one after the other."""
    ids = [f"step {number}" for number in range(count)]
    return GraphView(
        name="chain", steps=tuple(step(each, *ids[at - 1 : at] if at else ()) for at, each in enumerate(ids))
    )


def free(count: int) -> GraphView:
    """Steps that need nothing."""
    return GraphView(name="free", steps=tuple(step(f"n{number}") for number in range(count)))


def changed(view: GraphView, change: Callable[[GraphStep], GraphStep]) -> GraphView:
    return replace(view, steps=tuple(map(change, view.steps)))


@st.composite
def workflows(draw: st.DrawFn, most: int = 90) -> GraphView:
    """A workflow without circles, its steps in any order; some have a skill, a few need what is not there."""
    made = draw(st.lists(st.tuples(st.sets(st.integers(1, 30), max_size=4), st.sampled_from("  abc")), max_size=most))
    more = draw(st.integers(0, most)) if draw(st.booleans()) else 0
    ids = [f"n{number}" for number in range(len(made) + more)]
    steps = [
        step(each, *(f"n{at - back}" for back in sorted(backs)), skill=skill.strip())
        for at, (each, (backs, skill)) in enumerate(zip(ids, made, strict=False))
    ]
    if steps:  # a fan of like siblings: some workflows get a stack, or a layer that no row holds
        steps += [step(each, ids[0], skill="like" if more % 2 else "") for each in ids[len(made) :]]
    order = draw(st.randoms(use_true_random=False))
    order.shuffle(steps)
    return GraphView(name="any", steps=tuple(steps))


@st.composite
def machines(draw: st.DrawFn, most: int = 14) -> GraphView:
    """A state machine with any ways between its states."""
    count = draw(st.integers(1, most))
    ends = st.tuples(st.integers(0, count), st.integers(0, count - 1), st.sampled_from(["", "ok", "a long way back"]))
    moves = draw(st.lists(ends, max_size=30))
    return GraphView(
        name="any",
        kind="fsm",
        steps=tuple(step(f"n{number}") for number in range(count)),
        moves=tuple(Move(source=f"n{source}", to=f"n{to}", label=label) for source, to, label in moves),
    )
