"""The proof in an export: what is changed, moved, added or taken out is found and named."""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any, cast

import pytest
from msgspec import convert, structs, to_builtins

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import Event
from ozzie_server_ext.domain.exports import Form
from ozzie_server_ext.export.proof import NUMBER, PROOF, Found, Item, Proof, compare, read_export, shown_line
from ozzie_server_ext.export.signing import public_key, sign, signing_key
from ozzie_server_ext.render.static import TURN_MIME
from ozzie_server_ext.store.log import EventLog
from tests.integration.export.recorded import ANOTHER_KEY, FORK, KEY, SESSION, TRUSTED, Home, answered

Notebook = dict[str, Any]
Verdicts = list[tuple[int | None, str]]


def output(notebook: Notebook, cell: int, index: int = 1) -> dict[str, Any]:
    """The output of a cell: its turn, or with the index 0 who said it and when."""
    return notebook["cells"][cell]["outputs"][index]["data"]


def replace(data: dict[str, Any], mime: str, old: str, new: str) -> None:
    assert old in data[mime]
    data[mime] = data[mime].replace(old, new, 1)


def edit(cell: int, mime: str, old: str, new: str, index: int = 1) -> Callable[[Notebook], None]:
    return lambda notebook: replace(output(notebook, cell, index), mime, old, new)


def source(cell: int, text: str) -> Callable[[Notebook], None]:
    return lambda notebook: notebook["cells"][cell].update(source=text)


def markdown(text: str = "Approved.") -> Notebook:
    return {"id": "new", "cell_type": "markdown", "metadata": {}, "source": text}


def forged(number: int) -> Notebook:
    """A cell that says it is one of the export's."""
    return {**markdown(), "metadata": {NUMBER: number}}


def _in_json(notebook: Notebook) -> None:
    output(notebook, 1)[TURN_MIME]["parts"][0]["text"] = "It is **43**."


def _swapped_outputs(notebook: Notebook) -> None:
    cells = notebook["cells"]
    cells[1]["outputs"], cells[2]["outputs"] = cells[2]["outputs"], cells[1]["outputs"]


def _swapped_cells(notebook: Notebook) -> None:
    cells = notebook["cells"]
    cells[2], cells[3] = cells[3], cells[2]


def _swapped_with_numbers(notebook: Notebook) -> None:
    _swapped_cells(notebook)
    for at in (2, 3):
        notebook["cells"][at]["metadata"] = {NUMBER: at}


def _copied_over(notebook: Notebook) -> None:
    notebook["cells"][2] = {**deepcopy(notebook["cells"][1]), "metadata": {NUMBER: 2}}


def _doubled(notebook: Notebook) -> None:
    notebook["cells"].insert(2, deepcopy(notebook["cells"][1]))


def _without_numbers(notebook: Notebook) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    notebook["cells"][2]["source"] += "."


def _as_markdown(notebook: Notebook) -> None:
    cell = notebook["cells"][2]
    notebook["cells"][2] = {**markdown(cell["source"]), "metadata": cell["metadata"]}


def _as_raw(notebook: Notebook) -> None:
    notebook["cells"][0]["cell_type"] = "raw"


def _attached(notebook: Notebook) -> None:
    notebook["cells"][0]["attachments"] = {"a.png": {"image/png": "aGk="}}


def _html(notebook: Notebook) -> None:
    output(notebook, 1)["text/html"] = "<b>It is 43.</b>"


def _error_added(notebook: Notebook) -> None:
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": []}
    notebook["cells"][1]["outputs"].append(error)


def _stream_added(notebook: Notebook) -> None:
    notebook["cells"][1]["outputs"].append({"output_type": "stream", "name": "stdout", "text": "approved"})


def _output_lost(notebook: Notebook) -> None:
    notebook["cells"][1]["outputs"].pop()


def _outputs_turned(notebook: Notebook) -> None:
    notebook["cells"][1]["outputs"].reverse()


