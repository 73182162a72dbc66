"""A session as a notebook: a code cell for each message, with the saved form of its turn as output.

The notebook names no session, so that a kernel which opens it begins a new one; only that of a fork names its own. The
outputs have nothing that acts.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ozzie_server_ext.export import texts
from ozzie_server_ext.export.proof import NUMBER, Item, found_cell
from ozzie_server_ext.export.session import ErasedTurn, ExportedSession, Message, Turn
from ozzie_server_ext.render.graph.output import graph_bundle
from ozzie_server_ext.render.markdown_source import line_source
from ozzie_server_ext.render.page import Block, page_bundle, page_markdown, paragraph
from ozzie_server_ext.render.static import TURN_MIME, static_bundle

Cell = dict[str, Any]

_KERNEL = {
    "kernelspec": {"name": "ozzie", "display_name": "Ozzie", "language": "markdown"},
    "language_info": {"name": "markdown", "mimetype": "text/markdown", "file_extension": ".md"},
}
"""As the kernel itself says."""


def notebook_of(session: ExportedSession, at: datetime) -> tuple[dict[str, Any], tuple[Item, ...]]:
    """Return the notebook, and what a proof says of each cell."""
    cells: list[Cell] = []
    items: list[Item] = []
    head = page_markdown([*texts.about(session, at), *texts.about_notebook()])
    for number, (cell, turn) in enumerate(_cells(session, head)):
        cells.append({"id": f"cell-{number}", **cell, "metadata": {NUMBER: number}})
        found = found_cell(cells[-1])
        task, events, digest = ("", 0, "") if turn is None else (turn.task_id, turn.events, turn.digest)
        items.append(Item(found.shown, found.source, task, events, digest))
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": dict(_KERNEL), "cells": cells}, tuple(items)


def fork_notebook_of(session: ExportedSession, about: Sequence[Block]) -> dict[str, Any]:
    """Return the notebook of a fork, in which its session goes on: the cells of its history, with what there is to say
    `about` it above them, and an empty one."""
    cells = [cell for cell, _ in _cells(session, page_markdown(about))]
    cells.append({"cell_type": "code", "execution_count": None, "source": "", "outputs": []})
    numbered = [{"id": f"cell-{number}", **cell, "metadata": {}} for number, cell in enumerate(cells)]
    metadata = {**_KERNEL, "ozzie": {"session": session.extent.session_id}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": numbered}


def _cells(session: ExportedSession, head: str) -> Iterator[tuple[Cell, Turn | None]]:
    """Yield each cell, and the turn that it shows."""
    yield _markdown(f"# {line_source(texts.title_of(session.extent))}\n\n{head}"), None
    count = 0
    for part in session.parts:
        if isinstance(part, ErasedTurn):
            yield _markdown(f"*{line_source(texts.erased(part))}*"), None
            continue
        for message in part.messages:
            count += 1
            outputs = _outputs(part) if message is part.messages[0] else []
            yield _code(message, count, outputs), part


def _markdown(source: str) -> Cell:
    return {"cell_type": "markdown", "source": source}


def _code(message: Message, count: int, outputs: list[dict[str, Any]]) -> Cell:
    said = _display(page_bundle([paragraph(f"{texts.heading(message)}.")]))
    return {"cell_type": "code", "execution_count": count, "source": message.text, "outputs": [said, *outputs]}


def _outputs(turn: Turn) -> list[dict[str, Any]]:
    data, _ = static_bundle(turn.view, turn.graph)
    if not turn.view.is_final:
        del data[TURN_MIME]  # our page would look for the rest of the turn
    outputs = [_display(data)]
    return outputs if turn.graph is None else [*outputs, _display(graph_bundle(turn.graph))]


def _display(data: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {}}
