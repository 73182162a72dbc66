"""What the kernel completes by itself, where in a cell it looks, and what it asks the gateway."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_kernel.completion import LINE_CHARS, asks_gateway, line_at, names_sessions, own_matches, shifted
from ozzie_kernel.magics import MAGICS
from ozzie_server_ext.domain.json import JsonObject
from tests.hostile.samples import NAMES, render_sample


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("%c", (0, ["%cost", "%config"])),
        ("  %c", (2, ["%cost", "%config"])),
        ("%nope", (0, [])),
        ("%session a", (9, ["archive"])),
        ("%session archive ", None),
        ("%model o", None),
        ("%help m", (6, ["model"])),
        ("%cost x", None),
        ("100 %c", None),
        ("hello", None),
        ("", None),
    ],
)
def test_commands_and_their_words_are_the_kernels_own(line: str, found: tuple[int, list[str]] | None) -> None:
    assert own_matches(line, is_first=False) == found


def test_python_begins_a_cell_and_no_other_line() -> None:
    assert own_matches("%%", is_first=True) == (0, ["%%python"])
    assert own_matches("%%", is_first=False) == (0, [])


@pytest.mark.parametrize(
    ("line", "asks"),
    [("%model ", True), ("%session resume x", True), ("see @", True), ("hello", False), ("%cost", False)],
)
def test_the_gateway_is_asked_where_it_may_know_something(line: str, asks: bool) -> None:
    assert asks_gateway(line) is asks


def test_other_sessions_are_the_users_and_not_the_kernels_to_ask_for() -> None:
    assert names_sessions("%session resume x")
    assert names_sessions("  %session close ")
    assert not names_sessions("%session title x")
    assert not names_sessions("tell me of %session resume x")


@given(st.text(alphabet="a%\n😀é@ ", max_size=60), st.integers(-3, 80))
def test_the_cursors_line_is_found_wherever_it_stands(code: str, cursor: int) -> None:
    start, line, at = line_at(code, cursor)

    assert 0 <= at <= len(line)
    assert code[start : start + len(line)] == line
    assert "\n" not in line


def test_only_so_much_of_a_long_line_is_looked_at() -> None:
    start, line, at = line_at("x" * 100_000, 50_000)

    assert (start, at, len(line)) == (50_000 - LINE_CHARS, LINE_CHARS, 2 * LINE_CHARS)


def test_places_in_a_line_become_places_in_the_cell() -> None:
    reply = shifted({"start": 2, "end": 4, "matches": [{"text": "@data/", "kind": "folder"}]}, 10)

    assert (reply["cursor_start"], reply["cursor_end"], reply["matches"]) == (12, 14, ["@data/"])
    assert reply["metadata"]["_jupyter_types_experimental"][0]["type"] == "folder"


def test_beside_a_models_name_stands_what_it_stands_for() -> None:
    model: JsonObject = {"text": "main", "kind": "model", "detail": "openai/gpt, local"}
    session: JsonObject = {"text": "Plans", "kind": "session", "detail": "sess_1"}
    kinds = shifted({"start": 0, "end": 0, "matches": [model, {**model, "detail": ""}, session]}, 0)["metadata"]

    shown = [kind["type"] for kind in kinds["_jupyter_types_experimental"]]
    assert shown == ["openai/gpt, local", "model", "session"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_hostile_is_offered_by_the_kernel(name: str) -> None:
    known = {f"%{magic}" for magic in MAGICS} | {"%%python"} | set(MAGICS) | set(MAGICS["session"].words)

    for line in render_sample(name, "http://127.0.0.1:9").split("\n"):
        found = own_matches(line, is_first=True)
        assert found is None or set(found[1]) <= known
