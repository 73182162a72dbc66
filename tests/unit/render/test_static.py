"""The saved form of a turn."""

import json
from dataclasses import replace

import nbformat.v4
import pytest
from nbformat import validate

from ozzie_server_ext.render.static import MAX_JSON_BYTES, TURN_MIME, static_bundle, turn_json, turn_markdown
from ozzie_server_ext.render.turnfold import fold, new_turn
from ozzie_server_ext.render.turnview import TextPart
from tests.unit.render.frames import BEGINNING, DONE, FIRST, SESSION, TASK, WORK, Frame, call, folded, live_html

GOLDEN = """\
I will read our list and the price page, then match the two.

<details><summary>2 steps: read_file, fetch_url (1.9 s)</summary>

| Step | Arguments | Result | State | Time |
|---|---|---|---|---|
| `read_file` | `notes/suppliers.md` | 64 lines | done | 0.1 s |
| `fetch_url` | `prices.example.org/list` | 12 kB, outside content | done | 1.8 s |

</details>

The list now has **both** new prices.

<sub>Ozzie: Done · main (anthropic/claude-sonnet) · 24.0 s · 3,120 tokens · &#36;0.021 · task 01JD4T…</sub>
"""

PLAIN = """\
[working] main
I will read our list and the price page, then match the two.
  read_file     notes/suppliers.md            64 lines               0.1 s
  fetch_url     prices.example.org/list       12 kB  outside         1.8 s
The list now has **both** new prices.
[done] 24.0 s, 3,120 tokens, $0.021"""


def test_a_finished_turn_is_saved_as_markdown_and_text():
    data, metadata = static_bundle(folded(DONE))
    assert data["text/markdown"] == GOLDEN
    assert data["text/plain"] == PLAIN
    assert metadata == {"ozzie": {"session": SESSION, "task": TASK, "turn": TASK}}


def test_the_json_has_the_fields_of_the_format_and_no_raw_output():
    found = static_bundle(folded(DONE))[0][TURN_MIME]
    assert {"v", "session", "task", "model", "usage", "cost", "times", "parts"} <= set(found)
    assert found["times"]["worked_s"] == 24
    assert [part["type"] for part in found["parts"]] == ["text", "work", "text"]
    assert found["parts"][1]["rows"][1] == {
        "call": "t2",
        "tool": "fetch_url",
        "argument": "prices.example.org/list",
        "state": "done",
        "result": "12 kB",
        "duration_ms": 1800.0,
        "labels": ["web"],
        "sources": ["web:prices.example.org"],
    }


def test_a_notebook_with_the_bundle_is_valid_and_can_be_written():
    data, metadata = static_bundle(
        folded([*DONE[:-2], (24, "task.failed", {"message": "\ud800", "hint": "", "code": ""})])
    )
    output = nbformat.v4.new_output("display_data", data=data, metadata=metadata)
    validate(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=[output])]))
    written = json.dumps([data, metadata], ensure_ascii=False).encode()
    assert b"\xed\xa0" not in written, "a lone surrogate is no text"
    assert json.loads(written)[0]["text/markdown"] == data["text/markdown"]


