"""SPEC.md says what is spoken: every operation, method, frame, field of the handshake, command and event."""

import dataclasses
import re
from pathlib import Path

from ozzie_server_ext.gateway.routes import PREFIX, REST, WS_PATH
from ozzie_server_ext.protocol import frames, worker
from ozzie_server_ext.protocol.handshake import Handshake
from tests.docs.spec_tables import with_tables

ROOT = Path(__file__).resolve().parents[2]
SPEC = (ROOT / "SPEC.md").read_text()


def section(heading: str) -> str:
    """The part of SPEC.md below this heading."""
    found = re.search(rf"^## {re.escape(heading)}.*?\n(.*?)(?=^## |\Z)", SPEC, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of each row of the tables in `text`, headings left out."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_tables_of_operations_are_as_the_code_is() -> None:
    assert with_tables(SPEC) == SPEC, "run: python -m tests.docs.spec_tables"
    assert f"`GET {PREFIX}{WS_PATH}`" in SPEC


def test_every_status_of_a_refusal_is_told() -> None:
    told = {int(status) for status in re.findall(r"\b(4\d\d|5\d\d)\b", section("REST"))}

    assert told == {status for operation in REST for status in operation.refusals} | {405}


def test_the_frames_that_are_shown_are_frames() -> None:
    shown = re.findall(r"^\{.*\}$", section("WebSocket"), re.MULTILINE)
    kinds = {re.search(r'"type":"(\w+)"', line)[1] for line in shown}  # pyright: ignore[reportOptionalSubscript]

    assert kinds == {"req", "res", "event"}
    for line in shown:
        frames.decode_frames(line.replace("…", "x"))


def test_the_fields_of_the_handshake_are_those_of_the_file() -> None:
    written = re.search(r"`\{([\w, ]+)\}`", section("Handshake"))

    assert written is not None
    assert written[1].split(", ") == [field.name for field in dataclasses.fields(Handshake)]


def fields_of(kind: type) -> set[str]:
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    return {*kind.__struct_fields__}


def test_every_command_and_event_of_the_worker_is_told_with_its_fields() -> None:
    written = {cells[0].strip("`"): set(names(cells[1])) for cells in rows(section("Worker"))}
    kinds = {**worker._COMMANDS, **worker._EVENTS}
    there = {name: fields_of(kind) for name, kind in kinds.items()}
    sent = {
        name
        for pattern in ("*worker*.py", "plane_child.py")
        for file in (ROOT / "ozzie_server_ext" / "programs").glob(pattern)
        for name in re.findall(r'send\(\{"type": "(\w+)"', file.read_text())
    }

    assert {name: written[name] for name in there} == there
    assert set(written) == {*there, *sent}
