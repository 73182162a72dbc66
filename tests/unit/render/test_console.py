"""A turn as text: whole, and piece by piece as it grows."""

from datetime import timedelta

import pytest

from ozzie_server_ext.render.console import ConsoleWriter, console_lines, plain_text, row_line
from ozzie_server_ext.render.text import columns
from ozzie_server_ext.render.toolrows import ToolRow
from tests.unit.render.frames import ASKED, BEGINNING, DONE, FIRST, PUT, START, TASK, Frame, call, folded


def written(frames: list[Frame]) -> list[str]:
    writer = ConsoleWriter()
    views = [folded(frames[:length]) for length in range(len(frames) + 1)]
    return [writer.update(view) + writer.asks(view) for view in views]


def test_what_is_written_piece_by_piece_is_the_whole_form():
    assert "".join(written(DONE)) == plain_text(folded(DONE)) + "\n"


def test_streamed_text_is_written_once():
    pieces = written(BEGINNING)
    assert "".join(pieces) == f"[working] main\n{FIRST}"
    assert pieces[-1] == FIRST[20:]


def test_a_row_is_written_when_its_outcome_is_known():
    pieces = written([BEGINNING[3], *call("t", "read_file", {"path": "a.md"}, 1, summary="2 lines", duration_ms=5)])
    assert "".join(pieces[:-1]) == "[working] main\n"
    assert pieces[-1] == "  read_file     a.md                          2 lines                0.0 s\n"


def test_nothing_is_written_twice_for_a_turn_that_has_ended():
    writer = ConsoleWriter()
    assert writer.update(folded(DONE))
    assert writer.update(folded(DONE)) == ""


def test_a_reply_that_began_anew_is_written_anew_on_a_line_of_its_own():
    frames: list[Frame] = [
        (0, "task.started", {"attempt": 1}),
        (None, "reply.delta", {"reply_id": "r", "offset": 0, "content": "One way"}),
        (None, "reply.reset", {"reply_id": "r"}),
        (None, "reply.delta", {"reply_id": "r", "offset": 0, "content": "Another way"}),
    ]
    assert "".join(written(frames)) == "[working]\nOne way\nAnother way"


def test_a_turn_that_goes_on_after_a_restart_says_so_before_it_says_its_text_again():
    frames: list[Frame] = [
        *BEGINNING,
        (5, "task.queued", {"reason": "recovered"}),
        (5, "task.started", {"attempt": 2}),
        (None, "reply.delta", {"reply_id": "again", "offset": 0, "content": "All of it"}),
    ]
    pieces = "".join(written(frames))
    assert pieces == f"[working] main\n{FIRST}\nContinued after a restart. Nothing was done twice.\nAll of it"


def test_a_terminal_is_given_nothing_to_obey():
    frames: list[Frame] = [
        (None, "reply.delta", {"reply_id": "r", "offset": 0, "content": "a\x1b[2Jb\x07\x9b31m\r\nc\u202ed"}),
        *call("t", "x\x1b]0;t\x07", {"path": "\x1b[31m"}, 1, summary="\x1b[0m", duration_ms=1),
        (2, "task.failed", {"code": "", "message": "bad \x1b[5m", "hint": "\x1b"}),
    ]
    for text in (plain_text(folded(frames)), "".join(written(frames))):
        assert not any(ord(char) < 32 and char != "\n" for char in text)
        assert "a\\u001b[2Jb\\u0007\\u009b31m\nc\\u202ed" in text


@pytest.mark.parametrize("length", [1, 40, 400])
def test_a_row_fits_in_eighty_columns(length: int):
    frames = call("t", "n" * length, {"path": "p" * length}, 1, summary="s" * length, duration_ms=3_599_000)
    assert all(len(line) <= 80 for line in console_lines(folded(frames)))


def test_an_ended_turn_says_why_and_what_to_do():
    failed: Frame = (2, "task.failed", {"code": "c", "message": "No model fits.", "hint": "Choose one with `%model`."})
    assert console_lines(folded([*BEGINNING[:3], failed])) == [
        "[working]",
        "No model fits.",
        "Choose one with `%model`. Your message is kept.",
        "[failed] 2.0 s",
    ]


def test_a_turn_that_waits_says_behind_how_many_once_and_after_a_while():
    writer = ConsoleWriter()
    waiting = [*BEGINNING[:2], (None, "task.progress", {"ahead": 2})]

    assert writer.update(folded(waiting), START + timedelta(seconds=1)) == ""
    assert writer.update(folded(waiting), START + timedelta(seconds=2)) == "[queued] behind 2 tasks\n"
    assert writer.update(folded([*waiting, (None, "task.progress", {"ahead": 1})]), START + timedelta(seconds=9)) == ""
    assert writer.update(folded([*waiting, *BEGINNING[2:4]]), START + timedelta(seconds=9)) == "[working] main\n"


def test_wide_letters_leave_the_columns_where_they_are():
    rows = [
        row_line(
            ToolRow(call_id="t", name="read_file", argument=argument, state="done", result="ok", duration_ms=5), "ok"
        )
        for argument in ("notes.md", "日本語のノート.md", "長い" * 30)
    ]
    assert [columns(row) for row in rows] == [columns(rows[0])] * 3


def test_a_long_sentence_is_broken_at_a_blank():
    failed: Frame = (2, "task.failed", {"code": "c", "message": "word " * 30, "hint": ""})
    lines = console_lines(folded([*BEGINNING[:3], failed]))
    assert all(len(line) <= 80 for line in lines)
    assert " ".join(lines).count("word") == 30


def test_a_question_of_the_models_keeps_its_lines_and_tells_of_its_choices():
    pieces = written([*BEGINNING, *PUT])

    assert pieces[-2].splitlines()[1:] == [
        "[waiting] Which year do you mean?",
        "The table has two.",
        "  2025: The last full one.",
        f"  2025: ozzie tasks answer {TASK} 1",
        f"  2026: ozzie tasks answer {TASK} 2",
        f'  Something else…: ozzie tasks answer {TASK} text "TEXT"',
        f"  Skip: ozzie tasks answer {TASK} skip",
    ]
    assert all(columns(line) <= 80 for line in "".join(pieces).splitlines())


def test_a_question_is_written_once_with_the_ways_to_answer():
    pieces = written([*BEGINNING, *ASKED])

    assert "".join(pieces).count("used its $1.00") == 1
    assert pieces[-2].splitlines()[1:] == [
        "[waiting] This turn has used its $1.00.",
        "The next step takes $0.04 at the most.",
        f"  Allow $0.50 more: ozzie tasks answer {TASK} allow",
        f"  Stop here: ozzie tasks answer {TASK} stop",
    ]
    assert all(columns(line) <= 80 for line in "".join(pieces).splitlines())