def _mime_lost(notebook: Notebook) -> None:
    del output(notebook, 1)["text/markdown"]


def _as_a_result(notebook: Notebook) -> None:
    notebook["cells"][1]["outputs"][1].update(output_type="execute_result", execution_count=1)


def _counted(notebook: Notebook) -> None:
    notebook["cells"][1]["execution_count"] = 7


def _uncounted(notebook: Notebook) -> None:
    notebook["cells"][1]["execution_count"] = None


def _all_reversed(notebook: Notebook) -> None:
    notebook["cells"].reverse()


def _cost(notebook: Notebook) -> None:
    output(notebook, 1)[TURN_MIME]["cost"] = 1


def _half_true(notebook: Notebook) -> None:
    """True equals 1 in Python."""
    output(notebook, 1)[TURN_MIME]["v"] = True


RECORDED = "as recorded"
ALL: Verdicts = [(number, RECORDED) for number in range(1, 8)]


def but(changes: dict[int, str]) -> Verdicts:
    """All as recorded, but for these."""
    return [(number, changes.get(number, RECORDED)) for number in range(1, 8)]


def added(at: int) -> Verdicts:
    """A cell more, at that number, which is not from the log."""
    return [(number, "not from this log" if number == at else RECORDED) for number in range(1, 9)]


CHANGED, MOVED, FOREIGN, MISSING = "changed since", "moved", "not from this log", "missing"
LESS: Verdicts = [*ALL[:6], (None, MISSING)]
NONE: Verdicts = [(None, MISSING) for _ in ALL]
TAMPERED: list[tuple[str, Callable[[Notebook], Any], Verdicts | None]] = [
    ("a character of the message", source(1, "What is 6 * 8?"), but({2: CHANGED})),
    ("a blank at the end", source(1, "What is 6 * 7? "), but({2: CHANGED})),
    ("a new line at the end", source(1, "What is 6 * 7?\n"), but({2: CHANGED})),
    ("a look-alike", source(2, "Write а.md"), but({3: CHANGED})),
    ("an invisible character", source(2, "Write\u200b a.md"), but({3: CHANGED})),
    (
        "an accent written in another way",
        edit(2, "text/markdown", "gr\u00f6\u00dfer", "gro\u0308\u00dfer"),
        but({3: CHANGED}),
    ),
    ("no message", source(1, ""), but({2: CHANGED})),
    ("another cell's message", source(2, "What is 6 * 7?"), but({3: CHANGED})),
    ("a character of the answer", edit(1, "text/markdown", "42", "43"), but({2: CHANGED})),
    ("a character of the plain answer", edit(1, "text/plain", "42", "43"), but({2: CHANGED})),
    ("a character of our page's answer", _in_json, but({2: CHANGED})),
    ("who approved", edit(2, "text/markdown", "by Ana", "by Eve"), but({3: CHANGED})),
    ("when it was approved", edit(2, "text/markdown", "once by Ana, 0", "once by Ana, 1"), but({3: CHANGED})),
    ("that it was approved", edit(2, "text/markdown", "| approval |", "| |"), but({3: CHANGED})),
    ("which tool", edit(2, "text/markdown", "`write_file`", "`read_file`"), but({3: CHANGED})),
    ("who said it", edit(1, "text/markdown", "Ana", "Eve", index=0), but({2: CHANGED})),
    ("when it was said", edit(1, "text/markdown", "00:01", "00:02", index=0), but({2: CHANGED})),
    ("whose update", edit(4, "text/markdown", "Ben", "Ana", index=0), but({5: CHANGED})),
    ("that it failed", edit(5, "text/markdown", "**Failed.**", "**Done.**"), but({6: CHANGED})),
    ("the cost", _cost, but({2: CHANGED})),
    ("a number by a truth", _half_true, but({2: CHANGED})),
    ("the head", source(0, "# Notebook"), but({1: CHANGED})),
    ("an output more", _error_added, but({2: CHANGED})),
    ("a printed line more", _stream_added, but({2: CHANGED})),
    ("another kind of output", _html, but({2: CHANGED})),
    ("a picture attached", _attached, but({1: CHANGED})),
    ("an output less", _output_lost, but({2: CHANGED})),
    ("a kind of output less", _mime_lost, but({2: CHANGED})),
    ("outputs in another order", _outputs_turned, but({2: CHANGED})),
    ("a display as a result", _as_a_result, but({2: CHANGED})),
    ("another count", _counted, but({2: CHANGED})),
    ("no count", _uncounted, but({2: CHANGED})),
    ("a cell's outputs for another's", _swapped_outputs, but({2: CHANGED, 3: CHANGED})),
    ("code as text", _as_markdown, but({3: CHANGED})),
    ("text as raw", _as_raw, but({1: CHANGED})),
    ("a cell over another", _copied_over, but({3: CHANGED})),
    ("a message, and no numbers", _without_numbers, but({3: CHANGED})),
    ("two cells swapped", _swapped_cells, None),
    ("two cells swapped, with their numbers", _swapped_with_numbers, None),
    ("a cell twice", _doubled, added(3)),
    ("a cell more", lambda notebook: notebook["cells"].insert(3, markdown()), added(4)),
    ("a cell more at the end", lambda notebook: notebook["cells"].append(markdown()), added(8)),
    ("a cell more that says it is one", lambda notebook: notebook["cells"].insert(3, forged(2)), added(4)),
    ("a cell more with a number of its own", lambda notebook: notebook["cells"].append(forged(99)), added(8)),
    ("a cell less", lambda notebook: notebook["cells"].pop(3), LESS),
    ("the last cell less", lambda notebook: notebook["cells"].pop(), LESS),
    ("the head less", lambda notebook: notebook["cells"].pop(0), LESS),
    ("no cells", lambda notebook: notebook["cells"].clear(), NONE),
    ("something that is no cell", lambda notebook: notebook["cells"].append("cell"), added(8)),
]


