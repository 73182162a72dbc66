"""The tool index: what somebody asks for finds the tool that does it, whatever SQLite has, and whatever they write."""

import gc
import sqlite3
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.terms import MAX_TEXT, terms
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.index import MAX_TOLD, ToolIndex
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.unit.tools.many import made, many_tools
from tests.unit.tools.test_base import tool

BUILTIN = ToolRegistry(builtin_tools())
FTS5, FTS4 = ToolIndex(BUILTIN), ToolIndex(BUILTIN, fts5=False)
BOTH = pytest.mark.parametrize("index", [FTS5, FTS4], ids=["fts5", "fts4"])

QUESTIONS = {
    "read the file data/sales.csv": "fs.read",
    "What is 17.5 % of 2,480? Use the calculator.": "calc.eval",
    "what time is it in Tokyo?": "time.now",
    "List the folder src": "fs.list",
    "search all files for TODO": "fs.search",
    "find all csv files": "fs.find",
    "write a file hello.txt with two lines": "fs.write",
    "replace the word foo by bar in README.md": "fs.edit",
    "move the file old.txt to the trash": "fs.trash",
    "apply the changes of that command": "fs.apply",
    "run ls -la in a shell": "shell.run",
    "run this Python program": "code.python",
    "read the notebook analysis.ipynb": "notebook.read",
    "add a Markdown cell to the notebook": "notebook.insert",
    "change the text of cell 3 in the notebook": "notebook.edit",
    "move the second cell to the top": "notebook.move",
    "delete the last cell": "notebook.delete",
    "undo the last edit of that cell": "notebook.undo",
    "run the first cell of the notebook": "notebook.run",
    "which kernels are running?": "kernel.list",
    "execute print(df.head()) in the kernel": "kernel.run",
    "what variables does my kernel have?": "kernel.inspect",
    "run make on my own machine": "host.run",
    "fetch https://example.org and summarise the page": "web.fetch",
    "search the web for news about Jupyter": "web.search",
    "ask me which colour I like": "user.ask",
    "read the rest of that artifact": "artifact.read",
    "keep a note of what we decided": "note.write",
    "which notes did you keep?": "note.read",
    "which tasks of this session are still open?": "task.list",
    "stop the task that waits behind this one": "task.cancel",
    "is there a tool for that? find one": "tool.find",
}
OTHER_WORDS = {
    "which files are in the folder src": "fs.list",
    "show me the cells of analysis.ipynb": "notebook.read",
    "delete the file old.txt": "fs.trash",
    "write a two-line note to notes/hello.md": "fs.write",
}
"""Questions in words that fit other tools better."""

ALIKE = (
    *("readFile", "read_file", "undo that cell edit", "write a note", "web search", "inspect the kernel"),
    *("calculate 2+2", "current time", "trash this file", "run in a sandbox", "ask the user", "list kernels"),
)


def ids(found: tuple[Tool, ...]) -> list[str]:
    return [tool.meta.tool_id for tool in found]


def rank(index: ToolIndex, question: str, wanted: str) -> int:
    """From 1; 99 where it is not found at all."""
    found = ids(index.search(question))
    return found.index(wanted) + 1 if wanted in found else 99


def test_every_tool_that_comes_with_ozzie_is_asked_for() -> None:
    assert set(QUESTIONS.values()) == set(ids(tuple(tool for tool in BUILTIN.all() if tool.meta.is_for_models)))


@BOTH
def test_what_is_asked_for_is_among_the_first_five_and_mostly_the_first(index: ToolIndex) -> None:
    ranks = {question: rank(index, question, wanted) for question, wanted in QUESTIONS.items()}

    assert {question: found for question, found in ranks.items() if found > 5} == {}
    assert sum(found == 1 for found in ranks.values()) >= 22, ranks


@BOTH
def test_in_other_words_it_is_among_the_first_eight(index: ToolIndex) -> None:
    assert max(rank(index, question, wanted) for question, wanted in OTHER_WORDS.items()) <= 8


@BOTH
def test_among_a_hundred_and_fifty_tools_it_is_still_found(index: ToolIndex) -> None:
    crowd = ToolIndex(ToolRegistry([*builtin_tools(), *many_tools()]), fts5=index is FTS5)

    ranks = {question: rank(crowd, question, wanted) for question, wanted in QUESTIONS.items()}

    assert {question: found for question, found in ranks.items() if found > 10} == {}
    assert ids(crowd.search("assign the ticket to Ana"))[0] == "ticket.assign"
    assert ids(crowd.search("please close the invoices"))[0] == "invoice.close"


