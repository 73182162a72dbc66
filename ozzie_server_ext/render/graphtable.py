"""A workflow as a Markdown table within its turn's saved output: without the picture, nothing is lost (UX §4)."""

from collections import Counter

from ozzie_server_ext.render.graphview import PROBLEMS, GraphStep, GraphView
from ozzie_server_ext.render.graphwords import cost_of, time_of, tried, trouble
from ozzie_server_ext.render.markdown_source import tag_text, text_source
from ozzie_server_ext.render.text import cut_end, duration, step_count, visible_label

MOST_ROWS = 20
_CELL_WIDTH = 80
_NAMED = 5
_NOT_REACHED = "not reached"


def graph_table(view: GraphView, more: str, *, has_ended: bool) -> str:
    """The steps, folded, with a line that says how they ended. Of more than `MOST_ROWS`, what a person is to look at is
    among those that are shown; `more` says where the others are: "task 01JD4T…"."""
    steps = _shown(view.steps)
    lines = [
        f"<details><summary>{tag_text(visible_label(_summary(view, has_ended)))}</summary>",
        "",
        "| Step | Result | State | Time |",
        "|---|---|---|---|",
        *(_row(step, has_ended) for step in steps),
        "",
    ]
    if len(steps) < len(view.steps):
        lines += [text_source(f"… and {len(view.steps) - len(steps):,} more in {more}"), ""]
    return "\n".join([*lines, "</details>"])


def _shown(steps: tuple[GraphStep, ...]) -> tuple[GraphStep, ...]:
    if len(steps) <= MOST_ROWS:
        return steps
    first = sorted(range(len(steps)), key=lambda at: (steps[at].state not in PROBLEMS, at))[:MOST_ROWS]
    return tuple(steps[at] for at in sorted(first))


def _row(step: GraphStep, has_ended: bool) -> str:
    times = f" × {step.visits}" if step.visits > 1 else ""
    said = trouble(step) if step.state == "Failed" else step.note or tried(step)
    result = ", ".join(filter(None, (said, cost_of(step))))
    cells = [_cell(step.title + times), _cell(result), _word(step, has_ended), time_of(step)]
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text_source(cut_end(visible_label(text), _CELL_WIDTH))


def _word(step: GraphStep, has_ended: bool) -> str:
    return _NOT_REACHED if has_ended and step.state == "Waiting" else step.state.lower()


def _summary(view: GraphView, has_ended: bool) -> str:
    counted = Counter(_word(step, has_ended) for step in view.steps)
    told = ", ".join(f"{count:,} {word}" for word, count in counted.items())
    starts = [step.started_at for step in view.steps if step.started_at]
    ends = [step.finished_at for step in view.steps if step.finished_at]
    took = [duration((max(ends) - min(starts)).total_seconds())] if starts and ends else []
    failed = [f"{step.title} failed" for step in view.steps if step.state == "Failed"][:_NAMED]
    behind = f" ({', '.join([*took, *failed])})" if took or failed else ""
    return f"{step_count(len(view.steps))} of {view.name}: {told}{behind}"