@pytest.mark.parametrize(("tamper", "expected"), [each[1:] for each in TAMPERED], ids=[each[0] for each in TAMPERED])
async def test_a_notebook_that_was_tampered_with(
    home: Home, tamper: Callable[[Notebook], Any], expected: Verdicts | None
) -> None:
    await home.tell()
    notebook = await home.notebook()
    assert home.check(notebook).ok

    tamper(notebook)
    found = home.check(notebook)

    verdicts = [(finding.number, finding.verdict) for finding in found.findings]
    assert not found.ok
    if expected is None:  # which of the two was moved can't be known
        assert sorted(verdicts) in (but({3: MOVED}), but({4: MOVED}))
    else:
        assert verdicts == expected


async def test_it_says_what_of_a_cell_was_changed_and_where_a_lost_one_stood(home: Home) -> None:
    await home.tell()
    notebook = await home.notebook()
    notebook["cells"][1]["source"] += "!"
    output(notebook, 2)["text/plain"] += "!"
    notebook["cells"].insert(1, notebook["cells"].pop(6))
    del notebook["cells"][4]
    notebook["cells"][0]["metadata"]["jupyter"] = {"source_hidden": True}

    assert [(each.number, each.verdict, each.note) for each in home.check(notebook).findings] == [
        (1, "as recorded", "hidden until it is unfolded"),
        (2, "moved", "it was number 7"),
        (3, "changed since", "its text"),
        (4, "changed since", "its output"),
        (5, "as recorded", ""),
        (6, "as recorded", ""),
        (None, "missing", "number 4, which stood after what is number 4 now"),
    ]


