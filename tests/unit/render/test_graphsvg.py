"""The picture of a workflow in a saved notebook: what it shows, and that nothing in it can act."""

import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ozzie_server_ext.render.graph.output import graph_svg
from ozzie_server_ext.render.graph.view import GraphStep, GraphView, Move
from ozzie_server_ext.render.text import columns
from tests.unit.render.graphs import NOW, STATES, chain, changed, reworked, step, tender_scan, weekly_review, workflows

SVG = "{http://www.w3.org/2000/svg}"
NUMBER, NUMBERS = r"-?\d+(\.\d+)?", r"[MLHVQAZhvmlacCz\d., -]+"
COLOUR = r"none|#[0-9a-f]{6}"
PAINT = {"fill": COLOUR, "stroke": COLOUR, "stroke-width": NUMBER, "stroke-dasharray": r"\d+(\.\d+)? \d+(\.\d+)?"}
ALLOWED: Mapping[str, Mapping[str, str]] = {
    "svg": {
        **{"viewBox": r"0 0 \d+ \d+", "width": r"\d+", "height": r"\d+", "role": "img", "fill": COLOUR},
        **{"font-family": r"[A-Za-z ,'-]+", "font-size": r"\d+"},
    },
    "title": {},
    "desc": {},
    "g": {
        **PAINT,
        "transform": r"translate\(\d+,\d+\) scale\(0?\.\d+\)",
        "stroke-linecap": "round",
        "stroke-linejoin": "round",
    },
    "rect": {**PAINT, "x": NUMBER, "y": NUMBER, "width": NUMBER, "height": NUMBER, "rx": NUMBER},
    "circle": {**PAINT, "cx": NUMBER, "cy": NUMBER, "r": NUMBER},
    "path": {**PAINT, "d": NUMBERS},
    "text": {
        **{"x": NUMBER, "y": NUMBER, "fill": COLOUR, "font-size": r"\d+"},
        **{"text-anchor": "middle|end", "text-decoration": "line-through"},
    },
}
"""What the picture may be made of: element -> attribute -> what its value must match."""

HOSTILE = (
    "<script>alert(1)</script>",
    "]]></text><script>1</script>",
    "a & b &amp; &#x3c;script&#x3e;",
    '" onload="alert(1)" x=\'',
    "right \u202eto left\u2066 again",
    "two\nlines\r\nand\x00 a \x1b[31mred\x07 bell",
    "long " * 2000,
    "👩\u200d🔬 and ❤\ufe0f",
    "half of one \ud83d",
    "no character \ufffe\uffff",
    "zero\u200bwidth\ufeff\U000e0041",
    "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>&e;",
    "日本語のとても長いタイトルです",
    "e" + "\u0301" * 500,
    "",
)


def drawn(view: GraphView, **more: int) -> ET.Element:
    return ET.fromstring(graph_svg(view, now=NOW, **more))


