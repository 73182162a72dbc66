"""A finished turn as plain output that any front end shows, without kernel, extension or network."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ozzie_server_ext.render.console import plain_text
from ozzie_server_ext.render.graph.view import GraphView
from ozzie_server_ext.render.markdown_source import code_source, inert_parts, plain_source, tag_text, text_source
from ozzie_server_ext.render.text import cut_end, duration, step_count, visible_label
from ozzie_server_ext.render.toolrows import SERVERS_WORDS, ToolRow
from ozzie_server_ext.render.turnview import (
    TextPart,
    TurnError,
    TurnView,
    WorkPart,
    about_message,
    figures,
    result_text,
    unresolved,
)

TURN_MIME = "application/vnd.ozzie.turn+json"
UNFINISHED = "This turn was still running when the notebook was saved."
"""In place of a turn that had not ended. Pages look for it (`labextension/src/model/outputs.ts`)."""
MAX_JSON_BYTES = 64 * 1024
MAX_TABLE_ROWS = 20
MAX_MODELS = 3
"""In the footer of a turn; of more models, the last item is their number."""
_CELL_WIDTH = 80
_PROVIDER_WIDTH = 500
_NAMED_TOOLS = 6
_TEXT_STEPS = (48_000, 12_000, 4_000, 1_000, 200)
_JSON_ROWS = 200
_SENTENCE = 2_000


def static_bundle(view: TurnView, graph: GraphView | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return MIME bundle and metadata of one `display_data` for `view` and the `graph` of its run. No HTML and no SVG:
    nbconvert and GitHub would show either instead of the Markdown."""
    data = {TURN_MIME: turn_json(view), "text/markdown": turn_markdown(view, graph), "text/plain": plain_text(view)}
    return data, {"ozzie": {"session": view.session_id, "task": view.task_id, "turn": view.task_id}}


def turn_markdown(view: TurnView, graph: GraphView | None = None) -> str:
    """Return the turn as inert Markdown: the failure if any, the steps of its run, its parts in order, and a line of
    figures."""
    texts = iter(inert_parts([part.text for part in view.parts if isinstance(part, TextPart)]))
    shown = text_source(visible_label(about_message(view)))
    blocks = [_opening(view), f"<sub>{shown}</sub>" if shown else ""]
    if graph is not None:
        from ozzie_server_ext.render.graph.output import graph_table  # what draws is loaded with the first graph

        blocks.append(graph_table(graph, f"task {_task(view)}", has_ended=view.is_final))
    for part in view.parts:
        if isinstance(part, TextPart):
            blocks.append(next(texts))
        else:
            blocks += [_details(part, view), *_servers_words(part)]
    if view.closing:
        blocks.append(text_source(visible_label(view.closing)))
    if view.error is not None:
        blocks.append(_failure(view, view.error))
    blocks.append(f"<sub>{' · '.join(text_source(item) for item in _footer(view))}</sub>")
    return "\n\n".join(block for block in blocks if block) + "\n"


def turn_json(view: TurnView) -> dict[str, Any]:
    """Return the turn as data, of the type `TURN_MIME` beside the Markdown: at most 64 kB, without secrets and without
    results of tools. Long texts are cut, and `cut` then says so; the gateway has the whole."""
    rows_limit = _JSON_ROWS
    for text_limit in _TEXT_STEPS:
        # A notebook file can't hold what UTF-8 can't (halves of surrogate pairs).
        raw = json.dumps(_json(view, text_limit, rows_limit), ensure_ascii=False).encode("utf-8", "replace")
        if len(raw) <= MAX_JSON_BYTES:
            return json.loads(raw)
        rows_limit //= 2
    raw = json.dumps(_json(replace(view, parts=()), 0, 0) | {"cut": True}, ensure_ascii=False)
    return json.loads(raw.encode("utf-8", "replace"))


def _opening(view: TurnView) -> str:
    if view.status == "Done":
        return ""
    if view.error is not None:
        sentences = (view.error.message, view.error.advice)
        return f"**{view.status}.** " + " ".join(_sentence(text) for text in sentences if text)
    if view.is_final:
        return f"**{view.status}.**"
    return text_source(f"{UNFINISHED} Open it with Ozzie to see the rest (task {_task(view)}).")


def _sentence(text: str) -> str:
    """Return a sentence of ours, in which backticks mark commands."""
    pieces = visible_label(text).split("`")
    if len(pieces) % 2 == 0:  # a mark without its partner
        return text_source(visible_label(text))
    return "".join(code_source(piece) if at % 2 else text_source(piece) for at, piece in enumerate(pieces) if piece)


def _failure(view: TurnView, error: TurnError) -> str:
    """Return the details of a failure, folded."""
    details = {
        "Time": view.finished_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if view.finished_at else "",
        "Code": code_source(visible_label(error.code)),
        "Task": code_source(visible_label(view.task_id)),
        "Provider said": code_source(cut_end(visible_label(error.detail), _PROVIDER_WIDTH)) if error.detail else "",
    }
    rows = [f"| {name} | {value} |" for name, value in details.items() if value]
    return "\n".join(["<details><summary>Details</summary>", "", "| | |", "|---|---|", *rows, "", "</details>"])


def _details(part: WorkPart, view: TurnView) -> str:
    rows = part.rows
    lines = [
        f"<details><summary>{tag_text(_summary(rows))}</summary>",
        "",
        "| Step | Arguments | Result | State | Time |",
        "|---|---|---|---|---|",
        *(line for row in rows[:MAX_TABLE_ROWS] for line in (*_approval_row(row), _table_row(row, rows))),
        "",
    ]
    if len(rows) > MAX_TABLE_ROWS:
        lines += [text_source(f"… and {len(rows) - MAX_TABLE_ROWS} more in task {_task(view)}"), ""]
    return "\n".join([*lines, "</details>"])