def saved_again(notebook: Notebook, seed: int) -> Notebook:
    """The notebook as another editor writes it: other ids, keys in another order, texts as lines, further metadata."""
    order = random.Random(seed)

    def written(value: Any, *, is_shown: bool = True) -> Any:
        match value:
            case dict():
                names = list(value)
                order.shuffle(names)
                return {name: written(value[name], is_shown=name != PROOF) for name in names}
            case list():
                return [written(each) for each in value]
            case _:
                return value

    again = written(notebook)
    for number, cell in enumerate(again["cells"]):
        cell["id"] = f"other-{number}"
        cell["metadata"] |= {"trusted": False, "editable": True}
        cell["source"] = cell["source"].splitlines(keepends=True)
        for each in cell.get("outputs", []):
            each["metadata"] = {"ozzie": {"x": 1}}
            for mime, text in each["data"].items():
                if isinstance(text, str):
                    each["data"][mime] = text.splitlines(keepends=True)
    again["nbformat_minor"] = 4
    return again


@pytest.mark.parametrize("seed", range(3))
async def test_the_proof_survives_an_editor_that_saves_the_same_notebook_in_its_own_way(home: Home, seed: int) -> None:
    await home.tell()

    assert home.check(saved_again(await home.notebook(), seed), log=True).ok


async def test_whole_numbers_may_be_saved_without_their_point(home: Home) -> None:
    """As JavaScript does."""
    await home.tell()
    notebook = await home.notebook()
    times = output(notebook, 1)[TURN_MIME]["times"]
    assert isinstance(times["worked_s"], float)
    times["worked_s"] = int(times["worked_s"])

    assert home.check(notebook).ok


# --- signatures -------------------------------------------------------------------------------------------------------


async def test_only_a_key_counts_that_does_not_come_from_the_file(home: Home) -> None:
    await home.tell()
    home.key = ANOTHER_KEY
    notebook = await home.notebook()
    theirs = public_key(signing_key(ANOTHER_KEY))

    assert home.check(notebook, trusted=[theirs]).ok
    for trusted in ([], TRUSTED):
        found = home.check(notebook, trusted=trusted)
        assert (found.ok, found.signature) == (False, "unknown")
        assert {finding.verdict for finding in found.findings} == {RECORDED}


async def test_without_a_key_the_export_is_there_and_not_signed(home: Home) -> None:
    await home.tell()
    home.key = None

    found = home.check(await home.notebook())

    assert (found.ok, found.signature) == (False, "missing")


FIELDS = ["session", "log", "head", "at", "version", "items", "key", "signature"]


@pytest.mark.parametrize("field", FIELDS)
async def test_a_proof_that_was_changed_proves_nothing(home: Home, field: str) -> None:
    await home.tell()
    notebook = await home.notebook()
    proof = notebook["metadata"][PROOF]
    match proof[field]:
        case str() as text if field == "at":
            proof[field] = text.replace("2026", "2025")
        case str() as text:
            proof[field] = text[:-3] + ("abc" if not text.endswith("abc") else "abd")
        case int() as number:
            proof[field] = number + 1
        case items:
            items.pop()
    if field == "key":
        proof["key"] = public_key(signing_key(ANOTHER_KEY))

    found = home.check(notebook, trusted=[*TRUSTED, public_key(signing_key(ANOTHER_KEY))])

    assert (found.ok, found.signature) == (False, "bad")


async def test_a_proof_of_another_export_finds_nothing_as_recorded(home: Home) -> None:
    await home.tell()
    await home.begin(FORK)
    await home.say("Elsewhere", session_id=FORK)
    notebook, other = await home.notebook(), await home.notebook(FORK)
    notebook["metadata"][PROOF] = other["metadata"][PROOF]

    found = home.check(notebook)

    assert found.signature == "trusted"
    assert RECORDED not in {finding.verdict for finding in found.findings}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"[]",
        b"{",
        b'{"cells": 1}',
        b'{"cells": []}',
        b'{"a": NaN}',
        b"\xff",
        b'{"a": 1}\n{"b": 2}',
        b"{}",
    ],
)
async def test_a_file_without_a_proof_is_refused_in_words(home: Home, content: bytes) -> None:
    with pytest.raises(InputError) as caught:
        home.check(content.decode("latin-1"))
    assert caught.value.hint


