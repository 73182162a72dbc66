"""What a notebook is told once, before the first message of a kernel (NB-14, NB-15)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ozzie_kernel.connect import Link
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.render.page import Command, Inline, Paragraph, Strong, paragraph

ANSWER_S = 5.0
"""How long the message waits for it. Nothing is worth more than that the cell runs."""


async def announcements(link: Link, cell_id: str) -> list[Paragraph]:
    """Sentences to show above the cell's turn; none where there is nothing to say."""
    said: list[Paragraph] = []
    if link.copy_of:
        said.append(
            paragraph(
                "This notebook is a copy. It goes on in a session of its own, which knows what was said in ",
                Strong(link.copy_of),
                " up to now.",
            )
        )
    if cell_id:
        try:
            found = await link.client.request("session.earlier", {"cell_id": cell_id}, timeout_s=ANSWER_S)
        except OzzieError:
            found = {}  # the message itself will say what is wrong
        earlier = found.get("earlier")
        if isinstance(earlier, dict):
            said.append(_ran_before(earlier))
    return said


def _ran_before(earlier: Mapping[str, Any]) -> Paragraph:
    turns = int(earlier["turns"])
    last = datetime.fromisoformat(str(earlier["last_at"])).astimezone()
    times = "once" if turns == 1 else f"{turns:,} times"
    return paragraph(
        f"Cells of this notebook ran {times} before, last on {last:%Y-%m-%d} at {last:%H:%M}. ",
        "Running one again asks anew, as a further turn",
        *_repeated(earlier["effects"]),
    )


def _repeated(effects: Mapping[str, int]) -> list[Inline]:
    if not effects:
        return ["; none of them changed anything, so nothing is changed twice."]
    named: list[Inline] = ["; what may be done a second time: "]
    for index, (name, count) in enumerate(effects.items()):
        named += [*([", "] if index else []), Command(name), *([f" ({count} times)"] if count > 1 else [])]
    return [*named, "."]
