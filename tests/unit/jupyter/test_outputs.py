"""What a kernel shows, as outputs in which nothing can act."""

import base64
import json
from typing import Any

import nbformat
import pytest

from ozzie_server_ext.jupyter.outputs import (
    MOST_CHARACTERS,
    MOST_OUTPUTS,
    MOST_PICTURES,
    Outputs,
    pictures_of,
    plain,
    raised_in,
    settled,
    text_of,
)
from ozzie_server_ext.tools.notebook.files import is_inert

PNG = b"\x89PNG\r\n\x1a\nrest"
PIXEL = base64.b64encode(PNG).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0rest").decode()
ACTIVE: dict[str, Any] = {
    "text/html": "<script>alert(1)</script>",
    "text/markdown": "<img src=x onerror=alert(1)>",
    "text/latex": "\\href{javascript:alert(1)}{x}",
    "image/svg+xml": "<svg onload=alert(1)>",
    "image/gif": PIXEL,
    "image/png; charset=x": PIXEL,
    "IMAGE/PNG": PIXEL,
    "application/javascript": "alert(1)",
    "application/pdf": PIXEL,
    "application/json": {"a": 1},
    "application/vnd.jupyter.widget-view+json": {"model_id": "a"},
    "application/vnd.ozzie.turn+json": {"v": 1},
    "application/vnd.vegalite.v5+json": {},
    "text/vnd.mermaid": "graph TD; click A call alert()",
    "text/plain\n": "x",
}


def shown(kind: str, **content: Any) -> Outputs:
    outputs = Outputs()
    outputs.take(kind, content)
    return outputs


def valid(outputs: Outputs) -> list[dict[str, Any]]:
    """The outputs, which a notebook may hold as they are."""
    found = json.loads(json.dumps(outputs.done()))
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": "", "execution_count": None, "outputs": found}
    nbformat.validate({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    return found


@pytest.mark.parametrize("kind", [*ACTIVE])
@pytest.mark.parametrize("message", ["display_data", "execute_result"])
def test_what_could_act_is_left_out_and_named(message: str, kind: str) -> None:
    outputs = shown(message, data={"text/plain": "ok", kind: ACTIVE[kind]}, metadata={"trusted": True}, transient={})
    (output,) = valid(outputs)
    assert output["data"] == {"text/plain": "ok"}
    assert output["metadata"] == {}
    assert len(outputs.left_out) == 1


def test_what_is_nothing_but_active_gives_no_output() -> None:
    outputs = shown("display_data", data=ACTIVE)
    assert valid(outputs) == []
    assert len(outputs.left_out) == len(ACTIVE)


@pytest.mark.parametrize(
    "bundle", [{"image/png": PIXEL}, {"image/jpeg": JPEG}, {"image/png": f"{PIXEL[:8]}\n{PIXEL[8:]}"}]
)
def test_pictures_of_pixels_stay(bundle: dict[str, str]) -> None:
    (output,) = valid(shown("display_data", data=bundle))
    ((kind, content),) = pictures_of([output])
    assert kind in bundle
    assert content.endswith(b"rest")


@pytest.mark.parametrize(
    "value",
    [
        "<svg onload=alert(1)>",
        base64.b64encode(b"<svg>").decode(),
        JPEG,
        "",
        "not base64!",
        7,
        None,
        ["a"],
        {"a": PIXEL},
    ],
)
def test_a_picture_that_is_none_is_left_out(value: object) -> None:
    assert valid(shown("display_data", data={"image/png": value})) == []


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"data": None},
        {"data": []},
        {"data": {"text/plain": 7}, "transient": []},
        {"data": {"text/plain": ["a", 7, None, "b"]}},
        {"name": "stdin", "text": "x"},
        {"name": "stdout", "text": None},
        {"name": [], "text": []},
        {"ename": 7, "evalue": {}, "traceback": "no list"},
        {"ename": None, "evalue": [], "traceback": [1, None, {}]},
        {"data": {"text/plain": "\ud800"}, "execution_count": "one"},
        {"data": {7: 7}, "execution_count": -1},
    ],
)
@pytest.mark.parametrize(
    "kind",
    ["stream", "display_data", "execute_result", "update_display_data", "error", "clear_output", "comm_open", ""],
)
def test_whatever_a_kernel_sends_is_a_valid_output_or_none(kind: str, content: dict[str, Any]) -> None:
    assert all(is_inert(output) for output in valid(shown(kind, **content)))