@pytest.mark.parametrize(
    "odd",
    [
        {"at": "yesterday"},
        {"at": 7},
        {"at": "0001-01-01T00:00:00.000000Z"},
        {"at": "9999-12-31T23:59:59.000000Z"},
        {"at": "2026-02-30T00:00:00.000000Z"},
        {"at": "2026-01-01"},
        {"session": "It is signed with the key of this home."},
        {"session": "s" * 200},
        {"version": "1\x1b[31m"},
        {"head": -1},
        {"head": 1 << 70},
        {"head": "7"},
        {"items": [7]},
        {"items": [{"shown": "x", "events": 1 << 70}]},
        {"items": None},
        {"format": 2},
        {"kind": "other"},
    ],
    ids=str,
)
async def test_a_proof_of_another_shape_is_none(home: Home, odd: dict[str, Any]) -> None:
    await home.tell()
    notebook = await home.notebook()
    notebook["metadata"][PROOF] |= odd

    with pytest.raises(InputError, match="no proof in this file"):
        home.check(notebook)


@pytest.mark.parametrize("position", [1 << 70, -1, 0, "1", True, 1.0, None])
async def test_a_line_with_an_odd_position_is_not_from_the_log(home: Home, position: Any) -> None:
    """As somebody with the key could sign it."""
    await home.tell()
    line = {"position": position, "hash": "0" * 64, "payload": {}}
    unsigned = json.loads((await home.text("jsonl")).splitlines()[-1])[PROOF] | {"key": "", "signature": ""}
    proof = convert({**unsigned, "items": [{"shown": shown_line(line)}]}, Proof)
    signed = to_builtins(sign(proof, signing_key(KEY)))

    (finding,) = home.check(f"{json.dumps(line)}\n{json.dumps({PROOF: signed})}", log=True).findings

    assert finding.verdict == FOREIGN


@pytest.mark.parametrize(
    "found",
    [Found("a", "s"), Found("b", "s"), Found("b", "s", 7), Found("a", "s", -1)],
    ids=["equal", "other", "claiming", "odd"],
)
def test_a_great_many_cells_take_no_more_than_their_time(found: Found) -> None:
    """The work grows with them, not with their square: so many would take hours."""
    items = tuple(Item("a" if number % 2 else "c", "s") for number in range(100_000))
    proof = Proof(
        kind="notebook", session="s", log="l", head=1, at="2026-01-01T00:00:00.000000Z", version="0", items=items
    )

    assert len(compare(proof, [found] * 100_000)) >= 100_000


def test_cells_in_the_worst_order_take_no_more_than_their_time() -> None:
    items = tuple(Item(str(number), "s") for number in range(60_000))
    proof = Proof(
        kind="notebook", session="s", log="l", head=1, at="2026-01-01T00:00:00.000000Z", version="0", items=items
    )
    order = [*range(30_000, 60_000), *range(30_000)[::-1]]

    findings = compare(proof, [Found(str(number), "s") for number in order])

    assert sum(finding.verdict == MOVED for finding in findings) == 30_000


@pytest.mark.parametrize("kind", ["cells", "lines"])
async def test_more_cells_than_any_export_has_are_refused_in_words(home: Home, kind: str) -> None:
    many = '{"cells": [' + ",".join(["1"] * 100_001) + '], "nbformat": 4}' if kind == "cells" else "{}\n" * 100_001

    with pytest.raises(InputError, match="more than 100,000 cells or lines"):
        home.check(many)


@pytest.mark.parametrize("change", [{"nbformat": 3}, {"nbformat": 5}, {"nbformat": "4"}, {"worksheets": []}], ids=str)
async def test_a_notebook_of_another_format_is_refused(home: Home, change: dict[str, Any]) -> None:
    """Readers of version 3 show the cells of worksheets, and not those that are checked."""
    await home.tell()

    with pytest.raises(InputError, match="another format"):
        home.check(await home.notebook() | change)


