"""A turn while it runs."""

import re
import subprocess
import sys
from datetime import timedelta

import pytest

from ozzie_server_ext.render.icons import icon
from ozzie_server_ext.render.live import STYLE, LiveTurn
from ozzie_server_ext.render.markdown import CARET
from tests.unit.render.frames import (
    ASKED,
    BEGINNING,
    DONE,
    END,
    PUT,
    START,
    TASK,
    WORK,
    Frame,
    call,
    folded,
    live_html,
    waiting,
)


def shown(html: str) -> str:
    """The words that a person sees, a space between elements."""
    text = re.sub(r"<[^>]*>", " ", html.replace(STYLE, "")).replace("&quot;", '"')
    return re.sub(r"\s+", " ", text).strip()


def test_the_state_line_says_state_time_step_tokens_cost_and_model():
    running = [*BEGINNING, *WORK[:4], (2.1, "tool.call.started", {"call_id": "t1"})]
    html = live_html(folded(running), START + timedelta(seconds=18.7))
    assert shown(html).startswith("Working 18 s read_file 1,940 tokens $0.012 main ")
    assert 'role="group" aria-label="Turn, Working"' in html


def test_the_state_line_appears_before_anything_is_heard():
    assert shown(live_html(folded([]), START)) == "Queued"


def test_a_row_shows_tool_argument_result_and_time():
    rows = shown(live_html(folded([*BEGINNING, *WORK])))
    assert "read_file notes/suppliers.md 64 lines 0.1 s" in rows
    assert "fetch_url prices.example.org/list outside content 12 kB 1.8 s" in rows


def test_a_running_row_counts():
    view = folded(
        [(1, "tool.call.requested", {"call_id": "t", "name": "python"}), (2, "tool.call.started", {"call_id": "t"})]
    )
    assert shown(live_html(view, START + timedelta(seconds=6.2))).endswith("python 4.2 s")


def test_the_caret_stands_only_where_text_is_coming_in():
    assert CARET in live_html(folded(BEGINNING))
    assert CARET not in live_html(folded([*BEGINNING, *WORK]))
    assert CARET not in live_html(folded(DONE))


def test_the_body_is_busy_until_the_end():
    assert 'aria-busy="true"' in live_html(folded(BEGINNING))
    assert 'aria-busy="false"' in live_html(folded(DONE))


def test_an_error_is_a_sentence_and_what_to_do():
    error = {"code": "c", "message": "The provider refused the key.", "hint": "Check it with `ozzie secrets set K`."}
    html = live_html(folded([*BEGINNING[:3], (1, "task.failed", error)]))
    assert "<b>The provider refused the key.</b>" in html
    assert "<code>ozzie secrets set K</code>. Your message is kept." in html


def test_a_waiting_turn_counts_its_approvals():
    assert shown(live_html(folded(waiting()), START + timedelta(seconds=99))).startswith(
        "Waiting for you 3 s 1 approval"
    )


def test_drawing_a_turn_as_it_grows_ends_where_drawing_it_once_does():
    live, html = LiveTurn(), ""
    for length in range(len(DONE) + 1):
        html = live.html(folded(DONE[:length]), START)
    assert html == live_html(folded(DONE), START)


def test_very_many_rows_are_bounded():
    frames = [frame for n in range(300) for frame in call(f"t{n}", "read_file", {}, n, summary="", duration_ms=1)]
    html = live_html(folded(frames))
    assert html.count('role="listitem"') == 200
    assert "100 steps before these" in html


def many_parts(count: int, text: str) -> list[Frame]:
    """A turn that goes on, in which each text is followed by ten steps."""
    frames: list[Frame] = [*BEGINNING[:3]]
    for part in range(count):
        frames.append((part, "message.completed", {"reply_id": f"p{part}", "text": f"Part {part}. {text}"}))
        for row in range(10):
            frames += call(f"t{part}-{row}", "read_file", {}, part, summary="", duration_ms=1)
    return frames


def test_of_a_turn_of_very_many_parts_the_end_is_drawn_while_it_goes_on():
    frames = many_parts(50, "")
    html = live_html(folded(frames))
    assert html.count('role="listitem"') == 200
    assert "Part 49." in html
    assert "Part 29." not in html
    assert shown(html).startswith(
        "Working 0 s 300 steps before this, and the text above, are shown when the turn ends."
    )

    ended = live_html(folded([*frames, (60, "task.succeeded", {"rounds": 50})]))
    assert "Part 0." in ended
    assert "shown when the turn ends" not in ended


def test_very_much_text_is_bounded_while_the_turn_goes_on():
    html = live_html(folded(many_parts(5, "word " * 10_000)))
    assert len(html) < 250_000
    assert "Part 4." in html

    texts: list[Frame] = [
        (n, "message.completed", {"reply_id": f"p{n}", "text": f"Part {n}. {'word ' * 30_000}"}) for n in range(3)
    ]
    assert "The text above this is shown when the turn ends." in live_html(folded([*BEGINNING[:3], *texts]))


def test_a_time_that_runs_on_says_where_it_stands_in_seconds():
    running: list[Frame] = [
        (2, "tool.call.requested", {"call_id": "t", "name": "read_file", "args": {}}),
        (2, "tool.call.started", {"call_id": "t"}),
    ]
    html = live_html(folded([*BEGINNING, *running]), START + timedelta(seconds=5.25))
    assert re.findall(r'class="(oz-\w+)"[^>]* data-s="([^"]*)">([^<]*)<', html) == [
        ("oz-t", "5.2", "5 s"),
        ("oz-dur", "3.2", "3.2 s"),
    ]
    assert "data-s" not in live_html(folded(DONE))
    held: Frame = (3, "task.waiting_input", {"question": "Which?"})
    assert "data-s" not in live_html(folded([*BEGINNING, held]), START + timedelta(seconds=9))