def _servers_words(part: WorkPart) -> list[str]:
    """Return the words of servers' prompts, which the model answered."""
    found: list[str] = []
    for row in part.rows[:MAX_TABLE_ROWS]:
        if row.words:
            found += [text_source(SERVERS_WORDS), plain_source(row.words)]
    return found


def _summary(rows: tuple[ToolRow, ...]) -> str:
    names = list(dict.fromkeys(row.name for row in rows))
    shown = ", ".join(names[:_NAMED_TOOLS]) + (" …" if len(names) > _NAMED_TOOLS else "")
    measured = [row.duration_ms for row in rows if row.duration_ms is not None]
    notes = [duration(sum(measured) / 1000)] if measured else []
    if approved := sum(bool(row.approved) for row in rows):
        notes.append("1 approval" if approved == 1 else f"{approved} approvals")
    notes += unresolved(rows)[:5]
    return f"{step_count(len(rows))}: {shown}" + (f" ({', '.join(notes)})" if notes else "")


def _table_row(row: ToolRow, rows: tuple[ToolRow, ...]) -> str:
    result = result_text(row, rows)
    if row.outside:
        result = f"{result}, outside content" if result else "outside content"
    took = "" if row.duration_ms is None else duration(row.duration_ms / 1000)
    cells = [
        code_source(cut_end(row.name, _CELL_WIDTH)),
        code_source(cut_end(row.argument, _CELL_WIDTH)) if row.argument else "",
        text_source(cut_end(result, _CELL_WIDTH)),
        "not allowed" if row.state == "denied" else row.state,
        took,
    ]
    return f"| {' | '.join(cells)} |"


def _approval_row(row: ToolRow) -> tuple[str, ...]:
    """Return a row that says who approved the call below it."""
    if not row.approved:
        return ()
    return (f"| approval | {code_source(cut_end(row.argument, _CELL_WIDTH))} | {text_source(row.approved)} | done | |",)


def _footer(view: TurnView) -> list[str]:
    named = [_model(*each) for each in view.models]
    if view.instead_of:
        named[0] += f", instead of {view.instead_of}"
    if len(named) > MAX_MODELS:
        named[MAX_MODELS - 1 :] = [f"{len(named) - MAX_MODELS + 1} more models"]
    continued = "continued after a restart" if view.recoveries else ""
    items = [f"Ozzie: {view.status}", continued, *named, *figures(view), f"task {_task(view)}" if view.task_id else ""]
    return [visible_label(item) for item in items if item]


def _model(alias: str, provider: str, model: str) -> str:
    full = f"{provider}/{model}" if provider and model else model or provider
    return f"{alias} ({full})" if alias and full else alias or full


def _task(view: TurnView) -> str:
    return f"{view.task_id[:6]}…" if len(view.task_id) > 7 else view.task_id


def _json(view: TurnView, text_limit: int, rows_limit: int) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    cut = False
    for part in view.parts:
        if isinstance(part, TextPart):
            cut = cut or len(part.text) > text_limit
            parts.append({"type": "text", "text": part.text[:text_limit]})
        else:
            cut = cut or len(part.rows) > rows_limit
            rows = [_json_row(row, part.rows) for row in part.rows[:rows_limit]]
            parts.append({"type": "work", "rows": rows})
    error = view.error
    return {
        "v": 1,
        "session": view.session_id,
        "task": view.task_id,
        "status": view.status,
        "model": {
            "alias": view.alias,
            "provider": view.provider,
            "model": view.model,
            **({"instead_of": view.instead_of} if view.instead_of else {}),
        },
        **({"models": [_json_model(*each) for each in view.models[:_JSON_ROWS]]} if view.delegated else {}),
        "usage": {"input_tokens": view.input_tokens, "output_tokens": view.output_tokens},
        "cost": view.cost if view.cost_known else None,
        "times": {
            "started": _moment(view.started_at),
            "finished": _moment(view.finished_at),
            "worked_s": round(view.elapsed_s(), 3),
            "waited_s": round(view.waited_s, 3),
        },
        **{
            name: [path[:_CELL_WIDTH] for path in paths]
            for name, paths in (("pictures", view.pictures), ("absent", view.absent))
            if paths
        },
        "parts": parts,
        "closing": view.closing[:_SENTENCE],
        "error": None
        if error is None
        else {
            "code": error.code,
            "message": error.message[:_SENTENCE],
            "hint": error.hint[:_SENTENCE],
            "detail": error.detail[:_SENTENCE],
        },
        "cut": cut,
    }


def _json_model(alias: str, provider: str, model: str) -> dict[str, str]:
    return {"alias": alias, "provider": provider, "model": model}


def _json_row(row: ToolRow, rows: tuple[ToolRow, ...]) -> dict[str, Any]:
    return {
        "call": row.call_id,
        "tool": row.name,
        "argument": row.argument,
        "state": row.state,
        "result": result_text(row, rows),
        "duration_ms": row.duration_ms,
        "labels": sorted({source.partition(":")[0] for source in row.brought}),
        **({"sources": list(row.brought)} if row.brought else {}),
        **({"artifacts": list(row.artifacts)} if row.artifacts else {}),
        **({"approved": row.approved} if row.approved else {}),
    }


def _moment(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="milliseconds") if moment else None