def texts(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def intruders(root: ET.Element) -> list[str]:
    """Every element and attribute that is not on the list."""
    found: list[str] = []
    for each in root.iter():
        rules = ALLOWED.get(each.tag.removeprefix(SVG))
        if rules is None:
            found.append(f"<{each.tag}>")
            continue
        found += [
            f"{name}={value!r} of <{each.tag}>"
            for name, value in each.attrib.items()
            if name not in rules or not re.fullmatch(rules[name], value)
        ]
    return found


SEEN = {*map(chr, range(0x600, 0x606)), *"\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"}
"""Signs before numbers and letters, which are seen though they format: Unicode's Prepended_Concatenation_Mark."""


def acting(root: ET.Element) -> set[str]:
    """The characters of any text that nobody sees, but that may reorder or hide others."""
    said = "".join(root.itertext())
    return {char for char in said if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - SEEN


def node(root: ET.Element, title: str) -> ET.Element:
    """The group of the node that a pointer's hint calls `title`."""
    return next(each for each in root.iter(f"{SVG}g") if each.findtext(f"{SVG}title") == title)


def in_state(**more: object) -> ET.Element:
    """The node of a single step."""
    root = drawn(GraphView(name="one", steps=(replace(step("only", seconds=2.0), **more),)))
    return next(each for each in root.iter(f"{SVG}g") if each.find(f"{SVG}title") is not None)


def test_the_mockups_graph_says_what_the_mockup_says() -> None:
    assert texts(drawn(weekly_review())) == [
        *("plan", "2.1 s · main · $0.004"),
        *("read sources", "0.8 s · 14 files"),
        *("search web", "3.4 s · cheap"),
        *("summarise × 24", "9.2 s · cheap · $0.011"),
        *("last week", "0.3 s"),
        *("check claims", "6 s · main · 3 of 8"),
        *("merge", "1.9 s · main · $0.006"),
        *("write report", "After check claims"),
        *("publish", "Waiting for you"),
    ]


def test_it_is_named_and_described_for_who_does_not_see_it() -> None:
    root = drawn(weekly_review())

    assert root.findtext(f"{SVG}title") == "weekly-review, Waiting for you"
    assert root.findtext(f"{SVG}desc") == "29 of 32 steps have ended, 1 running, 1 waiting for you."


def test_it_brings_its_own_white_background() -> None:
    root = drawn(weekly_review())
    background = root.find(f"{SVG}rect")

    assert background is not None
    assert (root.get("width"), root.get("height")) == (background.get("width"), background.get("height"))
    assert background.get("fill") == "#ffffff"


def test_lines_are_blue_into_a_running_node_and_amber_into_a_waiting_one() -> None:
    lines = {
        each.get("stroke"): len(each.findall(f"{SVG}path"))
        for each in drawn(weekly_review()).findall(f"{SVG}g")
        if each.get("stroke-width") == "1.25"
    }

    assert lines == {"#bdbdbd": 7, "#1976d2": 2, "#e65100": 1}


@pytest.mark.parametrize(
    ("state", "stroke", "dashes", "fill"),
    [
        ("Waiting", "#bdbdbd", "3 3", "#ffffff"),
        ("Working", "#1976d2", None, "#ffffff"),
        ("Waiting for you", "#e65100", None, "#ffffff"),
        ("Waiting for your answer", "#e65100", None, "#ffffff"),
        ("Needs a decision", "#d32f2f", None, "#ffffff"),
        ("Done", "#bdbdbd", None, "#ffffff"),
        ("Failed", "#d32f2f", None, "#ffffff"),
        ("Skipped", "#bdbdbd", None, "none"),
        ("Stopped", "#bdbdbd", None, "#ffffff"),
        ("Paused", "#bdbdbd", None, "#ffffff"),
    ],
)
def test_the_frame_of_each_state(state: str, stroke: str, dashes: str | None, fill: str) -> None:
    frame = in_state(state=state).find(f"{SVG}rect")

    assert frame is not None
    assert (frame.get("stroke"), frame.get("stroke-dasharray"), frame.get("fill")) == (stroke, dashes, fill)


def test_states_differ_by_the_shape_of_their_icon_and_not_by_colour_alone() -> None:
    shapes: dict[str, set[str]] = {}
    for state in STATES:
        icon = in_state(state=state).find(f"{SVG}g")
        assert icon is not None
        shape = "".join(ET.tostring(each, encoding="unicode") for each in icon)
        shapes.setdefault(shape, set()).add(state)

    assert sorted(map(len, shapes.values())) == [1, 1, 1, 1, 1, 1, 1, 1, 2]
    assert {"Waiting for you", "Waiting for your answer"} in shapes.values()


def test_a_skipped_step_is_struck_through() -> None:
    assert [each.get("text-decoration") for each in in_state(state="Skipped").iter(f"{SVG}text")] == [
        "line-through",
        None,
    ]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"note": "3 of 8", "model": "main", "cost": 4_000_000}, "2.0 s · 3 of 8 · $0.004"),
        ({"cost_known": False}, "2.0 s · cost unknown"),
        ({"attempt": 2, "attempts": 3}, "2.0 s · attempt 2 of 3"),
        ({"state": "Failed", "problem": "The file is empty."}, "The file is empty."),
        ({"state": "Failed"}, "Failed"),
        ({"state": "Stopped"}, "Stopped · 2.0 s"),
        ({"state": "Paused", "note": "to be checked"}, "to be checked · 2.0 s"),
        ({"state": "Paused", "finished_at": None}, "Paused"),
        ({"finished_at": None, "state": "Working"}, "21 s"),
    ],
    ids=["the model goes first", "cost unknown", "again", "why", "failed", "stopped", "held", "held itself", "running"],
)
def test_the_second_line_tells_most_of_what_fits(more: dict[str, object], line: str) -> None:
    assert [each.text for each in in_state(**more).iter(f"{SVG}text")] == ["only", line]


def test_the_time_of_a_running_step_is_left_out_where_nobody_knows_the_time() -> None:
    said = texts(ET.fromstring(graph_svg(weekly_review())))

    assert said[said.index("check claims") + 1] == "Working · 3 of 8"


def test_a_step_that_waits_for_a_stack_names_the_stack() -> None:
    view = changed(weekly_review(), lambda each: replace(each, state="Waiting"))
    said = texts(drawn(view))

    assert said[said.index("merge") + 1] == "After summarise + 1"


def test_a_stack_tells_how_far_it_is() -> None:
    half = {f"tender {number}" for number in range(12)}
    view = changed(weekly_review(), lambda each: replace(each, state="Failed") if each.step_id in half else each)
    root = drawn(view)

    assert node(root, "summarise × 24, Failed").findall(f"{SVG}text")[1].text == "24 of 24, 12 failed"