@pytest.mark.parametrize("status", ["Queued", "Working", "Done", "Failed", "Stopped", "asked", "running", "unknown"])
def test_icons_are_hidden_from_screen_readers_and_take_their_colour_from_the_theme(status: str):
    assert 'aria-hidden="true"' in icon(status)
    assert "#" not in icon(status)


def test_the_ring_goes_on_where_it_was_when_it_is_drawn_again():
    assert "animation-delay:-0.30s" in icon("Working", 3.9)


def test_every_rule_of_the_style_stays_inside_a_turn():
    rules = re.sub(
        r"@keyframes [^{]*\{[^{}]*\{[^{}]*\}\s*\}", "", STYLE.removeprefix("<style>").removesuffix("</style>")
    )
    for selectors in re.findall(r"([^{}]+)\{[^{}]*:", rules):
        for selector in selectors.split(","):
            assert re.match(r"\s*(@|\.oz\b|:where\(\.oz-md\))", selector), selector
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_what_the_kernel_imports_to_draw_leaves_the_parsers_for_later():
    code = "import sys, ozzie_server_ext.render.live, ozzie_server_ext.render.static; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30).stdout
    assert not {"markdown_it", "mdformat", "IPython", "ipywidgets", "tornado", "msgspec"} & set(loaded.split())


def test_text_after_work_stands_after_it():
    html = shown(live_html(folded([*BEGINNING, *WORK, *END])))
    assert html.index("I will read") < html.index("fetch_url") < html.index("both")


def test_a_turn_that_waits_says_behind_how_many_after_a_while():
    waiting = folded([*BEGINNING[:2], (None, "task.progress", {"ahead": 2})])

    assert shown(live_html(waiting, START + timedelta(seconds=1))) == "Queued"
    assert shown(live_html(waiting, START + timedelta(seconds=3))) == "Queued behind 2 tasks"
    assert "behind" not in shown(live_html(folded(BEGINNING), START + timedelta(seconds=3)))


def test_a_budget_that_is_nearly_used_up_is_a_word_in_the_state_line():
    frames: list[Frame] = [*BEGINNING, (None, "task.progress", {"budget": 83})]
    assert " 83 % of budget " in shown(live_html(folded(frames), START))
    assert "of budget" not in shown(live_html(folded([*frames, *ASKED]), START)), "the question says it"
    assert "of budget" not in shown(live_html(folded([*frames, (9, "task.succeeded", {"rounds": 1})])))


def test_a_question_stands_below_what_was_done_with_its_notes_and_the_ways_to_answer():
    view = folded([*BEGINNING, *ASKED])
    html = live_html(view, START + timedelta(seconds=99))

    text = shown(html)
    assert text.startswith("Waiting for your answer 3 s")
    assert "This turn has used its $1.00. The next step takes $0.04 at the most." in text
    assert f"Allow $0.50 more: ozzie tasks answer {TASK} allow" in text
    assert f"Stop here: ozzie tasks answer {TASK} stop" in text


def test_a_question_of_the_models_keeps_its_lines_and_its_call_waits():
    frames = [*BEGINNING, *call("t1", "ask_user", {"question": "Which year?"}, 2.0, duration_ms=1)[:2], *PUT]
    html = live_html(folded(frames), START + timedelta(seconds=99))

    assert "Which year do you mean?<br>The table has two." in html
    text = shown(html)
    assert f"2025: ozzie tasks answer {TASK} 1 The last full one." in text
    assert 'text "TEXT"' in text
    assert "ask_user Which year? Waiting for your answer" in text


def test_what_a_tool_prints_stands_below_its_row_while_it_runs() -> None:
    printed: Frame = (3, "tool.output", {"call_id": "t1", "lines": ["a <b>", "z\u202e"], "count": 2310})
    running = [*BEGINNING, *call("t1", "shell", {"command": "make"}, 2.0, duration_ms=1)[:3], printed]
    html = live_html(folded(running), START + timedelta(seconds=9))

    assert "<pre>a &lt;b&gt;\nz\\u202e</pre>" in html
    assert "2,308 lines before these" in html
    done: Frame = (4, "tool.call.completed", {"call_id": "t1", "ok": True, "summary": "built", "duration_ms": 9})
    assert "<pre>" not in live_html(folded([*running, done]), START + timedelta(seconds=9))


def test_what_was_answered_asks_no_more_and_half_an_answer_is_gone():
    answered = [
        *BEGINNING,
        (2, "message.completed", {"reply_id": "r1", "text": "I will", "finish": "cancelled"}),
        *ASKED,
        (50, "prompt.answered", {"prompt_id": "p1", "option": "allow", "by": "ann"}),
        (50, "task.resumed", {"by": "ann"}),
        (50, "task.queued", {"reason": "answered"}),
        (51, "task.started", {"attempt": 2, "epoch": "e"}),
    ]
    text = shown(live_html(folded(answered), START + timedelta(seconds=52)))

    assert text.startswith("Working 5 s"), "the time that it waited is not counted"
    assert "used its" not in text
    assert "I will" not in text
    assert "restart" not in text


@pytest.mark.parametrize("end", ["task.cancelled", "task.failed"])
def test_a_turn_that_ended_asks_nothing(end: str):
    assert "used its" not in shown(live_html(folded([*BEGINNING, *ASKED, (60, end, {"by": "ann"})])))
