"""A workflow for saved notebooks and terminals: as SVG, as a Markdown table, and as text in 80 columns."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape

from ozzie_server_ext.render.graph.geometry import (
    NAME_WIDTH,
    PLAIN,
    SMALL,
    WIDTH,
    Edge,
    Layout,
    Node,
    fitted,
    shown,
    text_width,
)
from ozzie_server_ext.render.graph.layout import HEAD_PAD, HEAD_ROOM, MOST_COMPACT, boxes, graph_layout
from ozzie_server_ext.render.graph.view import (
    ASKING,
    PROBLEMS,
    GraphStep,
    GraphView,
    Groups,
    StepState,
    as_one,
    awaited,
    cost_of,
    grouped,
    needs_of,
    second_lines,
    stacked,
    summary,
    time_of,
    titles,
    tried,
    trouble,
)
from ozzie_server_ext.render.icons import shape
from ozzie_server_ext.render.markdown_source import tag_text, text_source
from ozzie_server_ext.render.text import (
    LINE_WIDTH,
    columns,
    cut_columns,
    cut_end,
    duration,
    inside,
    step_count,
    visible_label,
)

# Lab's light theme on white, as viewers show the picture as an image whatever surrounds it.
_TEXT, _QUIET, _LINE, _BOX, _PAGE, _DONE = "#212121", "#757575", "#bdbdbd", "#e0e0e0", "#ffffff", "#9e9e9e"
_ROLES = {"idle": _QUIET, "run": "#1976d2", "ok": "#388e3c", "ask": "#e65100", "bad": "#d32f2f"}
_FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"

MOST_PROBLEMS = 20
_ROW, _ROWS_WIDTH, _ROWS_GAP = 24, 640, 18
_LONGEST_TITLE = 300


def graph_svg(view: GraphView, *, now: datetime | None = None, width: int = WIDTH) -> str:
    """Return `view` as an SVG. Without `now`, the time of running steps is left out."""
    layout = graph_layout(view, width=width)
    # A full node shows that it waits, but only as much of its failure as fits.
    problems = [step for step in view.problems if layout.form != "full" or step.state == "Failed"]
    rows = _problem_rows(problems, layout, now, max(layout.width, min(width, _ROWS_WIDTH)))
    wide = max(layout.width, min(width, _ROWS_WIDTH)) if rows else layout.width
    high = layout.height + (len(rows) * _ROW + _ROWS_GAP - _ROW // 2 if rows else 0)
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
            f' role="img" font-family="{escape(_FONT)}" font-size="{PLAIN}" fill="{_TEXT}">',
            f"<title>{_label(f'{view.name}, {view.state}')}</title>",
            f"<desc>{_label(_described(view))}</desc>",
            f'<rect width="{wide}" height="{high}" fill="{_PAGE}"/>',
            *_edges(view, layout),
            *_nodes(view, layout, now),
            *rows,
            "</svg>",
        ]
    )


def _described(view: GraphView) -> str:
    if view.kind == "fsm":
        current = next((step.title for step in view.steps if step.step_id == view.current), "")
        return f"{len(view.steps):,} states{f', now in {current}' if current else ''}."
    settled, *rest = summary(view)
    return f"{', '.join([f'{settled} steps have ended', *rest])}."


def _label(text: str) -> str:
    """Return a text of unlimited width, cut only to a reasonable length."""
    return escape(shown(text[:_LONGEST_TITLE]))


def _edges(view: GraphView, layout: Layout) -> Iterable[str]:
    """Yield the lines, those to active steps on top; their labels on white."""
    states = _states(view, layout)
    by_colour: dict[str, list[Edge]] = {_LINE: []}
    for edge in layout.edges:
        state = states[edge.to]
        is_live = state == "Working" or state in ASKING
        colour = _ROLES[shape(_icon(state))[0]] if is_live and view.kind == "dag" and layout.form != "dots" else _LINE
        by_colour.setdefault(colour, []).append(edge)
    for colour, edges in by_colour.items():
        if edges:
            yield f'<g fill="none" stroke="{colour}" stroke-width="1.25">'
            yield from (f'<path d="{each.path}"{_dashed(each.is_back)}/>' for each in edges)
            yield "</g>"
    for edge in layout.edges:
        if edge.label:
            x, y = edge.label_at
            wide = round(text_width(edge.label, SMALL))
            yield f'<rect x="{x - wide // 2}" y="{y - 9}" width="{wide}" height="11" fill="{_PAGE}"/>'
            yield _text(x, y, edge.label, size=SMALL, fill=_QUIET, anchor="middle")


def _nodes(view: GraphView, layout: Layout, now: datetime | None) -> Iterable[str]:
    steps = {step.step_id: step for step in view.steps}
    called = titles(view, ((node.step_ids, node.name) for node in layout.nodes if node.is_stack))
    for node in layout.nodes:
        members = [steps[each] for each in node.step_ids]
        if node.dots:
            yield from _box(node, members)
            continue
        one = as_one(members, node.name)
        after = awaited(one, steps, called) if view.kind == "dag" else ["Not reached yet"]
        times = len(members) if node.is_stack else one.visits
        many = f" × {times}" if times > 1 else ""
        yield "<g>"
        yield f"<title>{_label(f'{one.title}{many}, {one.state}')}</title>"
        yield from _frame(node, one.state, is_current=view.kind == "fsm" and node.node_id == view.current)
        if layout.form == "full":
            yield from _full(node, one, many, [*second_lines(one, after, now)])
        else:
            yield from _compact(node, one, many)
        yield "</g>"


def _frame(node: Node, state: StepState, *, is_current: bool) -> Iterable[str]:
    role = shape(_icon(state))[0]
    is_loud = role in ("run", "ask", "bad")
    stroke = f'stroke="{_ROLES[role] if is_loud else _LINE}"' + (' stroke-width="1.5"' if is_loud else "")
    fill = "none" if state == "Skipped" else _PAGE
    size = f'width="{node.w}" height="{node.h}" rx="2"'
    step = node.h // 11
    for out in (2 * step, step) if node.is_stack else ():
        yield f'<rect x="{node.x + out}" y="{node.y - out}" {size} fill="{_PAGE}" stroke="{_LINE}"/>'
    yield f'<rect x="{node.x}" y="{node.y}" {size} fill="{fill}" {stroke}{_dashed(state == "Waiting")}/>'
    if is_current:
        yield (
            f'<rect x="{node.x - 4}" y="{node.y - 4}" width="{node.w + 8}" height="{node.h + 8}" rx="3" fill="none"'
            f' stroke="{_ROLES["run"]}" stroke-width="1.5"/>'
        )


def _full(node: Node, step: GraphStep, many: str, lines: Sequence[str]) -> Iterable[str]:
    room = node.w - 32 - 4
    yield _drawn_icon(step.state, node.x + 10, node.y + 6, 0.94)
    name = fitted(step.title, room, PLAIN, most=NAME_WIDTH, end=many)
    yield _text(node.x + 32, node.y + 18, name, struck=step.state == "Skipped", fill=_name_colour(step.state))
    fits = next((line for line in lines if text_width(shown(line), SMALL) <= room), lines[-1])
    yield _text(node.x + 32, node.y + 35, fitted(fits, room, SMALL), size=SMALL, fill=_QUIET)


def _compact(node: Node, step: GraphStep, many: str) -> Iterable[str]:
    yield _drawn_icon(step.state, node.x + 6, node.y + 7, 0.75)
    name = fitted(step.title, node.w - 22 - 3, PLAIN - 1, most=NAME_WIDTH, end=many)
    struck = step.state == "Skipped"
    yield _text(node.x + 22, node.y + 17, name, size=PLAIN - 1, struck=struck, fill=_name_colour(step.state))


def _box(node: Node, steps: Sequence[GraphStep]) -> Iterable[str]:
    settled = sum(step.is_settled for step in steps)
    yield f'<rect x="{node.x}" y="{node.y}" width="{node.w}" height="{node.h}" rx="2" fill="{_PAGE}" stroke="{_BOX}"/>'
    yield _text(node.x + HEAD_PAD, node.y + 19, fitted(node.name, HEAD_ROOM, PLAIN, most=NAME_WIDTH))
    counts = f"{settled:,} of {len(steps):,}"
    yield _text(node.x + node.w - HEAD_PAD, node.y + 19, counts, size=SMALL, fill=_QUIET, anchor="end")
    by_state: dict[StepState, list[str]] = defaultdict(list)
    for dot, step in zip(node.dots, steps, strict=True):
        by_state[step.state].append(_dot(step.state, dot.x, dot.y))
    for state, dots in by_state.items():
        colour = _DONE if state == "Done" else _LINE if state == "Waiting" else _ROLES[shape(_icon(state))[0]]
        fill = colour if state == "Done" else "none"
        yield f'<g fill="{fill}" stroke="{colour}" stroke-width="1.5">{"".join(dots)}</g>'


def _dot(state: StepState, x: int, y: int) -> str:
    match state:
        case "Done" | "Working" | "Waiting":
            return f'<circle cx="{x}" cy="{y}" r="3.75"/>'
        case "Waiting for you" | "Waiting for your answer":
            return f'<path d="M{x} {y - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5Z"/>'
        case "Needs a decision":
            return f'<path d="M{x} {y - 4}l4.5 8h-9Z"/>'
        case "Failed":
            return f'<path d="M{x - 3.5} {y - 3.5}l7 7m0 -7l-7 7"/>'
        case "Skipped":
            return f'<path d="M{x - 3.5} {y}h7"/>'
        case "Stopped":
            return f'<path d="M{x - 3.5} {y - 3.5}h7v7h-7Z"/>'
        case "Paused":
            return f'<path d="M{x - 2} {y - 3.5}v7m4 -7v7"/>'


def _problem_rows(problems: Sequence[GraphStep], layout: Layout, now: datetime | None, wide: int) -> list[str]:
    """Return a row for each step that needs attention: a dot shows only that it does."""
    rows: list[str] = []
    for at, step in enumerate(problems[:MOST_PROBLEMS]):
        y = layout.height + _ROWS_GAP + at * _ROW
        base, right = y + 4, wide - HEAD_PAD
        skill = fitted(step.skill, 100, PLAIN - 1, most=NAME_WIDTH) if step.skill else ""
        left = 28 + (round(text_width(skill, PLAIN - 1)) + 8 if skill else 0)
        title = fitted(step.title, 150, PLAIN - 1, most=40)
        room = right - 60 - left - text_width(title, PLAIN - 1) - 16
        rows.append(
            _drawn_icon(step.state, HEAD_PAD, y - 7, 0.875)
            + (_text(28, base, skill, size=PLAIN - 1) if skill else "")
            + _text(left, base, title, size=PLAIN - 1, fill=_QUIET if skill else _TEXT)
            + _text(right - 60, base, fitted(trouble(step), room, PLAIN - 1), size=PLAIN - 1, fill=_QUIET, anchor="end")
            + _text(right, base, time_of(step, now), size=SMALL, fill=_QUIET, anchor="end")
        )
    if len(problems) > MOST_PROBLEMS:
        y = layout.height + _ROWS_GAP + MOST_PROBLEMS * _ROW
        rows.append(_text(28, y + 4, f"… and {len(problems) - MOST_PROBLEMS:,} more", size=PLAIN - 1, fill=_QUIET))
    return rows


def _states(view: GraphView, layout: Layout) -> Mapping[str, StepState]:
    steps = {step.step_id: step for step in view.steps}
    return {node.node_id: as_one([steps[each] for each in node.step_ids]).state for node in layout.nodes}


def _icon(state: StepState) -> str:
    return "Queued" if state == "Waiting" else state


def _drawn_icon(state: StepState, x: int, y: int, scale: float) -> str:
    role, drawn = shape(_icon(state))
    return (
        f'<g transform="translate({x},{y}) scale({scale})" fill="none" stroke="{_ROLES[role]}" stroke-width="1.5"'
        f' stroke-linecap="round" stroke-linejoin="round">{drawn}</g>'
    )


def _name_colour(state: StepState) -> str:
    return _QUIET if state in ("Waiting", "Skipped") else _TEXT


def _dashed(is_so: bool) -> str:
    return ' stroke-dasharray="3 3"' if is_so else ""


def _text(
    x: int, y: int, text: str, *, size: int = PLAIN, fill: str = _TEXT, anchor: str = "start", struck: bool = False
) -> str:
    """Return a line of text that was already made visible, as its width was needed."""
    if not text:
        return ""
    attributes = [f' font-size="{size}"'] if size != PLAIN else []
    attributes += [f' fill="{fill}"'] if fill != _TEXT else []
    attributes += [f' text-anchor="{anchor}"'] if anchor != "start" else []
    attributes += [' text-decoration="line-through"'] if struck else []
    return f'<text x="{x}" y="{y}"{"".join(attributes)}>{escape(text)}</text>'


_INDENT, _NAME = 2, 40


def graph_text(view: GraphView, *, now: datetime | None = None) -> str:
    """Return the whole list as text, without anything that a terminal would obey."""
    return "\n".join(line for _, _, line in _lines(view, now))


class GraphWriter:
    """Returns what to print next as a workflow goes on: first all of it, then a line for each change of state. The
    progress of a group is no change: it would print a line for each of its steps."""

    def __init__(self) -> None:
        self._printed: dict[tuple[str, ...], StepState] = {}

    def update(self, view: GraphView, now: datetime | None = None) -> str:
        """Return the text to print now; "" if nothing has changed."""
        lines = _lines(view, now)
        out = [f"{line}\n" for key, state, line in lines if self._printed.get(key) != state]
        self._printed = {key: state for key, state, _ in lines}
        return "".join(out)


def _lines(view: GraphView, now: datetime | None) -> list[tuple[tuple[str, ...], StepState, str]]:
    """Return each line with its subject, and the state that it shows."""
    groups, is_short = _groups(view)
    steps = {step.step_id: step for step in view.steps}
    called = titles(view, zip(groups.steps, groups.names, strict=True))
    notes = summary(view)[: -1 if view.state in ASKING and view.asking else None]  # the state already says that
    head = _line(view.state, view.name, ", ".join(notes), 0)
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
    """Return what gets a line of its own: stacks and single steps or, if there are too many, boxes."""
    needs = needs_of(view)
    # Similar states are still different ones: they make no stack.
    alone = range(len(view.steps))
    single = stacked(view.steps, needs) if view.kind == "dag" else grouped(view.steps, needs, alone)
    return (single, False) if len(single.steps) <= MOST_COMPACT else (boxes(view.steps, needs), True)


def _step_line(step: GraphStep, after: str, now: datetime | None, indent: int = _INDENT) -> str:
    if step.state == "Failed":
        notes = [trouble(step)]
    elif step.state == "Waiting":
        notes = [inside(after)]
    else:
        notes = [time_of(step, now), step.note or tried(step)]
    times = f" × {step.visits}" if step.visits > 1 else ""
    return _line(step.state, step.title, ", ".join(filter(None, notes)), indent, times)


def _group_line(one: GraphStep, members: Sequence[GraphStep], now: datetime | None, *, is_short: bool) -> str:
    notes = [one.note or f"{len(members):,} of {len(members):,}" if is_short else one.note, time_of(one, now)]
    times = "" if is_short else f" × {len(members):,}"
    return _line(one.state, one.title, ", ".join(filter(None, notes)), _INDENT, times)


def _problem_lines(members: Sequence[GraphStep], now: datetime | None) -> list[tuple[tuple[str, ...], StepState, str]]:
    """Return the first steps of a group that need attention."""
    found = [step for step in members if step.state in PROBLEMS]
    lines: list[tuple[tuple[str, ...], StepState, str]] = [
        ((step.step_id, "problem"), step.state, _step_line(step, "", now, 2 * _INDENT))
        for step in found[:MOST_PROBLEMS]
    ]
    if len(found) > MOST_PROBLEMS:
        more = f"{' ' * 2 * _INDENT}… and {len(found) - MOST_PROBLEMS:,} more"
        lines.append(((members[0].step_id, "more"), "Failed", more))
    return lines


def _line(state: StepState, name: str, notes: str, indent: int, times: str = "") -> str:
    """Return a line of at most 80 columns: a long name leaves room for the notes."""
    start = f"{' ' * indent}[{state.lower()}] "
    notes = visible_label(notes)
    room = LINE_WIDTH - columns(start)
    least = min(_NAME, room) if notes else room
    named = cut_columns(visible_label(name), least - columns(times)) + times
    return f"{start}{named}{f'  {cut_columns(notes, room - columns(named) - 2)}' if notes else ''}".rstrip()


MOST_ROWS = 20
_CELL_WIDTH = 80
_NAMED = 5
_NOT_REACHED = "not reached"


def graph_table(view: GraphView, more: str, *, has_ended: bool) -> str:
    """Return the steps, folded, below a line that says how they ended. If there are more than `MOST_ROWS`, those that
    need attention are shown; `more` says where the others are: "task 01JD4T…"."""
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
    words = trouble(step) if step.state == "Failed" else step.note or tried(step)
    result = ", ".join(filter(None, (words, cost_of(step))))
    cells = [_cell(step.title + times), _cell(result), _word(step, has_ended), time_of(step)]
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text_source(cut_end(visible_label(text), _CELL_WIDTH))


def _word(step: GraphStep, has_ended: bool) -> str:
    return _NOT_REACHED if has_ended and step.state == "Waiting" else step.state.lower()


def _summary(view: GraphView, has_ended: bool) -> str:
    counted = Counter(_word(step, has_ended) for step in view.steps)
    words = ", ".join(f"{count:,} {word}" for word, count in counted.items())
    starts = [step.started_at for step in view.steps if step.started_at]
    ends = [step.finished_at for step in view.steps if step.finished_at]
    took = [duration((max(ends) - min(starts)).total_seconds())] if starts and ends else []
    failed = [f"{step.title} failed" for step in view.steps if step.state == "Failed"][:_NAMED]
    details = f" ({', '.join([*took, *failed])})" if took or failed else ""
    return f"{step_count(len(view.steps))} of {view.name}: {words}{details}"


def graph_bundle(view: GraphView) -> dict[str, str]:
    """Return the picture of a workflow, to show beside the turn's output, and the same as text."""
    return {"image/svg+xml": graph_svg(view), "text/plain": graph_text(view)}