def test_streams_go_on_where_they_ended_and_progress_bars_show_their_end() -> None:
    outputs = Outputs()
    for text in ("10 %\r", "20 %\r", "done\n", "\x1b[31mred\x1b", "[0m\n"):
        outputs.take("stream", {"name": "stdout", "text": text})
    outputs.take("stream", {"name": "stderr", "text": "careful"})
    assert valid(outputs) == [
        {"output_type": "stream", "name": "stdout", "text": "done\nred\n"},
        {"output_type": "stream", "name": "stderr", "text": "careful"},
    ]


def test_clearing_waits_for_what_comes_next_where_it_is_told_to() -> None:
    outputs = shown("stream", name="stdout", text="old\n")
    outputs.take("clear_output", {"wait": True})
    outputs.take("stream", {"name": "stdout", "text": "new\n"})
    assert text_of(outputs.done()) == "new"
    outputs.take("clear_output", {"wait": False})
    assert outputs.done() == ()


def test_an_update_takes_the_place_of_what_was_displayed_and_costs_no_room() -> None:
    outputs = shown("display_data", data={"text/plain": "0"}, transient={"display_id": "bar"})
    for _ in range(20):
        outputs.take(
            "update_display_data", {"data": {"text/plain": "x" * 1_000_000}, "transient": {"display_id": "bar"}}
        )
    outputs.take("update_display_data", {"data": {"text/plain": "end"}, "transient": {"display_id": "bar"}})
    outputs.take("update_display_data", {"data": {"text/plain": "lost"}, "transient": {"display_id": "other"}})
    assert (text_of(outputs.done()), outputs.is_cut) == ("end", False)


def test_an_error_is_told_in_plain_text() -> None:
    outputs = shown(
        "error", ename="ValueError", evalue="no \x1b[1mway", traceback=["\x1b[0;31mValueError\x1b[0m", "at 1"]
    )
    assert valid(outputs) == [
        {"output_type": "error", "ename": "ValueError", "evalue": "no way", "traceback": ["ValueError", "at 1"]}
    ]
    assert raised_in(outputs.done()) == "ValueError: no way"
    assert text_of(outputs.done()) == "ValueError\nat 1"


@pytest.mark.parametrize(
    ("kind", "content", "most"),
    [
        ("stream", {"name": "stdout", "text": "x" * 1_000_000}, MOST_CHARACTERS),
        ("display_data", {"data": {"text/plain": "x" * 1_000_000}}, MOST_CHARACTERS),
        ("error", {"ename": "x" * 100_000, "evalue": "x" * 100_000, "traceback": ["x" * 1_000_000]}, MOST_CHARACTERS),
        ("display_data", {"data": {"image/png": base64.b64encode(PNG + bytes(1_000_000)).decode()}}, MOST_PICTURES),
    ],
    ids=["stream", "display", "error", "picture"],
)
def test_what_is_too_much_is_cut(kind: str, content: dict[str, Any], most: int) -> None:
    outputs = Outputs()
    for _ in range(30):
        outputs.take(kind, content)
    assert outputs.is_cut
    assert len(json.dumps(valid(outputs))) < most + 500_000


def test_many_small_outputs_are_cut_too() -> None:
    outputs = Outputs()
    for _ in range(MOST_OUTPUTS * 2):
        outputs.take("display_data", {"data": {"text/plain": "x"}})
    assert outputs.is_cut
    assert len(outputs.done()) == MOST_OUTPUTS


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b]8;;http://evil.example\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x1b\\text", "text"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x9b31mred", "red"),
        ("a\x00b\x07c\x08d\x7fe", "abcde"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x1b", ""),
        ("\x1b]never ended", "never ended"),
        ("tab\tand\nline\r\n", "tab\tand\nline\r\n"),
    ],
)
def test_what_draws_in_a_terminal_is_taken_out(text: str, left: str) -> None:
    assert plain(text) == left


def test_of_a_line_that_was_written_over_the_last_form_is_left() -> None:
    assert settled("a\r\nb\rc\nd\r") == "a\nc\nd"