@pytest.mark.parametrize("question", ALIKE)
def test_both_ways_rank_the_same_tool_first(question: str) -> None:
    first, second = ids(FTS5.search(question)), ids(FTS4.search(question))

    assert first[0] == second[0]
    assert set(first) == set(second), "and find the same ones"


@BOTH
@pytest.mark.parametrize(
    "said", ["read file", "read_file", "readFile", "ReadFile", "READ FILE", "fs.read", "reading files"]
)
def test_a_name_is_found_however_its_words_are_joined(index: ToolIndex, said: str) -> None:
    assert ids(index.search(said))[0] == "fs.read"


@BOTH
def test_what_a_tool_is_called_weighs_more_than_what_is_said_of_another(index: ToolIndex) -> None:
    called = made("a.a", "water_flowers", "Open the valve of the garden for some minutes, if it was dry for a day.")
    others = [made(f"b.b{n}", f"beta_{n}", "Count flowers of the flowers.") for n in range(3)]
    bystanders = [made(f"c.c{n}", f"gamma_{n}", "Do something else.") for n in range(20)]
    found = ToolIndex(ToolRegistry([called, *others, *bystanders]), fts5=index is FTS5)

    assert ids(found.search("flowers"))[0] == "a.a"


@BOTH
def test_the_beginning_of_a_word_is_enough_where_no_tool_has_the_word(index: ToolIndex) -> None:
    assert ids(index.search("calc")) == ["calc.eval"], "that is a word of its id"
    assert ids(index.search("calcul"))[0] == "calc.eval"
    assert ids(index.search("cal")) == [], "three letters are the beginning of anything"


@BOTH
def test_tags_and_examples_are_found_too(index: ToolIndex) -> None:
    plain = made("a.a", "alpha", "Do something.")
    tagged = made("b.b", "beta", "Do something.", tags=("weather",))
    shown = made("c.c", "gamma", "Do something.", examples=("Will it rain in Oslo tomorrow?",))
    found = ToolIndex(ToolRegistry([plain, tagged, shown]), fts5=index is FTS5)

    assert ids(found.search("the weather there")) == ["b.b"]
    assert ids(found.search("is rain coming to Oslo")) == ["c.c"]


@BOTH
def test_parameters_are_found_by_their_names_and_by_what_is_said_of_them(index: ToolIndex) -> None:
    found = ToolIndex(ToolRegistry([tool(), made("a.a", "alpha", "Do something.")]), fts5=index is FTS5)

    assert ids(found.search("how many times")) == ids(found.search("who is greeted")) == ["test.greet"]


@BOTH
def test_of_equals_the_first_by_id_comes_first(index: ToolIndex) -> None:
    twins = [made(f"{letter}.twin", f"twin_{letter}", "Water the flowers.") for letter in "dbca"]
    found = ToolIndex(ToolRegistry(twins), fts5=index is FTS5)

    assert ids(found.search("flowers")) == ["a.twin", "b.twin", "c.twin", "d.twin"]


@BOTH
def test_a_script_without_blanks_is_searched_by_pairs_of_its_signs(index: ToolIndex) -> None:
    weather = made("a.a", "alpha", "查询天气预报")
    mail = made("b.b", "beta", "发送电子邮件")
    found = ToolIndex(ToolRegistry([weather, mail]), fts5=index is FTS5)

    assert ids(found.search("明天的天气怎么样")) == ["a.a"]
    assert ids(found.search("邮件")) == ["b.b"]


@BOTH
def test_accents_and_capitals_do_not_matter(index: ToolIndex) -> None:
    found = ToolIndex(ToolRegistry([made("a.a", "alpha", "Zeige die Übersicht der Straßen.")]), fts5=index is FTS5)

    assert [ids(found.search(said)) for said in ("ÜBERSICHT", "ubersicht", "STRASSEN")] == [["a.a"]] * 3


@BOTH
def test_tools_that_come_later_are_found_and_the_old_index_is_closed(index: ToolIndex) -> None:
    registry = ToolRegistry([made("a.a", "alpha", "Water the flowers.")])
    found = ToolIndex(registry, fts5=index is FTS5)
    assert ids(found.search("flowers")) == ["a.a"]

    registry.register(made("b.b", "beta", "Water the flowers in the morning, all the flowers."))

    assert set(ids(found.search("flowers"))) == {"a.a", "b.b"}
    del found
    gc.collect()  # a connection that is left open is a warning, and that an error here


@BOTH
def test_an_empty_registry_finds_nothing(index: ToolIndex) -> None:
    assert ToolIndex(ToolRegistry(), fts5=index is FTS5).search("anything") == ()