def test_a_name_is_cut_at_sixteen_characters_and_whole_in_the_hint() -> None:
    title = "read all the sources of last week"
    root = drawn(GraphView(name="long", steps=(step(title),)))

    assert texts(root)[0] == "read all the so…"
    assert node(root, f"{title}, Waiting") is not None


def test_a_state_machine_shows_where_it_is_and_how_often_it_came_by() -> None:
    root = drawn(reworked())

    assert root.findtext(f"{SVG}desc") == "4 states, now in rework."
    assert {"review × 3", "rework × 3", "draft", "again", "not good"} <= set(texts(root))
    outline = node(root, "rework × 3, Working").findall(f"{SVG}rect")[1]
    assert (outline.get("fill"), outline.get("stroke")) == ("none", "#1976d2")
    dashed = [each for each in root.iter(f"{SVG}path") if each.get("stroke-dasharray")]
    assert len(dashed) == 2


def test_a_step_is_a_dot_of_the_shape_of_its_state_where_there_are_many() -> None:
    root = drawn(tender_scan())

    assert {"fetch", "40 of 40", "score", "28 of 60", "report", "0 of 4"} <= set(texts(root))
    filled = [each for each in root.findall(f"{SVG}g") if each.get("fill") == "#9e9e9e"]
    assert sum(len(each.findall(f"{SVG}circle")) for each in filled) == 148
    running = [each for each in root.findall(f"{SVG}g") if each.get("stroke") == "#1976d2"]
    assert sum(len(each.findall(f"{SVG}circle")) for each in running) == 12


def test_what_went_wrong_among_the_dots_is_listed_below_them() -> None:
    said = texts(drawn(tender_scan()))

    assert said[said.index("0 of 4") + 1 :] == [
        *("score", "tender 0026.pdf", "The answer had no number for “total”; 3 of 3 attempts"),
        *("score", "tender 0027.pdf", "The file is empty"),
        *("score", "tender 0040.pdf", "Waiting for you"),
    ]


def test_why_a_full_node_failed_is_told_whole_below_the_picture() -> None:
    problem = "Two of the claims have no source, and one has a source that says something else."
    failed = {"state": "Failed", "problem": problem, "attempt": 2, "attempts": 2}
    root = drawn(changed(weekly_review(), lambda each: replace(each, **failed) if each.title == "merge" else each))

    assert texts(root)[-3:] == ["merge", f"{problem.removesuffix('.')}; 2 of 2 attempts", "1.9 s"]


def test_of_many_failures_the_first_are_listed_and_the_others_counted() -> None:
    said = texts(drawn(changed(tender_scan(), lambda each: replace(each, state="Failed"))))

    assert said.count("score") == 1
    assert said.count("Failed") == 20
    assert said[-1] == "… and 180 more"


def hostile_views(text: str) -> list[GraphView]:
    def spoilt(each: GraphStep) -> GraphStep:
        return replace(each, title=text, model=text, note=text, problem=text, skill=each.skill and text, visits=3)

    def failed(each: GraphStep) -> GraphStep:
        return replace(spoilt(each), state="Failed")

    moves = tuple(replace(move, label=text) for move in reworked().moves)
    views = [weekly_review(), tender_scan(), chain(20), replace(reworked(), moves=moves)]
    return [replace(changed(view, change), name=text) for view in views for change in (spoilt, failed)]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_text(text: str) -> None:
    for view in hostile_views(text):
        root = drawn(view)
        assert intruders(root) == []
        assert acting(root) == set()


@given(st.text(st.characters(exclude_categories=[])))
@example("\U00013430\U0001bca0\U0001d173")
def test_any_text_stays_text(text: str) -> None:
    for view in hostile_views(text)[-2:]:
        root = drawn(view)
        assert intruders(root) == []
        assert acting(root) == set()


def test_what_would_act_is_shown_as_what_it_is() -> None:
    view = GraphView(name="a\u202eb", steps=(step("c\u202ed<e>", step_id="x"),), moves=(Move(source="x", to="x"),))

    assert drawn(view).findtext(f"{SVG}title") == "a\\u202eb, Waiting"
    assert texts(drawn(view))[0] == "c\\u202ed<e>"


@given(workflows(most=70), st.data())
def test_any_workflow_in_any_state_is_a_picture(view: GraphView, data: st.DataObject) -> None:
    states = st.sampled_from(STATES)
    root = drawn(changed(view, lambda each: replace(each, state=data.draw(states), attempt=2, visits=2)))

    assert intruders(root) == []
    assert all(columns(said) <= 200 for said in texts(root))


def test_two_hundred_steps_are_a_small_picture() -> None:
    assert len(graph_svg(tender_scan())) < 16_000
