"""The tables of docs/events.md, made from the code: `python -m tests.docs.events_table` writes them."""

import inspect
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

from ozzie_server_ext.domain.events import EVENT_CLASSES, Transient
from ozzie_server_ext.protocol.frames import NAMES, Names
from tests.docs.generated import replaced

PAGE = Path(__file__).resolve().parents[2] / "docs" / "events.md"
HEAD = ("Event", "What it says", "Fields", "S0", "S1", "S4", "FazAI")


def recorded() -> str:
    """The facts that go into the log."""
    rows = [
        (
            kind.type,
            first_sentence(kind),
            ", ".join(f"`{name}`" for name in kind.__struct_fields__),
            *others(kind.type),
        )
        for kind in EVENT_CLASSES
    ]
    return _table(HEAD, rows)


def transient() -> str:
    """What goes through the feed only."""
    names = get_args(get_type_hints(Transient)["type"])
    return _table((HEAD[0], *HEAD[3:]), [(name, *others(name)) for name in names])


def others(canonical: str) -> tuple[str, ...]:
    return tuple(f"`{name}`" if name else "" for name in NAMES.get(canonical, Names()))


def first_sentence(kind: type[Any]) -> str:
    text = " ".join(inspect.cleandoc(kind.__doc__ or "").split())
    # References are for who reads the code.
    return re.sub(r" \([^)]*\)", "", re.split(r"(?<=[.!?]) (?=[A-Z`])", text)[0])


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *((f"`{name}`", *rest) for name, *rest in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def with_tables(page: str) -> str:
    """The page with the tables as the code has them now."""
    return replaced(replaced(page, "recorded", recorded()), "transient", transient())


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