HOSTILE = (
    *('"', '""', '"read" OR', "NEAR(read, 2)", "read NEAR/3 file", "AND", "OR NOT AND", "*", "read*", "-read", "^read"),
    *("told:read", "text : read", "(read", "read)", "{read file} : x", "+read + file", "';DROP TABLE told;--", "\\"),
    *("\0", "read\0file", "\ud800", "read \udfff file", "﷽" * 300_000, "ﷺ" * 300_000, "read " * 100_000, "x" * 500_000),
    *("读取文件" * 50_000, "a\u0301" * 200_000, "e" + "\u0301" * 300_000, " ".join(f"word{i}" for i in range(60_000))),
)


@BOTH
@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_can_break_it(index: ToolIndex, query: str) -> None:
    assert ids(index.search(query)) == ids(index.search(query))


@BOTH
def test_operators_are_words_like_others(index: ToolIndex) -> None:
    plain = ids(index.search("read file"))

    for said in ('"read" "file"', "read* file*", "(read) : file", "^read + file", "told:read file -file"):
        assert set(ids(index.search(said))) >= set(plain), said
    assert ids(index.search("calculator NOT calculator")) == ids(index.search("calculator")), "it would find nothing"


@given(query=st.text(max_size=200) | st.text(alphabet="\"*^-+:(){}'\\ \0\ud800ANDORTEread file_.٣़", max_size=60))
@example(query="\U0001e922\U0001e923")
@example(query="\u0345\u1e9e İı")
def test_whatever_is_asked_both_ways_answer_and_find_the_same(query: str) -> None:
    assert set(ids(FTS5.search(query))) == set(ids(FTS4.search(query)))


@given(about=st.text(min_size=1, max_size=300), query=st.text(max_size=50))
def test_whatever_an_outsider_says_of_a_tool_can_be_searched(about: str, query: str) -> None:
    strange: Any = made("a.a", "alpha", "x")
    strange.spec = type(strange.spec)(name="alpha", description=about, parameters={"properties": {about: about}})

    for fts5 in (True, False):
        assert set(ids(ToolIndex(ToolRegistry([strange]), fts5=fts5).search(query))) <= {"a.a"}


@pytest.mark.parametrize("schema", [{}, {"properties": None}, {"properties": []}, {"properties": {"a": 1, "b": {}}}])
def test_a_schema_may_be_anything(schema: Any) -> None:
    strange: Any = made("a.a", "alpha", "x")
    strange.spec = type(strange.spec)(name="alpha", description="flowers", parameters=schema)

    assert ids(ToolIndex(ToolRegistry([strange])).search("flowers")) == ["a.a"]


def test_who_says_very_much_of_a_tool_is_not_found_for_all_of_it() -> None:
    endless = made("a.a", "alpha", "filler " * MAX_TOLD + "flowers")

    assert ids(ToolIndex(ToolRegistry([endless])).search("flowers")) == []


def test_of_a_long_text_its_beginning_and_its_end_count() -> None:
    pasted = "lorem " * MAX_TEXT

    assert ids(FTS5.search(f"calculator {pasted}"))[0] == "calc.eval"
    assert ids(FTS5.search(f"{pasted} calculator"))[0] == "calc.eval"
    assert ids(FTS5.search(f"{pasted} calculator {pasted}")) == []


def test_a_term_is_the_same_from_a_name_and_from_a_sentence() -> None:
    assert terms("deleteFiles") == terms("deleting the file") == terms("delete_file") == ["delet", "fil"]
    assert terms("HTTPServer v2") == ["http", "server", "v2"]
    assert terms("queries running classes telling") == ["query", "run", "class", "tell"]


def test_without_any_full_text_search_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ozzie_server_ext.tools.index._FTS5", ("CREATE VIRTUAL TABLE told USING fts9(text)", "", ""))
    monkeypatch.setattr("ozzie_server_ext.tools.index._FTS4", ("CREATE VIRTUAL TABLE told USING fts8(text)", "", ""))

    with pytest.raises(Unavailable, match="no full-text search"):
        ToolIndex(BUILTIN).search("anything")


def test_without_fts5_the_other_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a build without it: the module is not there."""
    monkeypatch.setattr("ozzie_server_ext.tools.index._FTS5", ("CREATE VIRTUAL TABLE told USING fts9(text)", "", ""))

    found = ToolIndex(BUILTIN).search("read the file")

    assert found == FTS4.search("read the file")
    assert sqlite3.sqlite_version_info >= (3, 7, 13), "which has unicode61"