@pytest.mark.parametrize("size", [60_000, 1_000_000])
def test_the_json_of_a_long_turn_stays_below_its_limit(size: int):
    long = replace(folded(DONE), parts=tuple(TextPart(reply_id=str(n), text="ü" * (size // 4)) for n in range(4)))
    found = turn_json(long)
    assert len(json.dumps(found, ensure_ascii=False).encode()) <= MAX_JSON_BYTES
    assert found["cut"] is True


def test_the_json_of_very_many_parts_and_rows_stays_below_its_limit():
    frames = [
        frame
        for n in range(400)
        for frame in call(f"t{n}", "read_file", {"path": "x" * 80}, n, summary="y" * 90, duration_ms=1)
    ]
    texts = [(None, "reply.delta", {"reply_id": f"r{n}", "offset": 0, "content": "z" * 300}) for n in range(400)]
    mixed = [frame for n in range(400) for frame in (*frames[4 * n : 4 * n + 4], texts[n])]
    for many in (frames, mixed):
        assert len(json.dumps(turn_json(folded(many)))) <= MAX_JSON_BYTES  # fmt: skip


def test_a_turn_without_tools_has_no_table():
    text = turn_markdown(folded([*BEGINNING, (3, "task.succeeded", {"rounds": 1})]))
    assert "<details>" not in text
    assert text.startswith(FIRST)


def test_one_call_still_has_its_table():
    frames = call("t", "calculator", {"expression": "0.175*2480"}, 1, summary="434", duration_ms=2)
    assert "<details><summary>1 step: calculator (0.0 s)</summary>" in turn_markdown(folded(frames))


def test_more_than_twenty_rows_are_counted_and_not_shown():
    frames = [
        f
        for n in range(54)
        for f in call(f"t{n}", "read_file", {"path": f"{n}.md"}, n, summary="1 line", duration_ms=1)
    ]
    text = turn_markdown(folded(frames))
    assert text.count("| `read_file` |") == 20
    assert "… and 34 more in task 01JD4T…" in text


def test_the_folded_line_names_what_went_wrong_and_was_not_made_good():
    failed: list[Frame] = [
        (1, "tool.call.requested", {"call_id": "a", "name": "fetch_url", "args": {"url": "http://a/"}}),
        (2, "tool.call.failed", {"call_id": "a", "message": "Timed out.", "duration_ms": 1000}),
    ]
    assert "(1.0 s, fetch_url failed)</summary>" in turn_markdown(folded(failed))
    again = call("b", "fetch_url", {"url": "http://a/"}, 3, summary="1 kB", duration_ms=500)
    text = turn_markdown(folded([*failed, *again]))
    assert "(1.5 s)</summary>" in text
    assert "Timed out, tried again" in text


def test_cells_of_the_table_hold_nothing_that_could_end_them():
    args = {"path": "a|b`c<img src=x>\n\n</details>$x$\\|"}
    text = turn_markdown(folded(call("t", "read|file", args, 1, summary="<b>|\n`", duration_ms=1)))
    row = next(line for line in text.splitlines() if line.startswith("| <code>"))
    assert row == (
        "| <code>read&#124;file</code>"
        " | <code>a&#124;b&#96;c&#60;img src=x&#62; &#60;/details&#62;&#36;x&#36;&#92;&#124;</code>"
        " | &lt;b&gt;\\| | done | 0.0 s |"
    )


def test_a_failed_turn_says_first_what_to_do():
    hint = "Check it with `ozzie secrets set OPENAI_API_KEY`."
    view = folded([(1, "task.failed", {"code": "c", "message": "The provider refused the key.", "hint": hint})])
    first = turn_markdown(view).splitlines()[0]
    assert first == f"**Failed.** The provider refused the key. {hint} Your message is kept."


def test_a_failed_turn_keeps_what_the_provider_said_folded_at_its_end():
    said = {"code": "provider.auth", "message": "No.", "hint": "Look.", "detail": "Incorrect | key\n`x`" + "y" * 600}
    *_, details, _footer = turn_markdown(folded([(1, "task.failed", said)])).split("<details>")[-1].split("</details>")
    rows = [line for line in details.splitlines() if line.startswith("| ")][1:]
    assert [row.split(" | ")[0] for row in rows] == ["| Time", "| Code", "| Task", "| Provider said"]
    assert rows[0].endswith(" UTC |")
    assert "`provider.auth`" in rows[1]
    assert "Incorrect &#124; key &#96;x&#96;" in rows[3]
    assert len(rows[3]) < 600


def test_a_failed_turn_without_a_providers_words_has_no_row_for_them():
    view = folded([(1, "task.failed", {"code": "bug", "message": "No.", "hint": "Look."})])
    assert "Provider said" not in turn_markdown(view)


def test_a_stopped_turn_ends_with_who_stopped_it():
    view = folded([*BEGINNING, (3, "task.cancelled", {"by": "user", "reason": ""})])
    lines = turn_markdown(view).splitlines()
    assert lines[0] == "**Stopped.**"
    assert lines[-3] == "Stopped here by you."


def test_a_turn_saved_while_it_runs_says_where_the_rest_is():
    first = turn_markdown(folded([*BEGINNING, *WORK])).splitlines()[0]
    assert first.startswith("This turn was still running when the notebook was saved.")


def test_code_of_one_reply_is_written_with_regard_to_the_others():
    html = {"reply_id": "a", "offset": 0, "content": "```html\n<b>\n```"}
    shell = {"reply_id": "b", "offset": 0, "content": "```sh\necho $HOME\n```"}
    alone = fold(folded([]), "reply.delta", html)
    assert "```html\n<b>\n```" in turn_markdown(alone)
    assert "<pre><code>&#60;b&#62;</code></pre>" in turn_markdown(fold(alone, "reply.delta", shell))


def test_who_answered_in_the_place_of_another_is_told_with_both_names():
    answers = {"alias": "main", "provider": "local", "model": "llama", "instead_of": "anthropic"}
    failed = (2, "model.call.failed", {"call_id": "m1", "code": "provider.server", "message": "", "latency_ms": 3.0})
    again = (3, "model.call.started", {"call_id": "m1b", **answers})
    frames: list[Frame] = [*BEGINNING[:4], failed, again, (4, "task.succeeded", {"rounds": 1})]

    data = static_bundle(view := folded(frames))[0]

    assert "main (local/llama), instead of anthropic" in data["text/markdown"]
    assert "main (local)" in live_html(view)
    assert "local/llama, instead of anthropic" in live_html(view)
    assert data[TURN_MIME]["model"]["instead_of"] == "anthropic"


def test_a_stand_in_is_forgotten_when_the_model_that_was_wanted_answers():
    answers = {"alias": "main", "provider": "local", "model": "llama", "instead_of": "anthropic"}
    view = folded([*DONE[:2], (1, "model.call.started", {"call_id": "a", **answers})])
    assert view.answering == "main (local)"

    wanted = {"call_id": "b", "alias": "main", "provider": "anthropic", "model": "claude", "instead_of": ""}
    assert fold(view, "model.call.started", wanted).answering == "main"


def test_nothing_is_told_of_tokens_and_cost_while_only_calls_that_failed_have_ended():
    failed = (2, "model.call.failed", {"call_id": "m1", "code": "provider.server", "message": "", "latency_ms": 3.0})
    view = folded([*BEGINNING[:4], failed, (3, "model.call.started", {"call_id": "m2"})])

    assert "$" not in live_html(view)
    assert "0 tokens" not in live_html(view)


def test_the_figures_of_a_turn_hold_what_it_delegated_and_a_retry_does_not_count_that_twice():
    steps = {
        "models": [{"alias": name, "provider": "p", "model": name} for name in ("main", "small", "eyes", "ears")],
        "usage": {"input_tokens": 1000, "output_tokens": 200, "cached_tokens": 0},
        "cost": 2_000_000,
        "cost_known": True,
    }
    run = fold(new_turn(), "task.failed", {"code": "x", "message": "No.", "hint": "", "delegated": steps})
    run = fold(run, "task.retried", {"by": "ann", "attempt": 2})
    run = fold(run, "task.succeeded", {"rounds": 2, "delegated": {**steps, "cost": 5_000_000}})
    agent = folded([*DONE[:-1], (7, "task.succeeded", {"rounds": 2, "delegated": {**steps, "cost_known": False}})])

    told = turn_json(run)
    footer = "Ozzie: Done · main (p/main) · small (p/small) · 2 more models · 1,200 tokens · &#36;0.005"
    assert footer in turn_markdown(run)
    assert (told["usage"], told["cost"]) == ({"input_tokens": 1000, "output_tokens": 200}, 5_000_000)
    assert [model["model"] for model in told["models"]] == ["main", "small", "eyes", "ears"]
    assert "main (anthropic/claude-sonnet) · main (p/main) · 3 more models" in turn_markdown(agent)
    assert (agent.total_tokens, agent.cost_known) == (3120 + 1200, False)
