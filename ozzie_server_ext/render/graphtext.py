"""A workflow as text in 80 columns: one step a line, and only what has changed once it was printed (UX §5)."""

from collections.abc import Sequence
from datetime import datetime

from ozzie_server_ext.render.columns import WIDTH, columns, cut_columns
from ozzie_server_ext.render.graphdots import boxes
from ozzie_server_ext.render.graphgroups import Groups, grouped, stacked
from ozzie_server_ext.render.graphlayout import MOST_COMPACT
from ozzie_server_ext.render.graphneeds import needs_of
from ozzie_server_ext.render.graphview import ASKING, PROBLEMS, GraphStep, GraphView, StepState
from ozzie_server_ext.render.graphwords import as_one, awaited, summary, time_of, titles, tried, trouble
from ozzie_server_ext.render.text import inside, visible_label

_INDENT, _NAME = 2, 40
MOST_PROBLEMS = 20


def graph_text(view: GraphView, *, now: datetime | None = None) -> str:
    """The whole list as text, with nothing in it that a terminal would obey."""
    return "\n".join(line for _, _, line in _lines(view, now))


class GraphWriter:
    """What to print next as a workflow goes on: at first all of it, then a line when its state has changed. How far a
    group has come is not a change: it would be a line for each of its steps."""

    def __init__(self) -> None:
        self._printed: dict[tuple[str, ...], StepState] = {}

    def update(self, view: GraphView, now: datetime | None = None) -> str:
        """The text to print now; "" where nothing has changed."""
        lines = _lines(view, now)
        out = [f"{line}\n" for key, state, line in lines if self._printed.get(key) != state]
        self._printed = {key: state for key, state, _ in lines}
        return "".join(out)


def _lines(view: GraphView, now: datetime | None) -> list[tuple[tuple[str, ...], StepState, str]]:
    """Each line with what it is about, and the state that it tells."""
    groups, is_short = _groups(view)
    steps = {step.step_id: step for step in view.steps}
    called = titles(view, zip(groups.steps, groups.names, strict=True))
    told = summary(view)[: -1 if view.state in ASKING and view.asking else None]  # the word before it says that
    head = _line(view.state, view.name, ", ".join(told), 0)
    lines: list[tuple[tuple[str, ...], StepState, str]] = [((), view.state, head)]
    for ids, name in zip(groups.steps, groups.names, strict=True):
        members = [steps[each] for each in ids]
        one = as_one(members, name)
        if is_short or len(ids) > 1:
            lines.append((ids, one.state, _group_line(one, members, now, is_short=is_short)))
            lines += _problem_lines(members, now)
        else:
            after = awaited(one, steps, called) if view.kind == "dag" else []
            lines.append((ids, one.state, _step_line(one, after[0] if after else "", now)))
    return lines


def _groups(view: GraphView) -> tuple[Groups, bool]:
    """What has a line of its own: stacks and single steps, or where these would be too many, what has a box."""
    needs = needs_of(view)
    # States that are alike are still different places to be in: they make no stack.
    alone = range(len(view.steps))
    single = stacked(view.steps, needs) if view.kind == "dag" else grouped(view.steps, needs, alone)
    return (single, False) if len(single.steps) <= MOST_COMPACT else (boxes(view.steps, needs), True)


def _step_line(step: GraphStep, after: str, now: datetime | None, indent: int = _INDENT) -> str:
    if step.state == "Failed":
        told = [trouble(step)]
    elif step.state == "Waiting":
        told = [inside(after)]
    else:
        told = [time_of(step, now), step.note or tried(step)]
    times = f" × {step.visits}" if step.visits > 1 else ""
    return _line(step.state, step.title, ", ".join(filter(None, told)), indent, times)


def _group_line(one: GraphStep, members: Sequence[GraphStep], now: datetime | None, *, is_short: bool) -> str:
    told = [one.note or f"{len(members):,} of {len(members):,}" if is_short else one.note, time_of(one, now)]
    times = "" if is_short else f" × {len(members):,}"
    return _line(one.state, one.title, ", ".join(filter(None, told)), _INDENT, times)


def _problem_lines(members: Sequence[GraphStep], now: datetime | None) -> list[tuple[tuple[str, ...], StepState, str]]:
    """The steps of a group that a person is to look at; of many, the first ones."""
    found = [step for step in members if step.state in PROBLEMS]
    lines: list[tuple[tuple[str, ...], StepState, str]] = [
        ((step.step_id, "problem"), step.state, _step_line(step, "", now, 2 * _INDENT))
        for step in found[:MOST_PROBLEMS]
    ]
    if len(found) > MOST_PROBLEMS:
        more = f"{' ' * 2 * _INDENT}… and {len(found) - MOST_PROBLEMS:,} more"
        lines.append(((members[0].step_id, "more"), "Failed", more))
    return lines


def _line(state: StepState, name: str, told: str, indent: int, times: str = "") -> str:
    """One line of at most 80 columns: a long name leaves room for what is told of it."""
    start = f"{' ' * indent}[{state.lower()}] "
    said = visible_label(told)
    room = WIDTH - columns(start)
    least = min(_NAME, room) if said else room
    named = cut_columns(visible_label(name), least - columns(times)) + times
    return f"{start}{named}{f'  {cut_columns(said, room - columns(named) - 2)}' if said else ''}".rstrip()