@pytest.mark.parametrize(
    "metadata",
    [
        {"collapsed": True},
        {"jupyter": {"outputs_hidden": True}},
        {"tags": ["remove-cell"]},
        {"jp-MarkdownHeadingCollapsed": True},
    ],
    ids=str,
)
async def test_a_cell_that_is_folded_away_is_told(home: Home, metadata: dict[str, Any]) -> None:
    await home.tell()
    notebook = await home.notebook()
    notebook["cells"][0]["metadata"] |= metadata

    found = home.check(notebook)

    assert [each.number for each in found.findings if each.note == "hidden until it is unfolded"] == [1]
    assert found.ok


async def test_proofs_of_cells_and_lines_can_not_be_exchanged(home: Home) -> None:
    await home.tell()
    notebook = await home.notebook()
    lines = (await home.text("jsonl")).splitlines()
    notebook["metadata"][PROOF] = json.loads(lines[-1])[PROOF]

    with pytest.raises(InputError):
        home.check(notebook)


# --- lines ------------------------------------------------------------------------------------------------------------


async def test_lines_that_were_tampered_with(home: Home) -> None:
    await home.tell()
    text = await home.text("jsonl")
    *lines, proof = text.splitlines()
    assert home.check(text, log=True).ok

    changed = [line.replace("Write a.md", "Write b.md") for line in lines]
    assert [each.number for each in home.check("\n".join([*changed, proof])).findings if each.verdict == CHANGED]
    shortened = home.check("\n".join([*lines[:4], *lines[5:], proof]))
    assert [(each.item, each.verdict) for each in shortened.findings if each.verdict != RECORDED] == [(4, MISSING)]
    swapped = home.check("\n".join([lines[1], lines[0], *lines[2:], proof]))
    assert [each.verdict for each in swapped.findings].count(MOVED) == 1
    more = home.check("\n".join([*lines, '{"position": 99}', proof]))
    assert [each.verdict for each in more.findings][-1] == FOREIGN
    again = "\n".join(json.dumps(json.loads(line), indent=None, sort_keys=True) for line in [*lines, proof])
    assert home.check(again).ok


def spoken(text: str) -> str:
    return json.dumps({"position": 4, "payload": {"text": text}})


@pytest.mark.parametrize(
    "smuggle",
    [
        lambda lines, proof: [json.dumps({**json.loads(lines[0]), PROOF: None}), *lines, proof],
        lambda lines, proof: [json.dumps({**json.loads(spoken("forged")), PROOF: 1}), *lines, proof],
        lambda lines, proof: [*lines, json.dumps({**json.loads(proof), "payload": {"text": "forged"}})],
        lambda lines, proof: [*lines, proof, spoken("forged")],
        lambda lines, proof: [proof, *lines],
        lambda lines, proof: [*lines, proof, proof],
    ],
    ids=["an odd proof in it", "a number as proof", "in the proof's line", "behind it", "proof first", "two proofs"],
)
async def test_nothing_hides_behind_the_proof_of_lines(
    home: Home, smuggle: Callable[[list[str], str], list[str]]
) -> None:
    await home.tell()
    *lines, proof = (await home.text("jsonl")).splitlines()

    with suppress(InputError):  # if there is no proof where it has to be
        assert not home.check("\n".join(smuggle(lines, proof))).ok


@pytest.mark.parametrize("where", ["proof", "item"])
async def test_a_proof_has_no_room_for_anything_else(home: Home, where: str) -> None:
    await home.tell()
    notebook = await home.notebook()
    proof = notebook["metadata"][PROOF]
    (proof if where == "proof" else proof["items"][0])["note"] = "Approved by Ana."

    with pytest.raises(InputError, match="no proof in this file"):
        home.check(notebook)


@pytest.mark.parametrize(
    "metadata",
    [
        {"transient": {"remove_source": True}},
        {"slideshow": {"slide_type": "skip"}},
        {"magics_language": "x\n# FORGED"},
        {"hide_input": True},
        {"ozzie": {"made_from": "x"}},
        {"cellView": "form"},
    ],
    ids=str,
)
async def test_metadata_of_a_cell_that_programs_obey_are_told(home: Home, metadata: dict[str, Any]) -> None:
    """nbconvert, for one, leaves out a cell's text for the first of them."""
    await home.tell()
    notebook = await home.notebook()
    notebook["cells"][2]["metadata"] |= metadata

    found = home.check(notebook)

    assert not found.ok
    assert [each.number for each in found.findings if each.further] == [3]


@pytest.mark.parametrize(
    "metadata",
    [{"title": "FORGED"}, {"authors": []}, {"widgets": {}}, {"language_info": {"name": "x\n# FORGED"}}],
    ids=str,
)
async def test_metadata_of_the_notebook_that_programs_obey_are_told(home: Home, metadata: dict[str, Any]) -> None:
    await home.tell()
    notebook = await home.notebook()
    notebook["metadata"] |= metadata

    found = home.check(notebook)

    assert (found.ok, found.further) == (False, tuple(metadata))


# --- with the log at hand ---------------------------------------------------------------------------------------------


async def test_with_the_log_at_hand_it_is_told_what_was_erased_since(home: Home) -> None:
    await home.begin()
    await home.say("one", *answered("1", "the first"))
    erased = await home.say("two", *answered("2", "the second"))
    notebook, lines = await home.notebook(), await home.text("jsonl")
    await home.say("three")
    assert home.check(notebook, log=True).ok
    await home.erase(erased)

    found = home.check(notebook, log=True)
    assert [each.verdict for each in found.findings] == [RECORDED, RECORDED, "erased since"]
    assert (found.ok, found.log) == (True, "same")
    assert {each.verdict for each in home.check(lines, log=True).findings} == {RECORDED, "erased since"}
    assert {each.verdict for each in home.check(notebook).findings} == {RECORDED}


class Forged:
    """A log in which the last event has another hash."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, **which: Any) -> tuple[Event, ...]:
        last = (await self._log.head()).position
        found = await self._log.read(**which)
        return tuple(structs.replace(event, hash="0" * 64) if event.position == last else event for event in found)


async def test_what_a_key_signed_that_the_log_does_not_have_is_not_from_it(home: Home) -> None:
    """Who holds the key can sign anything, but not put it into a log that is at hand."""
    await home.tell()
    exports = home.exports_of(cast(EventLog, Forged(home.log)))

    cases: list[tuple[Form, int]] = [("ipynb", 7), ("jsonl", (await home.log.head()).position)]
    for form, at in cases:
        _, text = await exports.export(SESSION, form)
        assert home.check(text).ok
        found = home.check(text, log=True)
        assert [each.number for each in found.findings if each.verdict == FOREIGN] == [at]


async def test_a_moved_cell_is_not_excused_by_an_erasure(home: Home) -> None:
    await home.begin()
    await home.say("one")
    erased = await home.say("two")
    notebook = await home.notebook()
    cells = notebook["cells"]
    cells[1], cells[2] = cells[2], cells[1]
    await home.erase(erased)

    found = home.check(notebook, log=True)

    assert not found.ok
    assert sorted(each.verdict for each in found.findings) in (
        ["as recorded", "as recorded", "moved"],
        ["as recorded", "erased since", "moved"],
    )


async def test_the_log_is_not_read_for_a_file_that_nobody_vouches_for(home: Home) -> None:
    """A forged proof could name a long task a thousand times."""
    await home.tell()

    assert home.check(await home.notebook(), log=True, trusted=[]).log == "none"


async def test_another_log_says_nothing_about_it(home: Home, tmp_path: Any) -> None:
    await home.tell()
    notebook = await home.notebook()
    other = await Home.open(tmp_path / "other")
    await other.tell()

    found = other.check(notebook, log=True)

    assert (found.ok, found.log) == (True, "other")
    await other.log.close()


def test_a_large_file_is_read_within_its_limit() -> None:
    with pytest.raises(InputError):
        read_export(b'{"cells": [' + b"[" * 100 + b"]" * 100 + b"]}")
